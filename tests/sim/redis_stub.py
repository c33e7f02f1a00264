"""A minimal deterministic network of hosts for tests of server programs: virtual clock, timers, delayed connections."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from harness.sim.service import Handler, Service

MS = 1_000_000
S = 1000 * MS
LATENCY_NS = 100_000
EPOCH_NS = 1_700_000_000 * S


class StubTimer:
    def __init__(self, fn: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.fn: Callable[..., None] | None = fn
        self.args = args

    def cancel(self) -> None:
        self.fn = None


class StubWorld:
    """Hosts by name, a virtual clock, and links that can be cut."""

    def __init__(self, seed: int = 1) -> None:
        self.now_ns = 0
        self.rng = Random(seed)
        self.hosts: dict[str, StubHost] = {}
        self.cuts: set[frozenset[str]] = set()
        self._heap: list[tuple[int, int, StubTimer]] = []
        self._numbers = count()

    def at(self, delay_ns: int, fn: Callable[..., None], *args: Any) -> StubTimer:
        timer = StubTimer(fn, args)
        heapq.heappush(self._heap, (self.now_ns + delay_ns, next(self._numbers), timer))
        return timer

    def run(self, seconds: float) -> None:
        end = self.now_ns + round(seconds * S)
        while self._heap and self._heap[0][0] <= end:
            self.now_ns, _, timer = heapq.heappop(self._heap)
            if timer.fn is not None:
                timer.fn(*timer.args)
        self.now_ns = end

    def run_until(self, done: Callable[[], Any], limit_s: float = 60) -> float:
        """Run until ``done`` returns true, and return the seconds that passed. Fails after ``limit_s``."""
        start = self.now_ns
        while not done():
            assert self.now_ns - start < limit_s * S, f"not reached within {limit_s} virtual seconds"
            self.run(0.01)
        return (self.now_ns - start) / S

    def host(self, name: str, service: Service | None = None) -> StubHost:
        host = StubHost(self, name)
        self.hosts[name] = host
        if service is not None:
            host.run(service)
        return host

    def cut(self, left: str, right: str) -> None:
        self.cuts.add(frozenset((left, right)))

    def heal(self) -> None:
        self.cuts.clear()

    def is_cut(self, left: str, right: str) -> bool:
        return frozenset((left, right)) in self.cuts


class StubHost:
    def __init__(self, world: StubWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.rng = Random(f"{name}/{world.rng.random()}")
        self.offset_ns = EPOCH_NS
        self.services: dict[int, Service] = {}
        self.up = True
        self.paused = False
        self.life = 0
        self._postponed: list[StubTimer] = []
        self.ends: dict[int, StreamEnd] = {}
        self.lines: list[str] = []
        self.lacking: list[tuple[str, str]] = []
        """Each client that called what the server lacks, and what that was."""

    def wall_ns(self) -> int:
        return self.world.now_ns + self.offset_ns

    def monotonic_ns(self) -> int:
        return self.world.now_ns

    def call_later(self, delay_ns: int, fn: Callable[..., None], *args: Any) -> StubTimer:
        timer = StubTimer(fn, args)
        self.world.at(delay_ns, self._fire, self.life, timer)
        return timer

    def _fire(self, life: int, timer: StubTimer) -> None:
        if life != self.life or timer.fn is None:
            return
        if self.paused:
            self._postponed.append(timer)
        else:
            timer.fn(*timer.args)

    def lacks(self, client: str, what: str) -> None:
        self.lacking.append((client, what))

    def log(self, line: str) -> None:
        self.lines.append(line)

    def deliver(self, fn: Callable[..., None], *args: Any) -> None:
        self._fire(self.life, StubTimer(fn, args))

    def run(self, service: Service, *, wiped: bool = True) -> None:
        self.services[service.port] = service
        service.start(self, wiped=wiped)

    def dial(self, host: str, port: int, handler: Handler) -> StreamEnd:
        near, far = StreamEnd(self, host, handler), StreamEnd(self.world.hosts[host], self.name, None)
        near.other, far.other = far, near
        self.world.at(LATENCY_NS, self._connect, near, far, port)
        return near

    def _connect(self, near: StreamEnd, far: StreamEnd, port: int) -> None:
        if self.world.is_cut(self.name, far.host.name):
            self.world.at(S, self._connect, near, far, port)
            return
        service = far.host.services.get(port) if far.host.up else None
        if service is None:
            self.world.at(LATENCY_NS, near.end_closed)
            return
        far.handler = service
        far.host.deliver(far.established)
        self.world.at(LATENCY_NS, self.deliver, near.established)

    def kill(self) -> None:
        self.up = False
        self.life += 1
        self._postponed.clear()
        for service in self.services.values():
            service.stop()
        ends, self.ends = self.ends, {}
        for end in ends.values():
            end.open = False
            if end.other is not None:
                self.world.at(LATENCY_NS, end.other.end_closed)

    def restart(self, *, wiped: bool = False) -> None:
        self.up = True
        for service in self.services.values():
            service.start(self, wiped=wiped)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        postponed, self._postponed = self._postponed, []
        for timer in postponed:
            self._fire(self.life, timer)


class StreamEnd:
    """One end of a stream. Bytes sent into a cut are resent when it is healed, as TCP does."""

    def __init__(self, host: StubHost, peer: str, handler: Handler | None) -> None:
        self.host = host
        self.peer = peer
        self.handler = handler
        self.session: Any = None
        self.other: StreamEnd | None = None
        self.open = False
        self.waiting: list[bytes] = []
        host.ends[id(self)] = self

    def established(self) -> None:
        assert self.handler is not None
        self.open = True
        self.handler.opened(self)

    def send(self, data: bytes) -> None:
        if self.open:
            self.waiting.append(data)
            self.host.world.at(LATENCY_NS, self._travel)

    def _travel(self) -> None:
        assert self.other is not None
        if not self.waiting:
            return
        if self.host.world.is_cut(self.host.name, self.peer):
            self.host.world.at(50 * MS, self._travel)
            return
        data = b"".join(self.waiting)
        self.waiting.clear()
        if self.other.host.up:
            self.other.host.deliver(self.other.arrived, data)

    def arrived(self, data: bytes) -> None:
        if self.open and self.handler is not None:
            self.handler.received(self, data)

    def close(self) -> None:
        self.host.world.at(LATENCY_NS, self._finish_close)

    def _finish_close(self) -> None:
        if self.open:
            self._travel()
            self.open = False
            self.host.ends.pop(id(self), None)
            if self.other is not None:
                self.host.world.at(LATENCY_NS, self.other.end_closed)

    def end_closed(self) -> None:
        if self.host.world.is_cut(self.host.name, self.peer):
            self.host.world.at(50 * MS, self.end_closed)
            return
        self.open = False
        self.host.ends.pop(id(self), None)
        if self.handler is not None and self.host.up:
            self.host.deliver(self.handler.closed, self)
