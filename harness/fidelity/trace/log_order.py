"""Places in the order of a replicated log, whose entries have numbers that replies say.

Recorded traffic is then searched in the order of the log, not of times: a member may answer with a state that is
behind. Of the times remains that an entry comes after those that replies had said before its request arrived.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from .execution import FOREVER

LAST: Final = FOREVER - 1
"""Place in the order that is after all entries."""


def place(number: int, *, reads: bool) -> int:
    """Return the place of an entry, or of the reads after it."""
    return 2 * number + reads


def number_at(place_ns: int) -> int:
    """Return the number of the entry at a place, or before it."""
    return place_ns >> 1


class Said:
    """The numbers that replies say, each with the time (ns) at which the reply was sent."""

    def __init__(self, said: Iterable[tuple[int, int]]) -> None:
        found = sorted(said)
        self._times: list[int] = []
        self._highest: list[int] = []
        for sent_ns, number in found:
            self._times.append(sent_ns)
            self._highest.append(max(number, self._highest[-1] if self._highest else 0))
        latest: list[tuple[int, int]] = []
        for number, sent_ns in sorted(((number, sent_ns) for sent_ns, number in found), reverse=True):
            if not latest or sent_ns < latest[-1][1]:
                latest.append((number, sent_ns))
        self._latest = latest[::-1]

    def before(self, time_ns: int) -> int:
        """Return the highest number that was said before a time, -1 if there is none."""
        at = bisect_left(self._times, time_ns)
        return self._highest[at - 1] if at else -1

    def latest_ns(self, number: int) -> int:
        """Return the time until which an entry was executed at the latest."""
        at = bisect_left(self._latest, (number, 0))
        return self._latest[at][1] if at < len(self._latest) else FOREVER
