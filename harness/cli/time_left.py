"""Estimate of the time that a long command still takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

LEAST_FRACTION: Final = 0.02
LEAST_S: Final = 2.0
"""The time left is estimated once this fraction was done in at least this time; before that it would jump."""


class TimeLeft:
    """Estimates the time left from the fraction done since the work began to advance.

    ``clock`` returns seconds. The start is not counted, because its duration says nothing about the rest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)

    def tell(self, fraction: float) -> None:
        """Take in the fraction that is done, from 0 to 1."""
        if fraction > self._last[1] or self._first is None:
            self._last = (self._clock(), fraction)
        if self._first is None and fraction > 0:
            self._first = self._last

    def seconds(self) -> float | None:
        """Return the estimated seconds that are left; None if nothing can be said, or nothing is left."""
        if self._first is None or self._last[1] >= 1:
            return None
        (began, before), (at, done) = self._first, self._last
        if done - before < LEAST_FRACTION or at - began < LEAST_S:
            return None
        left = (at - began) / (done - before) * (1 - done)
        return max(0.0, left - (self._clock() - at))

    def text(self) -> str:
        """Return the time left such as ``1:30 left``; "" if it is not known."""
        left = self.seconds()
        return "" if left is None else f"{clock_text(left)} left"


def clock_text(seconds: float) -> str:
    """Return seconds such as ``1:05``, hours as ``1:00:05``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
