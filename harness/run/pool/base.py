"""The interface of a worker pool, and what its implementations have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import ParamSpec, TypeVar

Params = ParamSpec("Params")
Result = TypeVar("Result")


class WorkerDied(Exception):
    """A job is given up: as many workers died of it as the pool allows. The message says how many, and how."""


class Pool(ABC):
    """Calls functions in workers, which may die: their jobs are then executed again by other workers.

    Functions must be importable by name (``functools.partial`` of such a function is, too); arguments and results are
    pickled.
    """

    in_advance: int = 2
    """Jobs to submit for each worker, so that none waits while the consumer handles a result."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of jobs that can be executed at the same time now."""

    @property
    def lanes(self) -> Sequence[Pool]:
        """Pools of one worker each, which together are this one; only itself if its workers cannot be chosen. Submit
        either to the lanes or to the pool."""
        return [self]

    @abstractmethod
    def submit(self, work: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs) -> Future[Result]:
        """Have a worker call ``work``."""

    def result(self, future: Future[Result]) -> Result:
        """Return the result of a future that is done. Raises what the job raised, and WorkerDied if it was given up."""
        return future.result()

    def check(self) -> None:  # noqa: B027 - a pool that cannot lose its workers has nothing to check
        """Raise EnvironmentLacking if no worker is left. Called about once a second while results are awaited."""

    def shared(self, folder: Path) -> Path:
        """Return the path under which every worker can write to ``folder``.

        Raises EnvironmentLacking if a worker does not have that folder.
        """
        return folder

    @abstractmethod
    def close(self) -> None:
        """Drop the jobs that are not done, and end the workers that belong to this process."""
