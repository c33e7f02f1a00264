"""Wall clocks of real hosts: set from outside in running processes, and set again in those that are started later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..containers.channel import Refused
from ..containers.engine import Box
from ..containers.helper import Helper


@dataclass(slots=True)
class _Clock:
    """How a clock was set: ns ahead, s gained a second, and when (monotonic ns)."""

    offset_ns: int
    rate: float
    since_ns: int = field(default_factory=time.monotonic_ns)

    def now(self) -> int:
        return self.offset_ns + round(self.rate * (time.monotonic_ns() - self.since_ns))


class HostClocks:
    """``ask`` is how a host's own program tells its clock: ns ahead of true time, None if it does not answer. ``own``
    moves a clock in a program's own way, where it has one."""

    def __init__(
        self,
        helper: Helper,
        boxes: Mapping[str, Box],
        ask: Callable[[str], int | None],
        own: Callable[[str, int, float, int], bool],
    ) -> None:
        self._helper = helper
        self._boxes = boxes
        self._ask = ask
        self._own = own
        self._clocks: dict[str, _Clock] = {}
        # Or a restart could put back what a fault has just replaced.
        self._setting = threading.RLock()

    def set(self, host: str, offset: float, rate: float) -> None:
        """``offset`` in seconds, ``rate`` in seconds a second."""
        with self._setting:
            self._clocks[host] = _Clock(round(offset * 1e9), rate)
            self.set_again(host)

    def was_set(self, host: str) -> bool:
        return host in self._clocks

    def set_again(self, host: str) -> None:
        """A process that was started since has true time."""
        with self._setting:
            clock = self._clocks.get(host)
            if clock is not None and not self._own(host, clock.offset_ns, clock.rate, clock.since_ns):
                self._helper.move_clock(self._boxes[host], clock.offset_ns, clock.rate, clock.since_ns)

    def forget(self) -> None:
        """Set no clock again: the processes that are started now are another run's."""
        with self._setting:
            self._clocks.clear()

    def read(self, host: str) -> int:
        """As the host's own program reads it; from its memory where it does not answer, because it is paused; and for a
        dead one as it will be when it is started. ns ahead of true time."""
        told = self._ask(host)
        if told is not None:
            return told
        try:
            return self._helper.clock(self._boxes[host])
        except Refused:
            return self._clocks[host].now() if host in self._clocks else 0
