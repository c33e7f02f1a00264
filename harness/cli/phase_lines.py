"""Progress of a verbose command as lines on stderr: each phase when it begins, and where it is every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from .time_left import TimeLeft, clock_text

EVERY_S: Final = 10.0
"""Seconds between two lines of one phase."""


class PhaseLines:
    """Prints progress as lines; see :data:`harness.run.progress.Progress`. ``clock`` returns seconds."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._title = title
        self._clock = clock
        self._began = clock()
        self._phase = ""
        self._due = 0.0
        self._left = TimeLeft(clock)

    def tell(self, fraction: float, text: str) -> None:
        """Take in progress, and print it if a phase begins or a line is due."""
        self._left.tell(fraction)
        phase, now = text.partition(":")[0], self._clock()
        if phase == self._phase and now < self._due:
            return
        self._phase, self._due = phase, now + EVERY_S
        left = self._left.text()
        elapsed = clock_text(now - self._began)
        print(f"{self._title}: {elapsed}{f', {left}' if left else ''}: {text[:200]}", file=sys.stderr, flush=True)
