"""Processor time of container hosts: quotas of the kernel's CFS bandwidth control, set and read through the engine.

A quota alone does little, since a server computes for a fraction of a millisecond at a time. So busy processes of the
helper share it, as other programs do on an overcommitted machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from harness.clusters.docker.containers.engine import Box
from harness.clusters.docker.containers.helper_client import Helper

UNLIMITED: Final = -1
BUSY: Final = 8
"""Busy processes in a starved host."""


@dataclass(frozen=True, slots=True, eq=False)
class _Limit:
    share: float
    period_us: int


class Processors:
    """Processor time of a cluster's hosts; implements :class:`harness.clusters.abilities.hosts.ProcessorQuotas`."""

    def __init__(self, helper: Helper, boxes: Mapping[str, Box]) -> None:
        self._helper = helper
        self._boxes = boxes
        self._limits: dict[str, list[_Limit]] = {}
        self._lock = threading.Lock()

    def limit_processor(self, host: str, share: float, period_s: float) -> Callable[[], None]:
        """See :meth:`harness.clusters.abilities.hosts.ProcessorQuotas.limit_processor`."""
        limit = _Limit(share, round(period_s * 1e6))
        with self._lock:
            self._limits.setdefault(host, []).append(limit)
            if len(self._limits[host]) == 1:
                self._helper.load(self._boxes[host], BUSY)
            self._apply(host)

        def undo() -> None:
            with self._lock:
                if limit in self._limits[host]:
                    self._limits[host].remove(limit)
                    self._apply(host)

        return undo

    def throttled_s(self, host: str) -> float:
        """See :meth:`harness.clusters.abilities.hosts.ProcessorQuotas.throttled_s`."""
        return self._boxes[host].throttled_ns() / 1e9

    def release(self) -> None:
        """Undo all limits."""
        with self._lock:
            for host in [host for host, limits in self._limits.items() if limits]:
                self._limits[host].clear()
                self._apply(host)

    def _apply(self, host: str) -> None:
        limits = self._limits[host]
        if not limits:
            self._boxes[host].limit_processor(UNLIMITED)
            self._helper.load(self._boxes[host], 0)
            return
        least = min(limits, key=lambda limit: limit.share)
        self._boxes[host].limit_processor(round(least.share * least.period_us), least.period_us)
