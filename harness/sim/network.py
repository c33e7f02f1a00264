"""The simulated network: byte streams between hosts, over directed links that can be slow, lossy or cut.

What stands for TCP: bytes arrive in order or not at all. A cut or a lost packet is seen as a stall: the bytes are sent
again after 0.2 s, 0.6 s, 1.4 s ... (RFC 6298's doubling time-out from 200 ms, as Linux does it) until one attempt gets
through, so a stream that was silent for a long outage comes back some time *after* the heal. Connecting repeats at 1 s,
3 s, 7 s. Abstracted: windows, acknowledgements, bandwidth shared between streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappush
from random import Random
from typing import Any, Final, Protocol

from .kernel import DEAD, FROZEN, MILLISECOND, RUNNING, SECOND, Kernel, Life
from .service import Handler, Service

RESEND: Final = 200 * MILLISECOND
GIVE_UP: Final = 120 * SECOND
"""No packet is sent again after a pause of this length."""
RECONNECT: Final = SECOND
BASE_LATENCY: Final = 100_000
"""One way, ns. With the jitter on top a round trip takes about 0.25 ms, as between two containers of one machine."""
BASE_JITTER: Final = 50_000


LOST: Final = -1


@dataclass(slots=True)
class Snare:
    """Catches one piece of data that contains ``needle`` and delays it by ``hold_ns``; :data:`LOST` means for ever."""

    needle: bytes
    hold_ns: int
    used: bool = False
    armed: bool = True

    def catch(self, data: bytes) -> bool:
        if not self.armed or self.used or self.needle not in data:
            return False
        self.used = True
        return True

    def cancel(self) -> None:
        self.armed = False


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """What a fault puts on a link: time in ns, ``loss`` 0 to 1, bytes a second."""

    latency_ns: int = 0
    jitter_ns: int = 0
    loss: float = 0.0
    bytes_per_second: float = math.inf


class Link:
    """One direction between two hosts. ``cuts`` counts the partitions that cut it: it carries nothing until all are
    mended. Weights add up: times are summed, losses are independent, the slowest rate counts."""

    __slots__ = ("_base_ns", "_jitter_ns", "_loss", "_random", "_rate", "_weights", "cuts", "snares")

    def __init__(self, rng: Random) -> None:
        self.cuts = 0
        self.snares: list[Snare] = []
        self._random = rng.random
        self._weights: list[Weight] = []
        self._weigh()

    def burden(self, weight: Weight) -> None:
        self._weights.append(weight)
        self._weigh()

    def relieve(self, weight: Weight) -> None:
        """Take a weight away; harmless if it is not there."""
        self._weights = [other for other in self._weights if other is not weight]
        self._weigh()

    def _weigh(self) -> None:
        weights = self._weights
        self._base_ns = BASE_LATENCY + sum(weight.latency_ns for weight in weights)
        self._jitter_ns = BASE_JITTER + sum(weight.jitter_ns for weight in weights)
        self._loss = 1 - math.prod(1 - weight.loss for weight in weights)
        self._rate = min((weight.bytes_per_second for weight in weights), default=math.inf)

    def delay(self, size: int) -> int:
        """How long the next ``size`` bytes take, ns."""
        ns = self._base_ns + int(self._random() * self._jitter_ns)
        if self._loss:
            resend = RESEND
            while resend < GIVE_UP and self._random() < self._loss:
                ns += resend
                resend *= 2
        if self._rate != math.inf:
            ns += int(size / self._rate * SECOND)
        return ns


class Sink(Protocol):
    """An end of a stream, as the network sees it."""

    def arrived(self, data: bytes) -> None: ...

    def ended(self, *, reset: bool) -> None: ...


class Channel:
    """One direction of a stream: keeps order, and holds back what a cut link cannot carry."""

    __slots__ = ("_last", "_link", "_network", "_stalled", "closed", "sink")

    def __init__(self, network: Network, link: Link) -> None:
        self._network = network
        self._link = link
        self._last = 0
        self._stalled: list[tuple[Callable[..., None], tuple[Any, ...], int]] = []
        self.sink: Sink | None = None
        self.closed = False

    def send(self, data: bytes) -> None:
        if not self.closed:
            self._transmit(self._deliver, (data,), len(data))

    def end(self, *, reset: bool) -> None:
        """Close in order after what was sent, or (``reset``) at once: what had not left the host is lost."""
        if not self.closed:
            self.closed = True
            if reset:
                self._stalled.clear()
            self._transmit(self._finish, (reset,), 0)

    def _transmit(self, fn: Callable[..., None], args: tuple[Any, ...], size: int) -> None:
        link = self._link
        if self._stalled or link.cuts:
            self._stall(fn, args, size)
            return
        kernel = self._network.kernel
        at = kernel.now + link.delay(size)
        if link.snares and size:
            snare = next((snare for snare in link.snares if snare.catch(args[0])), None)
            if snare is not None:
                link.snares.remove(snare)
                if snare.hold_ns == LOST:
                    return
                at += snare.hold_ns
        at = max(at, self._last)
        self._last = at
        heappush(kernel.heap, (at, kernel.next_seq(), None, fn, args))

    def _stall(self, fn: Callable[..., None], args: tuple[Any, ...], size: int) -> None:
        if not self._stalled:
            self._network.kernel.later(RESEND, None, self._resend, RESEND)
        self._stalled.append((fn, args, size))

    def _resend(self, waited: int) -> None:
        if self._link.cuts:
            self._network.kernel.later(2 * waited, None, self._resend, 2 * waited)
            return
        stalled, self._stalled = self._stalled, []
        for fn, args, size in stalled:
            self._transmit(fn, args, size)

    def _deliver(self, data: bytes) -> None:
        if self.sink is not None:
            self.sink.arrived(data)

    def _finish(self, reset: bool) -> None:
        if self.sink is not None:
            self.sink.ended(reset=reset)


class Machine(Protocol):
    """What the network knows of a host."""

    name: str
    life: Life
    services: dict[int, Service]
    peers: dict[Peer, None]


class Peer:
    """A service's end of a stream (:class:`~harness.sim.service.Conn`): calls back, and waits while its host is
    frozen."""

    __slots__ = ("_handler", "_life", "_machine", "_out", "_up", "peer", "session")

    def __init__(self, handler: Handler, machine: Machine, out: Channel | None, peer: str) -> None:
        self._handler = handler
        self._machine = machine
        self._life = machine.life
        self._out = out
        self._up = True
        self.peer = peer
        self.session: Any = None
        machine.peers[self] = None

    def send(self, data: bytes) -> None:
        if self._up and self._out is not None:
            if self._life.state == RUNNING:
                self._out.send(data)
            else:  # frozen in the middle of what it was doing: the rest is done on thaw
                self._call(self.send, data)

    def close(self) -> None:
        self._end(reset=False)

    def reset(self) -> None:
        """Break the stream at this end, as a killed process or a reset connection does."""
        self._end(reset=True)

    def _end(self, *, reset: bool) -> None:
        if self._up:
            self._up = False
            self._machine.peers.pop(self, None)
            if self._out is not None:
                self._out.end(reset=reset)

    def dialled(self, out: Channel | None) -> None:
        """The answer to an outgoing connection: the channel to send on, or None for refused."""
        if not self._up:
            if out is not None:
                out.end(reset=False)
        elif out is None:
            self._call(self._closed)
        else:
            self._out = out
            self.welcome()

    def welcome(self) -> None:
        self._call(self._handler.opened, self)

    def arrived(self, data: bytes) -> None:
        if self._life.state == RUNNING:
            if self._up:
                self._handler.received(self, data)
        else:
            self._call(self._received, data)

    def ended(self, *, reset: bool) -> None:  # noqa: ARG002 - to a service a lost connection is a lost connection
        self._call(self._closed)

    def _call(self, fn: Callable[..., None], *args: Any) -> None:
        if self._life.state == RUNNING:
            fn(*args)
        elif self._life.state == FROZEN:
            self._life.inbox.append((fn, args))

    def _received(self, data: bytes) -> None:
        if self._up:
            self._handler.received(self, data)

    def _closed(self) -> None:
        if self._up:
            self.close()
            self._handler.closed(self)


class Network:
    """All hosts by name, and the links between them."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.hosts: dict[str, Machine] = {}
        self._links: dict[tuple[str, str], Link] = {}

    def link(self, source: str, target: str) -> Link:
        """The directed link between two hosts, made on first use."""
        found = self._links.get((source, target))
        if found is None:
            rng = self.kernel.rng(f"link/{source}/{target}")
            found = self._links[(source, target)] = Link(rng)
        return found

    def channel(self, source: str, target: str) -> Channel:
        return Channel(self, self.link(source, target))

    def ping(self, source: str, target: str, done: Callable[[], None]) -> None:
        """Send one packet there and one back; ``done`` is called when the answer is in, and never if a cut ate either.

        The network stack answers, not a process: a frozen host answers too, and a dead one does not.
        """
        there, back = self.link(source, target), self.link(target, source)

        def answer() -> None:
            host = self.hosts.get(target)
            if host is not None and host.life.state != DEAD and not back.cuts:
                self.kernel.later(back.delay(64), None, done)

        if not there.cuts:
            self.kernel.later(there.delay(64), None, answer)

    def connect(self, source: str, target: str, port: int, end: Sink, done: Callable[[Channel | None], None]) -> None:
        """Open a stream from ``source``; ``done`` is called with the outgoing channel, or None if refused.

        ``end`` receives what comes back. While a link is cut, nothing is called and the attempt is repeated.
        """
        self._knock(source, target, port, end, done, RECONNECT)

    def _knock(
        self, source: str, target: str, port: int, end: Sink, done: Callable[[Channel | None], None], wait: int
    ) -> None:
        there, back = self.link(source, target), self.link(target, source)
        if there.cuts or back.cuts:
            self.kernel.later(wait, None, self._knock, source, target, port, end, done, 2 * wait)
            return
        trip = there.delay(0)
        self.kernel.later(trip, None, self._welcome, source, target, port, end, done)

    def _welcome(self, source: str, target: str, port: int, end: Sink, done: Callable[[Channel | None], None]) -> None:
        host = self.hosts.get(target)
        service = None if host is None or host.life.state == DEAD else host.services.get(port)
        answer = self.link(target, source).delay(0)
        if host is None or service is None:
            self.kernel.later(answer, None, done, None)
            return
        there, back = self.channel(source, target), self.channel(target, source)
        back.sink = end
        peer = Peer(service, host, back, source)
        there.sink = peer
        peer.welcome()
        self.kernel.later(answer, None, done, there)
