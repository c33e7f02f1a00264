"""The simulated network: byte streams between hosts, over directed links that can be slow, lossy or cut.

Streams behave like TCP: bytes arrive in order or not at all. A cut link or a lost packet shows as a stall. Lost bytes
are sent again after 0.2 s, 0.6 s, 1.4 s ... (RFC 6298's doubling time-out, from 200 ms as in Linux) until one attempt
succeeds, so after a long outage a stream recovers some time *after* the link is healed. A packet is lost if the link
is cut when it leaves or when it arrives. A client repeats its connection request after 1 s, 3 s, 7 s ... until it gives
up.

Not simulated: windows, acknowledgements, and bandwidth shared between streams.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from functools import partial
from heapq import heappush
from operator import itemgetter
from typing import Any, Final, Protocol

from .kernel import DEAD, FROZEN, RUNNING, SECOND, Kernel, Life
from .links import LOST, RESEND, Impairment, SimLink, SimMessageTrap
from .message_log import MessageLog, StreamLog
from .service import Handler, Service

__all__ = [
    "LOST",
    "ConnectionAttempt",
    "HalfStream",
    "Impairment",
    "ServiceConnection",
    "SimLink",
    "SimMessageTrap",
    "SimNetwork",
]

RECONNECT: Final = SECOND
OUT_OF_ORDER: Final = -1
"""Packet number of a reset, which is handled on arrival without waiting for earlier packets."""


class Sink(Protocol):
    """The receiver of one direction of a stream."""

    def arrived(self, data: bytes) -> None:
        """Accept the next bytes of the stream."""

    def ended(self, *, reset: bool) -> None:
        """Accept the end of the stream: an orderly end or a reset."""


class HalfStream:
    """One direction of a stream. Delivers packets in order and resends those that a cut link lost.

    Packets are numbered; one that arrives early waits for the lost ones before it. ``name`` is unique among all
    directions of all streams, and ``target`` is the name of the receiving host.
    """

    __slots__ = (
        "_early", "_expected", "_gap", "_last", "_link", "_lost", "_network", "_number", "closed", "log", "name",
        "sink", "target",
    )  # fmt: skip

    def __init__(self, network: SimNetwork, name: str, target: str, link: SimLink) -> None:
        self.name = name
        self.target = target
        self._network = network
        self._link = link
        self._last = 0
        self._number = 0
        self._expected = 0
        self._gap = False
        """True once data was dropped for ever. Nothing sent later arrives either, since a stream has no gaps."""
        self._lost: list[tuple[int, Callable[..., None], tuple[Any, ...], int]] = []
        self._early: dict[int, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        self.sink: Sink | None = None
        self.closed = False
        self.log: StreamLog | None = None

    def send(self, data: bytes) -> None:
        """Send bytes to the sink; does nothing after :meth:`end`."""
        if not self.closed:
            self._number += 1
            if self.log is not None:
                self.log.sent(data)
            self._transmit(self._number - 1, self._deliver, (data,), len(data))

    def end(self, *, reset: bool) -> None:
        """Close the stream after the data already sent, or (``reset``) at once, losing data that waits to be resent."""
        if self.closed:
            return
        self.closed = True
        if reset:
            self._lost.clear()
            self.refuse()
        else:
            self._transmit(self._number, self._finish, (False,), 0)

    def refuse(self) -> None:
        """Send a reset: this end is closed. It overtakes data that is still to be resent."""
        self._transmit(OUT_OF_ORDER, self._finish, (True,), 0)

    def _transmit(self, number: int, fn: Callable[..., None], args: tuple[Any, ...], size: int) -> None:
        link = self._link
        if self._lost or link.cuts:
            self._lose(number, fn, args, size)
            return
        kernel = self._network.kernel
        at = kernel.now + link.delay(size)
        if link.traps and size:
            trap = next((trap for trap in link.traps if trap.catch(args[0])), None)
            if trap is not None:
                if not trap.catch_all:
                    link.traps.remove(trap)
                if trap.delay_ns == LOST:
                    self._gap = True
                else:
                    at += trap.delay_ns
        if self._gap and size:  # keep its place in the order, without data
            args = (b"",)
        at = max(at, self._last)
        self._last = at
        heappush(kernel.heap, (at, kernel.next_seq(), None, self.arrive, (number, fn, args, size)))

    def arrive(self, number: int, fn: Callable[..., None], args: tuple[Any, ...], size: int) -> None:
        """Handle packet ``number`` at the receiving end, in order, unless the link is cut."""
        if self._link.cuts:
            self._lose(number, fn, args, size)
        elif number == self._expected:
            self._expected += 1
            fn(*args)
            while self._early and (after := self._early.pop(self._expected, None)) is not None:
                self._expected += 1
                after[0](*after[1])
        elif number == OUT_OF_ORDER:
            fn(*args)
        else:
            self._early[number] = (fn, args)

    def _lose(self, number: int, fn: Callable[..., None], args: tuple[Any, ...], size: int) -> None:
        if not self._lost:
            self._network.kernel.later(RESEND, None, self._resend, RESEND)
        insort(self._lost, (number, fn, args, size), key=itemgetter(0))

    def _resend(self, waited_ns: int) -> None:
        if self._link.cuts:
            self._network.kernel.later(2 * waited_ns, None, self._resend, 2 * waited_ns)
            return
        lost, self._lost = self._lost, []
        for packet in lost:
            self._transmit(*packet)

    def _deliver(self, data: bytes) -> None:
        if self.sink is not None and data:
            if self.log is not None:
                self.log.arrived()
            self.sink.arrived(data)

    def _finish(self, reset: bool) -> None:
        if self.sink is not None:
            self.sink.ended(reset=reset)
            if reset:
                self.sink = None


class Machine(Protocol):
    """The parts of a host that the network uses."""

    name: str
    life: Life
    services: dict[int, Service]
    connections: dict[ServiceConnection, None]
    on_change: Callable[[str | None], None] | None


class ServiceConnection:
    """A service's end of a stream; implements :class:`~harness.sim.service.Conn`.

    Calls the service's :class:`~harness.sim.service.Handler`, and postpones these calls while the host is frozen.
    """

    __slots__ = ("_handler", "_life", "_machine", "_out", "_up", "attempt", "peer", "session")

    def __init__(self, handler: Handler, machine: Machine, out: HalfStream | None, peer: str) -> None:
        self._handler = handler
        self._machine = machine
        self._life = machine.life
        self._out = out
        self._up = True
        self.attempt: ConnectionAttempt | None = None
        self.peer = peer
        self.session: Any = None
        machine.connections[self] = None

    def send(self, data: bytes) -> None:
        if self._up and self._out is not None:
            if self._life.state == RUNNING:
                self._out.send(data)
            else:  # the host froze while the service was running: send after the thaw
                self._call(self.send, data)

    def close(self) -> None:
        self._end(reset=False)

    def reset(self) -> None:
        """Close this end with a reset, as a killed process does."""
        self._end(reset=True)

    def _end(self, *, reset: bool) -> None:
        if self._up:
            self._up = False
            self._machine.connections.pop(self, None)
            if self.attempt is not None:
                self.attempt.cancel()
            if self._out is not None:
                self._out.end(reset=reset)

    def connect_finished(self, out: HalfStream | None) -> None:
        """Accept the result of an outgoing connection: the direction to send on, or None if it was refused."""
        if not self._up:
            if out is not None:
                out.end(reset=False)
        elif out is None:
            self._call(self._closed)
        else:
            self._out = out
            self.report_opened()

    def report_opened(self) -> None:
        """Call the handler's ``opened``."""
        self._call(self._opened)

    def arrived(self, data: bytes) -> None:
        if self._life.state == RUNNING:
            self._received(data)
        else:
            self._call(self._received, data)

    def ended(self, *, reset: bool) -> None:  # noqa: ARG002 - a service treats every end alike
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
        elif self._out is not None:  # closed at this end: the kernel answers further data with a reset
            self._out.refuse()

    def _closed(self) -> None:
        if self._up:
            self.close()
            self._handler.closed(self)
            self._changed()

    def _changed(self) -> None:
        if self._machine.on_change is not None:
            self._machine.on_change(self.peer)


