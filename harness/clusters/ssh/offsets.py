"""Offset of a host's monotonic clock to the one of this machine, measured by round trips, with bounds.

The host reads its clock between the departure of a request and the arrival of the answer. So the offset is known to
within half a round trip at that time, and at another time within what the two clocks may drift apart meanwhile. The
bounds of all measurements hold at once; the quickest ones decide (the minimum-delay filter of NTP, RFC 5905, section
10). Entries are converted with one offset for the whole run, the best one from before it. Its error is the farthest
that the true offset may have been from it at any time of the run.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from harness.clusters.conversation import Refused, Unanswered
from harness.history.recordings import DRIFT, ClockOffset

EVERY_S: Final = 0.2
"""Time between two measurements during a run, seconds."""
FIRST: Final = 20
"""Measurements before a run."""
Read = Callable[[], int]
"""Reads the host's monotonic clock, ns."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The host's clock was ``offset_ns`` ahead, give or take ``error_ns``, at ``at_ns`` of this machine's clock."""

    at_ns: int
    offset_ns: int
    error_ns: int


def measure(read: Read, clock: Callable[[], int] = time.monotonic_ns) -> Measurement:
    """Measure the offset once."""
    before = clock()
    there = read()
    after = clock()
    middle = (before + after) // 2
    return Measurement(middle, there - middle, (after - before + 1) // 2)


def bounds(measurements: list[Measurement], at_ns: int) -> tuple[int, int]:
    """Return the least and the largest offset (ns) that all measurements allow at a time. The least is above the
    largest if they contradict each other: then a clock was not steady."""
    apart = [(one, one.error_ns + int(DRIFT * abs(at_ns - one.at_ns))) for one in measurements]
    return max(one.offset_ns - error for one, error in apart), min(one.offset_ns + error for one, error in apart)


def error_of(measurements: list[Measurement], offset_ns: int) -> int:
    """Return the largest difference (ns) of ``offset_ns`` to the true offset, at any time from the first to the last
    measurement."""
    times = [one.at_ns for one in measurements]
    gap = max((later - earlier for earlier, later in pairwise(times)), default=0)
    between = int(DRIFT * gap / 2)
    found = [bounds(measurements, at) for at in times]
    if any(low > high for low, high in found):
        return max(abs(one.offset_ns - offset_ns) + one.error_ns for one in measurements) + between
    return max(max(high - offset_ns, offset_ns - low) for low, high in found) + between


class HostClock:
    """The monotonic clock of one host, measured before a run by :meth:`begin`, and then until :meth:`end`."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._measurements: list[Measurement] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.offset_ns = 0
        """How far the host's clock is ahead of this machine's."""

    def begin(self) -> None:
        """Measure the offset; raises Unanswered if the host does not answer."""
        self._measurements = [measure(self._read) for _ in range(FIRST)]
        self.offset_ns = min(self._measurements, key=lambda one: one.error_ns).offset_ns
        self._thread = threading.Thread(target=self._watch, name="offsets", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            with contextlib.suppress(Unanswered, Refused):
                self._measurements.append(measure(self._read))

    def end(self) -> None:
        """Measure a last time, and stop."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            with contextlib.suppress(Unanswered, Refused):
                self._measurements += [measure(self._read) for _ in range(FIRST)]

    @property
    def count(self) -> int:
        """Number of measurements."""
        return len(self._measurements)

    def stated(self) -> ClockOffset:
        """Return what to add to a time of the host for this machine's time, with its error up to now."""
        return ClockOffset(
            -self.offset_ns, error_of(sorted(self._measurements, key=lambda one: one.at_ns), self.offset_ns)
        )

    def here(self, there_ns: int) -> int:
        """Return the time of this machine's clock at a time of the host's, ns."""
        return there_ns - self.offset_ns

    def there(self, here_ns: int) -> int:
        """Return the time of the host's clock at a time of this machine's, ns."""
        return here_ns + self.offset_ns
