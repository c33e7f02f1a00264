"""The seam between a hunt and those who play its jobs."""

from __future__ import annotations

from abc import abstractmethod
from concurrent.futures import Executor, Future
from typing import TypeVar

Result = TypeVar("Result")


class WorkerDied(Exception):
    """As many workers have died of one job as are worth trying."""


class Workers(Executor):
    """An executor whose workers may die: what they were at is played again, by others."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many jobs can be played at the same time, now."""

    @abstractmethod
    def outcome(self, future: Future[Result]) -> Result:
        """Wait for what ``submit`` gave. Raises what the job raises, WorkerDied if it is given up, and
        EnvironmentLacking if nobody is left to play it."""
