"""Reconstruct the wall clocks of hosts from the readings that the nemesis recorded.

A reading is valid from its entry until the next reading of that host, and the rate of the active drifts extends it. The
moment at which a clock changed is known less precisely. An injection took effect at any time since its ``invoke``. A
heal took effect within :data:`HEALING` before its entry. A change that a plain reading shows happened at any time since
the reading before. In such a window the clock may have shown the old or the new time, and :meth:`Clock.over` considers
every time that it *may* have shown. A clock was correct until its first injection; if its first entry is a plain
reading, it always had that offset before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from harness.history import NEMESIS, SECOND, Op

HEALING: Final = 5 * SECOND
"""The longest time between the correction of a clock and its entry: see ``heal`` in docs/histories.md."""
EVER: Final = -(2**62)
FOR_EVER: Final = 2**62


def readings(op: Op) -> Iterable[tuple[str, int]]:
    """Yield the wall clock offsets, in ns ahead of true time, that an entry of the nemesis reports."""
    if op.process != NEMESIS or op.type == "invoke" or not isinstance(op.value, dict):
        return []
    seen = op.value if op.f == "clocks" else (op.value.get("observed") or {}).get("clock_ns")
    if not isinstance(seen, dict):
        return []
    return [(host, int(ns)) for host, ns in seen.items() if isinstance(ns, int | float)]


@dataclass(frozen=True, slots=True)
class Reading:
    """A clock reading: the clock was ``offset_ns`` ahead of true time at ``read_ns`` and gained ``rate`` seconds a
    second.

    It may have had this offset and rate since ``since_ns``.
    """

    since_ns: int
    read_ns: int
    offset_ns: int
    rate: float = 0.0

    def at(self, ns: int) -> int:
        return self.offset_ns + int((ns - self.read_ns) * self.rate)


class Clock:
    """The clock of one host. Times are true times (``CLOCK_MONOTONIC``), ns."""

    def __init__(self, first: int = 0) -> None:
        self._readings = [Reading(EVER, EVER, first)]
        self._read = [EVER]

    def add(self, since: int, read: int, offset: int, rate: float) -> None:
        """Add a reading that is later than all before."""
        self._readings.append(Reading(max(since, self._read[-1]), read, offset, rate))
        self._read.append(read)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The readings in the order of time; the first one holds since ever."""
        return tuple(self._readings)

    @property
    def moved(self) -> bool:
        return any(one.offset_ns != self._readings[0].offset_ns or one.rate for one in self._readings)

    @property
    def wrong(self) -> bool:
        """True if the clock was not correct at some time."""
        return any(one.offset_ns or one.rate for one in self._readings)

    def over(self, requested_ns: int, given_ns: int, end_ns: int, until_ns: int) -> tuple[int, int] | None:
        """Return when a lease may first have ended by this clock, and how far the clock had gained; None if it did not
        end.

        The lease was granted at some moment from ``requested_ns`` to ``given_ns``, until ``end_ns``. Moments after
        ``until_ns`` do not count.
        """
        before: int | None = None
        found: list[tuple[int, int]] = []
        for one, begin, end in self._during(requested_ns, until_ns):
            if begin <= given_ns:
                stood = min(one.at(begin), one.at(min(end, given_ns)))
                before = stood if before is None else min(before, stood)
            if before is not None and (hit := _shows(one, end_ns + before, begin, end)) is not None:
                found.append((hit, one.at(hit) - before))
        return min(found, default=None)

    def fell(self, since_ns: int, until_ns: int) -> int:
        """Return how far (ns) the clock may have been set back in that time, counted from its best moment to its last.

        A lease that began in that time may end so much later by this clock."""
        best, fell = EVER, 0
        for one, begin, end in self._during(since_ns, until_ns):
            ahead, after = sorted((one.at(begin), one.at(end)))
            best = max(best, after)
            fell = max(fell, best - ahead)
        return fell

    def _during(self, from_ns: int, until_ns: int) -> Iterator[tuple[Reading, int, int]]:
        """Yield each reading that may have been valid in that time, with the part of the time in which it may have
        been."""
        for number in range(max(0, bisect_left(self._read, from_ns) - 1), len(self._read)):
            one = self._readings[number]
            if one.since_ns > until_ns:
                return
            ended = self._read[number + 1] if number + 1 < len(self._read) else FOR_EVER
            yield one, max(from_ns, one.since_ns), min(until_ns, ended)


def _shows(one: Reading, wall_ns: int, begin: int, end: int) -> int | None:
    """Return the first moment, from ``begin`` to ``end``, at which the clock shows ``wall_ns``."""
    missing = wall_ns - (begin + one.at(begin))
    if missing <= 0:
        return begin
    pace = 1 + one.rate
    reached = begin + ceil(missing / pace) if pace > 0 else FOR_EVER
    return reached if reached <= end else None


def clocks(entries: Iterable[Op]) -> dict[str, Clock]:
    """Return the clocks of all hosts that the nemesis read, from its entries in the order of time."""
    found: dict[str, Clock] = {}
    begun: dict[Any, int] = {}
    drifts: dict[Any, tuple[list[str], float]] = {}
    for op in entries:
        if op.f not in ("clocks", "inject", "heal") or not isinstance(op.value, dict):
            continue
        number = op.value.get("id")
        if op.f == "inject" and op.type == "invoke":
            begun[number] = op.time
        _note_drift(drifts, op)
        for host, offset in readings(op):
            if host not in found:
                found[host] = Clock(offset if op.f == "clocks" else 0)
            rate = sum(rate for hosts, rate in drifts.values() if host in hosts)
            found[host].add(_since(op, begun.get(number, op.time)), op.time, offset, rate)
    return found


def _since(op: Op, begun: int) -> int:
    return begun if op.f == "inject" else op.time - HEALING if op.f == "heal" else EVER


def _note_drift(drifts: dict[Any, tuple[list[str], float]], op: Op) -> None:
    number = op.value.get("id")
    rate = (op.value.get("observed") or {}).get("rate") if op.f == "inject" else None
    if op.f == "heal":
        drifts.pop(number, None)
    elif isinstance(rate, int | float):
        drifts[number] = list(op.value.get("hosts") or ()), float(rate)
