"""Disks of real servers: each has one of its own, an ext4 that the helper has mounted on its /data, if a fault of the
plan needs them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from ..containers.engine import Box
from ..containers.helper import Helper
from .base import DiskState

SIZE: Final = 256 << 20
"""Bytes, as far as they are used: a Redis rewrites its log first when that has 64 MB."""
PROBE: Final = 0.3
"""Seconds in which a disk that does not stall has written a few bytes."""


def make_disks(helper: Helper, boxes: Iterable[Box]) -> None:
    for box in boxes:
        helper.disk("make_disk", box, size=SIZE)


class Disks:
    """Stalls count, and each needs its own end."""

    def __init__(self, helper: Helper, boxes: Mapping[str, Box]) -> None:
        self._helper = helper
        self._boxes = boxes
        self._stalls: Counter[str] = Counter()
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

    def state(self, host: str) -> DiskState:
        found: DiskState = self._helper.disk("attempt", self._boxes[host], timeout=PROBE)
        return found

    def cut_power(self, host: str) -> None:
        self._helper.disk("cut_power", self._boxes[host])

    def restore_power(self, host: str) -> None:
        """What was on the disk is there again; nothing happens to one that has power."""
        self._helper.disk("restore_power", self._boxes[host])


class WithDisks:
    """The part of a real cluster that damages disks; see :class:`harness.clusters.base.Cluster`."""

    _disks: Disks | None = None

    def _restore_power(self, host: str) -> None:
        if self._disks is not None:
            self._disks.restore_power(host)

    def kill(self, host: str, *, for_good: bool = False) -> None:
        raise NotImplementedError

    def stall(self, host: str) -> None:
        self._with_disks().stall(host)

    def unstall(self, host: str) -> None:
        self._with_disks().unstall(host)

    def disk(self, host: str) -> DiskState:
        return self._with_disks().state(host)

    def lose_power(self, host: str) -> None:
        """What the server still writes until it is killed, a millisecond later, fails."""
        self._with_disks().cut_power(host)
        self.kill(host)

    def _with_disks(self) -> Disks:
        if self._disks is None:
            raise RuntimeError("the servers have no disks of their own: 'disk' was not among the cluster's needs")
        return self._disks
