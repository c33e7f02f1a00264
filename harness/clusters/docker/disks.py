"""Disk faults on container servers: stall a server's disk, probe it, and cut and restore its power.

If a fault of the plan needs it, each server has a disk of its own: an ext4 file system that the helper container mounts
on ``/data``.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from harness.clusters.abilities.servers import DiskState
from harness.clusters.docker.containers.engine import Box
from harness.clusters.docker.containers.helper_client import Helper

SIZE: Final = 256 << 20
"""Bytes (sparse). Redis rewrites its append-only file for the first time at 64 MB."""
PROBE: Final = 0.3
"""Seconds within which a disk that is not stalled writes a few bytes."""
TIMED: Final = 5.0
"""Seconds that a timed write may take."""


def make_disks(helper: Helper, boxes: Iterable[Box]) -> None:
    for box in boxes:
        helper.disk("make_disk", box, size=SIZE)


class Disks:
    """Disks of a cluster's servers; implements :class:`harness.clusters.abilities.servers.ServerDisks`. ``kill`` is
    :meth:`harness.clusters.abilities.hosts.Processes.kill`."""

    def __init__(self, helper: Helper, boxes: Mapping[str, Box], kill: Callable[[str], None]) -> None:
        self._helper = helper
        self._boxes = boxes
        self._kill = kill
        self._stalls: Counter[str] = Counter()
        self._fillings: Counter[str] = Counter()
        self._slow: defaultdict[str, list[int]] = defaultdict(list)
        self._lock = threading.Lock()

    def stall(self, host: str) -> None:
        with self._lock:
            self._stalls[host] += 1
            if self._stalls[host] == 1:
                self._helper.disk("freeze", self._boxes[host])

    def unstall(self, host: str) -> None:
        with self._lock:
            if self._stalls[host] == 1:
                self._helper.disk("thaw", self._boxes[host])
            self._stalls[host] = max(0, self._stalls[host] - 1)

    def fill(self, host: str) -> None:
        with self._lock:
            self._fillings[host] += 1
            if self._fillings[host] == 1:
                self._helper.disk("fill", self._boxes[host])

    def clear(self, host: str) -> None:
        with self._lock:
            if self._fillings[host] == 1:
                self._helper.disk("clear", self._boxes[host])
            self._fillings[host] = max(0, self._fillings[host] - 1)

    def slow(self, host: str, writes_per_s: int) -> Callable[[], None]:
        """See :meth:`harness.clusters.abilities.servers.ServerDisks.slow`."""
        undone = False
        with self._lock:
            self._slow[host].append(writes_per_s)
            self._apply_slow(host)

        def undo() -> None:
            nonlocal undone
            with self._lock:
                if not undone:
                    undone = True
                    self._slow[host].remove(writes_per_s)
                    self._apply_slow(host)

        return undo

    def _apply_slow(self, host: str) -> None:
        self._helper.disk("slow", self._boxes[host], per_second=min(self._slow[host], default=0))

    def sync_s(self, host: str) -> float | None:
        """See :meth:`harness.clusters.abilities.servers.ServerDisks.sync_s`."""
        took: float | None = self._helper.disk("timed_sync", self._boxes[host], timeout=TIMED)
        return took

    def disk(self, host: str) -> DiskState:
        found: DiskState = self._helper.disk("attempt", self._boxes[host], timeout=PROBE)
        return found

    def lose_power(self, host: str) -> None:
        """Cut the disk's power, then kill the host. Writes of the millisecond in between fail."""
        self._helper.disk("cut_power", self._boxes[host])
        self._kill(host)

    def restore_power(self, host: str) -> None:
        """Mount the disk again with what had been synced to it; no effect on a disk that has power."""
        self._helper.disk("restore_power", self._boxes[host])
