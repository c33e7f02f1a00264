"""The simulated network: byte streams between hosts, over directed links that can be slow, lossy or cut.

What stands for TCP: bytes arrive in order or not at all. A cut or a lost packet is seen as a stall: the bytes are sent
again after 0.2 s, 0.6 s, 1.4 s ... (RFC 6298's doubling time-out from 200 ms, as Linux does it) until one attempt gets
through, so a stream that was silent for a long outage comes back some time *after* the heal. What is on its way when a
cut comes is lost like what is sent later: a packet needs a whole link at both of its ends. Connecting repeats at 1 s,
3 s, 7 s, until the client gives up. Abstracted: windows, acknowledgements, bandwidth shared between streams.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from functools import partial
from heapq import heappush
from operator import itemgetter
from typing import Any, Final, Protocol

from .kernel import DEAD, FROZEN, RUNNING, SECOND, Kernel, Life
from .links import LOST, RESEND, Link, Snare, Weight
from .service import Handler, Service

__all__ = ["LOST", "Attempt", "Channel", "Link", "Network", "Peer", "Snare", "Weight"]

RECONNECT: Final = SECOND
OUT_OF_TURN: Final = -1
"""The number of a reset: it waits for nothing."""


class Sink(Protocol):
    """An end of a stream, as the network sees it."""

    def arrived(self, data: bytes) -> None: ...

    def ended(self, *, reset: bool) -> None: ...


class Channel:
    """One direction of a stream: keeps order, and sends again what a cut link has not carried.

    Packets are numbered; what arrives before its turn waits for the ones that were lost. ``name`` is its own among all
    channels, ``target`` the host that it leads to.
    """

    __slots__ = (
        "_early", "_expected", "_gap", "_last", "_link", "_lost", "_network", "_number", "closed", "name", "sink",
        "target",
    )  # fmt: skip

    def __init__(self, network: Network, name: str, target: str, link: Link) -> None:
        self.name = name
        self.target = target
        self._network = network
        self._link = link
        self._last = 0
        self._number = 0
        self._expected = 0
        self._gap = False
        """Is data missing for ever? Then nothing that was sent later arrives either: a stream has no holes."""
        self._lost: list[tuple[int, Callable[..., None], tuple[Any, ...], int]] = []
        self._early: dict[int, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        self.sink: Sink | None = None
        self.closed = False

    def send(self, data: bytes) -> None:
        if not self.closed:
            self._number += 1
            self._transmit(self._number - 1, self._deliver, (data,), len(data))

    def end(self, *, reset: bool) -> None:
        """Close in order after what was sent, or (``reset``) at once: what had not left the host is lost."""
        if self.closed:
            return
        self.closed = True
        if reset:
            self._lost.clear()
            self.refuse()
        else:
            self._transmit(self._number, self._finish, (False,), 0)

    def refuse(self) -> None:
        """Tell the other end that nobody is here, whatever it still waits for."""
        self._transmit(OUT_OF_TURN, self._finish, (True,), 0)

    def _transmit(self, number: int, fn: Callable[..., None], args: tuple[Any, ...], size: int) -> None:
        link = self._link
        if self._lost or link.cuts:
            self._lose(number, fn, args, size)
            return
        kernel = self._network.kernel
        at = kernel.now + link.delay(size)
        if link.snares and size:
            snare = next((snare for snare in link.snares if snare.catch(args[0])), None)
            if snare is not None:
                if not snare.insatiable:
                    link.snares.remove(snare)
                if snare.hold_ns == LOST:
                    self._gap = True
                else:
                    at += snare.hold_ns
        if self._gap and size:  # its turn comes, and brings nothing
            args = (b"",)
        at = max(at, self._last)
        self._last = at
        heappush(kernel.heap, (at, kernel.next_seq(), None, self.arrive, (number, fn, args, size)))

    def arrive(self, number: int, fn: Callable[..., None], args: tuple[Any, ...], size: int) -> None:
        if self._link.cuts:
            self._lose(number, fn, args, size)
        elif number == self._expected:
            self._expected += 1
            fn(*args)
            while self._early and (after := self._early.pop(self._expected, None)) is not None:
                self._expected += 1
                after[0](*after[1])
        elif number == OUT_OF_TURN:
            fn(*args)
        else:
            self._early[number] = (fn, args)

    def _lose(self, number: int, fn: Callable[..., None], args: tuple[Any, ...], size: int) -> None:
        if not self._lost:
            self._network.kernel.later(RESEND, None, self._resend, RESEND)
        insort(self._lost, (number, fn, args, size), key=itemgetter(0))

    def _resend(self, waited: int) -> None:
        if self._link.cuts:
            self._network.kernel.later(2 * waited, None, self._resend, 2 * waited)
            return
        lost, self._lost = self._lost, []
        for packet in lost:
            self._transmit(*packet)

    def _deliver(self, data: bytes) -> None:
        if self.sink is not None and data:
            self.sink.arrived(data)

    def _finish(self, reset: bool) -> None:
        if self.sink is not None:
            self.sink.ended(reset=reset)
            if reset:
                self.sink = None


class Machine(Protocol):
    """What the network knows of a host."""

    name: str
    life: Life
    services: dict[int, Service]
    peers: dict[Peer, None]
    on_change: Callable[[str | None], None] | None


class Peer:
    """A service's end of a stream (:class:`~harness.sim.service.Conn`): calls back, and waits while its host is
    frozen."""

    __slots__ = ("_handler", "_life", "_machine", "_out", "_up", "attempt", "peer", "session")

    def __init__(self, handler: Handler, machine: Machine, out: Channel | None, peer: str) -> None:
        self._handler = handler
        self._machine = machine
        self._life = machine.life
        self._out = out
        self._up = True
        self.attempt: Attempt | None = None
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
            if self.attempt is not None:
                self.attempt.cancel()
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
        self._call(self._opened)

    def arrived(self, data: bytes) -> None:
        if self._life.state == RUNNING:
            self._received(data)
        else:
            self._call(self._received, data)

    def ended(self, *, reset: bool) -> None:  # noqa: ARG002 - to a service a lost connection is a lost connection
        self._call(self._closed)

    def _call(self, fn: Callable[..., None], *args: Any) -> None:
        if self._life.state == RUNNING:
            fn(*args)
        elif self._life.state == FROZEN:
            self._life.inbox.append((fn, args))

    def _opened(self) -> None:
        self._handler.opened(self)
        self._changed()

    def _received(self, data: bytes) -> None:
        if self._up:
            self._handler.received(self, data)
            self._changed()
        elif self._out is not None:  # closed at this end: the kernel answers what still comes with a reset
            self._out.refuse()

    def _closed(self) -> None:
        if self._up:
            self.close()
            self._handler.closed(self)
            self._changed()

    def _changed(self) -> None:
        if self._machine.on_change is not None:
            self._machine.on_change(self.peer)


class Network:
    """All hosts by name, and the links between them."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.hosts: dict[str, Machine] = {}
        self.aliases: dict[str, str] = {}
        """Names that stand for a host until somebody moves them: looked up when a connection is opened."""
        self._links: dict[tuple[str, str], Link] = {}
        self._streams: dict[tuple[str, str], int] = {}

    def resolve(self, name: str) -> str:
        """The host that a name stands for."""
        return self.aliases.get(name, name)

    def link(self, source: str, target: str) -> Link:
        """The directed link between two hosts, made on first use."""
        found = self._links.get((source, target))
        if found is None:
            rng = self.kernel.rng(f"link/{source}/{target}")
            found = self._links[(source, target)] = Link(rng)
        return found

    def channel(self, source: str, target: str) -> Channel:
        """A new stream; the second one between two hosts is called ``c0>n1#2``."""
        number = self._streams[source, target] = self._streams.get((source, target), 0) + 1
        name = f"{source}>{target}" if number == 1 else f"{source}>{target}#{number}"
        return Channel(self, name, target, self.link(source, target))

    def ping(self, source: str, target: str, done: Callable[[], None]) -> None:
        """Send one packet there and one back; ``done`` is called when the answer is in, and never if a cut ate either.

        The network stack answers, not a process: a frozen host answers too, and a dead one does not.
        """
        there, back = self.link(source, target), self.link(target, source)

        def answer() -> None:
            host = self.hosts.get(target)
            if host is not None and host.life.state != DEAD and not (there.cuts or back.cuts):
                self.kernel.later(back.delay(64), None, answered)

        def answered() -> None:
            if not back.cuts:
                done()

        if not there.cuts:
            self.kernel.later(there.delay(64), None, answer)

    def connect(
        self, source: str, target: str, port: int, end: Sink, done: Callable[[Channel | None], None]
    ) -> Attempt:
        """Open a stream from ``source``; ``done`` is called with the outgoing channel, or None if refused.

        ``end`` receives what comes back. While a link is cut, nothing is called and the attempt is repeated.
        """
        attempt = Attempt(self, source, target, port, end, done)
        attempt.knock(RECONNECT)
        return attempt