class SimNetwork:
    """All hosts by name, and the directed links between them."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.hosts: dict[str, Machine] = {}
        self.aliases: dict[str, str] = {}
        """Other names of hosts, like DNS aliases. They can be moved; they are resolved when a connection is opened."""
        self.log: MessageLog | None = None
        self._links: dict[tuple[str, str], SimLink] = {}
        self._streams: dict[tuple[str, str], int] = {}

    def resolve(self, name: str) -> str:
        """Return the host name that an alias stands for, or ``name`` itself."""
        return self.aliases.get(name, name)

    def link(self, source: str, target: str) -> SimLink:
        """Return the directed link between two hosts, created on first use."""
        found = self._links.get((source, target))
        if found is None:
            rng = self.kernel.rng(f"link/{source}/{target}")
            found = self._links[(source, target)] = SimLink(rng)
        return found

    def half_stream(self, source: str, target: str) -> HalfStream:
        """Create one direction of a new stream. The second one from c0 to n1 is named ``c0>n1#2``."""
        number = self._streams[source, target] = self._streams.get((source, target), 0) + 1
        name = f"{source}>{target}" if number == 1 else f"{source}>{target}#{number}"
        return HalfStream(self, name, target, self.link(source, target))

    def ping(self, source: str, target: str, done: Callable[[], None]) -> None:
        """Send one packet and get an answer; call ``done`` when it arrives. A cut in either direction loses it.

        The network stack answers, not a process: a frozen host answers, a dead one does not.
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
        self, source: str, target: str, port: int, end: Sink, done: Callable[[HalfStream | None], None]
    ) -> ConnectionAttempt:
        """Open a stream from ``source``; call ``done`` with the outgoing direction, or with None if it was refused.

        ``end`` receives the data of the other direction. While a link is cut, the request is repeated and ``done`` is
        not called.
        """
        attempt = ConnectionAttempt(self, source, target, port, end, done)
        attempt.send_request(RECONNECT)
        return attempt


class ConnectionAttempt:
    """A connection request that is repeated until it is accepted, refused or cancelled."""

    def __init__(
        self,
        network: SimNetwork,
        source: str,
        target: str,
        port: int,
        end: Sink,
        done: Callable[[HalfStream | None], None],
    ) -> None:
        self._network = network
        self.ends = (source, target)
        self._port = port
        self._end = end
        self._done = done
        self._forward_link = network.link(source, target)
        self._return_link = network.link(target, source)
        self._wanted = True

    def cancel(self) -> None:
        """Send no more connection requests. A request that has already arrived still opens a stream at the target."""
        self._wanted = False

    def send_request(self, wait_ns: int) -> None:
        """Send the request; if a link is cut, try again after ``wait_ns``, and then after twice as long."""
        if not self._wanted:
            return
        if self._forward_link.cuts or self._return_link.cuts:
            self._retry(self.send_request, wait_ns)
        else:
            self._network.kernel.later(self._forward_link.delay(0), None, self.reach_target, wait_ns)

    def _retry(self, step: Callable[[int], None], wait_ns: int) -> None:
        self._network.kernel.later(wait_ns, None, step, 2 * wait_ns)

    def reach_target(self, wait_ns: int) -> None:
        """Accept or refuse the request at the target, unless a cut has lost it on its way."""
        if self._forward_link.cuts:
            self._retry(self.send_request, wait_ns)
            return
        network, (source, target) = self._network, self.ends
        host = network.hosts.get(target)
        service = None if host is None or host.life.state == DEAD else host.services.get(self._port)
        opened = None
        if host is not None and service is not None:
            opened, back = network.half_stream(source, target), network.half_stream(target, source)
            if network.log is not None and (logs := network.log.streams(opened.name, source, target)) is not None:
                opened.log, back.log = logs
            back.sink = self._end
            opened.sink = peer = ServiceConnection(service, host, back, source)
            peer.report_opened()
        self._answer(opened, wait_ns)

    def _answer(self, opened: HalfStream | None, wait_ns: int) -> None:
        self._network.kernel.later(self._return_link.delay(0), None, self.receive_answer, opened, wait_ns)

    def receive_answer(self, opened: HalfStream | None, wait_ns: int) -> None:
        """Report the result to the client, unless a cut has lost the answer on its way."""
        if self._return_link.cuts:  # the answer was lost on its way: the target repeats it
            self._retry(partial(self._answer, opened), wait_ns)
        else:
            self._done(opened)
