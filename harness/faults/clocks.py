"""The shifts that the faults of a run have made to the wall clocks of its hosts.

A cluster's clock is *set*, so the last setting wins. This module adds up the shifts of several faults on each host, so
that healing one fault leaves the others as they were.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from harness.clusters.abilities import CLOCKS
from harness.clusters.base import Cluster

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Shift:
    """One fault's part in one clock: ``offset_ns`` at ``since_ns`` (monotonic), and ``rate`` seconds a second more."""

    offset_ns: int
    rate: float = 0.0
    since_ns: int = 0

    def at(self, now_ns: int) -> int:
        """Return how far the fault has put the clock ahead by then, ns."""
        return self.offset_ns + int((now_ns - self.since_ns) * self.rate)


class Clocks:
    """All shifts, by schedule and host; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shifts: dict[Hashable, dict[str, Shift]] = {}

    def of(self, schedule: Hashable) -> dict[str, Shift]:
        """Return what the turns of one schedule have left so far."""
        with self._lock:
            return self._shifts.get(schedule, {})

    def take_over(self, cluster: Cluster, schedule: Hashable, shifts: dict[str, Shift]) -> None:
        """Replace all that earlier turns of the schedule have left by ``shifts``."""
        with self._lock:
            before = self._shifts.get(schedule, {})
            self._shifts[schedule] = shifts
            self._set(cluster, [host for host in {**before, **shifts} if before.get(host) != shifts.get(host)])

    def take_away(self, cluster: Cluster, schedule: Hashable, shifts: dict[str, Shift]) -> None:
        """Undo these shifts, unless a later turn has taken them over."""
        with self._lock:
            if self._shifts.get(schedule) is shifts:
                self._set(cluster, self._shifts.pop(schedule))

    def expected(self, host: str, now_ns: int) -> int:
        """Return how far all faults together have put a clock ahead of true time, ns."""
        with self._lock:
            return sum(shift.at(now_ns) for shift in self._on(host))

    def _on(self, host: str) -> list[Shift]:
        return [shifts[host] for shifts in self._shifts.values() if host in shifts]

    def _set(self, cluster: Cluster, hosts: Iterable[str]) -> None:
        wall_clocks = CLOCKS.of(cluster)
        for host in hosts:
            now, _ = cluster.clock()  # read it for each host: setting a real clock takes time, and others drift on
            shifts = self._on(host)
            offset = sum(shift.at(now) for shift in shifts)
            wall_clocks.set_clock(host, offset / SECOND, sum(shift.rate for shift in shifts))