class Attempt:
    """A connection that is being opened, until it is or nobody wants it any more."""

    def __init__(
        self,
        network: Network,
        source: str,
        target: str,
        port: int,
        end: Sink,
        done: Callable[[Channel | None], None],
    ) -> None:
        self._network = network
        self.ends = (source, target)
        self._port = port
        self._end = end
        self._done = done
        self._there = network.link(source, target)
        self._back = network.link(target, source)
        self._wanted = True

    def cancel(self) -> None:
        """Knock no more. Whoever has heard the last knock still opens, and is told then that it was for nothing."""
        self._wanted = False

    def knock(self, wait: int) -> None:
        if not self._wanted:
            return
        if self._there.cuts or self._back.cuts:
            self._again(self.knock, wait)
        else:
            self._network.kernel.later(self._there.delay(0), None, self.heard, wait)

    def _again(self, step: Callable[[int], None], wait: int) -> None:
        self._network.kernel.later(wait, None, step, 2 * wait)

    def heard(self, wait: int) -> None:
        """At the other end: accept or refuse, if the knock has not been lost on its way."""
        if self._there.cuts:
            self._again(self.knock, wait)
            return
        network, (source, target) = self._network, self.ends
        host = network.hosts.get(target)
        service = None if host is None or host.life.state == DEAD else host.services.get(self._port)
        opened = None
        if host is not None and service is not None:
            opened, back = network.channel(source, target), network.channel(target, source)
            back.sink = self._end
            opened.sink = peer = Peer(service, host, back, source)
            peer.welcome()
        self._answer(opened, wait)

    def _answer(self, opened: Channel | None, wait: int) -> None:
        self._network.kernel.later(self._back.delay(0), None, self.answered, opened, wait)

    def answered(self, opened: Channel | None, wait: int) -> None:
        if self._back.cuts:  # lost on its way: the other end repeats it, or refuses the next knock
            self._again(partial(self._answer, opened), wait)
        else:
            self._done(opened)
