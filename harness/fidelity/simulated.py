"""A host for one simulated server, whose clock and timers move only when a comparison says so."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from harness.sim.kernel import ScheduledCall
from harness.sim.service import Conn, Handler, Service

Call = tuple[Callable[..., None], tuple[Any, ...]]
Timer = tuple[int, int, ScheduledCall]
"""When it is due, ns; its number in the order of setting; and the call."""


class SteppedHost:
    """Implements :class:`~harness.sim.service.ServiceHost` without a network. ``wall`` is its wall clock,
    ``now`` its monotonic one, ns."""

    def __init__(self, service: Service, wall_ns: int) -> None:
        self.name = "n1"
        self.rng = Random(0)
        self.service = service
        self.wall = wall_ns
        self.paused = False
        self.connections: dict[SteppedConnection, None] = {}
        self.now = 0
        self._timers: list[Timer] = []
        self._numbers = count()
        self._waiting: list[Call] = []
        service.start(self, wiped=True)

    def wall_ns(self) -> int:
        return self.wall

    def monotonic_ns(self) -> int:
        return self.now

    def call_later(self, delay_ns: int, fn: Callable[..., None], *args: Any) -> ScheduledCall:
        timer = ScheduledCall(fn, args)
        heapq.heappush(self._timers, (self.now + delay_ns, next(self._numbers), timer))
        return timer

    def dial(self, host: str, port: int, handler: Handler) -> Conn:
        raise NotImplementedError("a compared server has no other server to connect to")

    def log(self, line: str) -> None:
        """Drop the line: the logs are not compared."""

    def lacks(self, client: str, what: str) -> None:
        """Do nothing: the answers are compared."""

    def run_timers(self, duration_ns: int) -> None:
        """Run the timers of the next ``duration_ns`` of monotonic time. The wall clock stands still meanwhile."""
        end = self.now + duration_ns
        while self._timers and self._timers[0][0] <= end:
            self.now, _, timer = self.next_timer(self._timers)
            timer.fire()
        self.now = end

    def next_timer(self, timers: list[Timer]) -> Timer:
        """Take the timer that fires next from a heap that is not empty: of several due at once, the one set first."""
        return heapq.heappop(timers)

    def deliver(self, fn: Callable[..., None], *args: Any) -> None:
        """Call the service now, or after the pause."""
        if self.paused:
            self._waiting.append((fn, args))
        else:
            fn(*args)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """Continue, and deliver what arrived meanwhile."""
        self.paused = False
        waiting, self._waiting = self._waiting, []
        for fn, args in waiting:
            fn(*args)

    def restart(self, *, with_data: bool) -> None:
        """Kill the server and start it again."""
        self.paused = False
        self._waiting.clear()
        self._timers.clear()
        self.service.stop()
        for connection in self.connections:
            connection.closed = True
        self.connections.clear()
        self.service.start(self, wiped=not with_data)


class SteppedConnection:
    """A client's connection to the server of a :class:`SteppedHost`; what the server sends collects in ``sent``."""

    def __init__(self, host: SteppedHost, peer: str) -> None:
        self.peer = peer
        self.session: Any = None
        self.sent = b""
        self.closed = False
        self._host = host
        host.connections[self] = None
        host.deliver(host.service.opened, self)

    def ask(self, data: bytes) -> None:
        """Send bytes to the server."""
        self._host.deliver(self._host.service.received, self, data)

    def hang_up(self) -> None:
        """Close the client's end."""
        if not self.closed:
            self.closed = True
            self._host.connections.pop(self, None)
            self._host.deliver(self._host.service.closed, self)

    def take(self) -> bytes:
        """Return what the server sent since the last call."""
        data, self.sent = self.sent, b""
        return data

    # Conn, the server's end

    def send(self, data: bytes) -> None:
        if not self.closed:
            self.sent += data

    def close(self) -> None:
        self.closed = True
        self._host.connections.pop(self, None)
