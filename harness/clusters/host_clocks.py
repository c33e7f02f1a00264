"""Wall clocks of the hosts of a real cluster: set a host's clock in its processes, and again after each restart.

A new process starts with true time, so :class:`HostClocks` remembers each host's setting and reapplies it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from .conversation import Refused


@dataclass(slots=True)
class _Clock:
    """Setting of a clock: ns ahead of true time at ``since_ns`` (monotonic), gaining ``rate`` seconds a second."""

    offset_ns: int
    rate: float
    since_ns: int = field(default_factory=time.monotonic_ns)

    def now(self) -> int:
        return self.offset_ns + round(self.rate * (time.monotonic_ns() - self.since_ns))


class ClockMover(Protocol):
    """Moves the clocks of a host's running processes."""

    def move(self, host: str, offset_ns: int, rate: float, since_ns: int) -> None:
        """Set the clocks ``offset_ns`` ahead of true time at ``since_ns`` (this machine's monotonic clock), gaining
        ``rate`` seconds a second."""

    def setting(self, host: str) -> int:
        """Return how many ns the clocks were set ahead of true time; raises Refused if no process runs."""


class HostClocks:
    """Clock settings of all hosts.

    ``ask`` reads the clock from a host's own program: ns ahead of true time, ``None`` if it does not answer. ``own``
    sets a clock by a method special to the program, and returns False if there is none. ``noting`` is the context in
    which a setting is made; it is called with the host, what is done, and the setting.
    """

    def __init__(
        self,
        mover: ClockMover,
        ask: Callable[[str], int | None],
        own: Callable[[str, int, float, int], bool],
        noting: Callable[..., AbstractContextManager[Any]],
    ) -> None:
        self._mover = mover
        self._ask = ask
        self._own = own
        self._noting = noting
        self._clocks: dict[str, _Clock] = {}
        # Otherwise a restart could reapply a setting that a fault has just replaced.
        self._setting = threading.RLock()

    def set(self, host: str, offset: float, rate: float) -> None:
        """Set a host's clock ``offset`` seconds ahead of true time, gaining ``rate`` seconds a second."""
        with self._setting:
            self._clocks[host] = _Clock(round(offset * 1e9), rate)
            self.set_again(host)

    def was_set(self, host: str) -> bool:
        return host in self._clocks

    def set_again(self, host: str) -> None:
        """Reapply the setting to a process that was started since, and so has true time."""
        with self._setting:
            clock = self._clocks.get(host)
            if clock is None:
                return
            setting = clock.offset_ns, clock.rate, clock.since_ns
            with self._noting(host, "clock", offset_ns=setting[0], rate=setting[1], since_ns=setting[2]):
                if not self._own(host, *setting):
                    self._mover.move(host, *setting)

    def restore(self, host: str) -> str:
        """Reapply the setting after a restart. Return why that failed; "" if it did not, or if the settings were
        dropped meanwhile."""
        try:
            self.set_again(host)
        except Exception as error:  # noqa: BLE001 - a helper's or an engine's, or any of the server's own method
            if self.was_set(host):
                return f"the wall clock of {host} could not be set again after its restart: {error}"
        return ""

    def forget(self) -> None:
        """Drop all settings: processes that start from now on belong to another run."""
        with self._setting:
            self._clocks.clear()

    def read(self, host: str) -> int:
        """Return how many ns the host's clock is ahead of true time.

        The host's own program is asked; if it does not answer, the setting is read from its memory (it may be paused).
        For a dead program it is the clock that it will be started with.
        """
        response = self._ask(host)
        if response is not None:
            return response
        try:
            return self._mover.setting(host)
        except Refused:
            return self._clocks[host].now() if host in self._clocks else 0
