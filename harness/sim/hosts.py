"""Simulated hosts: a wall clock of their own, services and tasks, and the faults a machine can suffer."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol

from .kernel import BOOT, DEAD, SECOND, Kernel, Life, Task, Timer
from .network import Network, Peer
from .service import Conn, Handler, Service

EPOCH: Final = 1_767_225_600_000_000_000
"""True wall-clock time at the start of every simulation: 2026-01-01T00:00:00Z, ns since 1970."""


class ClientSocket(Protocol):
    """What a host knows of its programs' sockets; ``peer`` is the host at the other end."""

    @property
    def peer(self) -> str | None: ...

    def abandon(self) -> None: ...

    def reset(self) -> None: ...


class Host:
    """One machine. Its monotonic clock is true; its wall clock is true time plus an offset that faults move."""

    def __init__(self, network: Network, name: str) -> None:
        self.kernel: Kernel = network.kernel
        self.network = network
        self.name = name
        self.services: dict[int, Service] = {}
        self.peers: dict[Peer, None] = {}
        self.sockets: dict[ClientSocket, None] = {}
        self.on_send: Callable[[str, bytes], None] | None = None
        """Told of each piece of data a task of this host is about to send, and to which host; may freeze or kill it."""
        self.on_change: Callable[[str | None], None] | None = None
        """Called after each thing that may have changed what programs here have: a message or the end of a stream (with
        the host at its other end), a timer that was set since somebody listens, a clock, a kill, a start (with None).
        It must only look."""
        self._offset = 0
        self._rate = 0.0
        self._rate_since = BOOT
        self.lines: list[tuple[int, int, str]] = []
        """The log: true time and the host's wall clock, ns, and what programs wrote or what befell the machine."""
        self.lives = 0
        self._pauses = 0
        self._kills = 0
        self._wiped = False
        self.life = self._new_life()
        network.hosts[name] = self

    def _new_life(self) -> Life:
        self.lives += 1
        return Life(self.name, self.kernel.rng(f"host/{self.name}/{self.lives}"))

    # What programs on the host ask for (the rest of ServiceHost).

    @property
    def rng(self) -> Random:
        return self.life.rng

    def monotonic_ns(self) -> int:
        return self.kernel.now

    def wall_ns(self) -> int:
        now = self.kernel.now
        if self._rate:
            return EPOCH + (now - BOOT) + self._offset + int((now - self._rate_since) * self._rate)
        return EPOCH + (now - BOOT) + self._offset

    def wall_in_ns(self, wall_ns: int) -> int:
        """How long until the wall clock shows this time, ns, if nobody sets it meanwhile; negative if it is past."""
        ahead = wall_ns - self.wall_ns()
        return round(ahead / (1 + self._rate)) if self._rate else ahead

    def call_later(self, delay_ns: int, fn: Callable[..., None], *args: Any) -> Timer:
        if self.on_change is None:
            return self.kernel.later(delay_ns, self.life, fn, *args)
        return self.kernel.later(delay_ns, self.life, self._due, fn, args)

    def _due(self, fn: Callable[..., None], args: tuple[Any, ...]) -> None:
        fn(*args)
        self._changed()

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change(None)

    def log(self, line: str) -> None:
        self.lines.append((self.kernel.now, self.wall_ns(), line))

    def dial(self, host: str, port: int, handler: Handler) -> Conn:
        """Open a stream for a service of this host; the handler is told how it went."""
        peer = Peer(handler, self, None, host)
        peer.attempt = self.network.connect(self.name, host, port, peer, peer.dialled)
        return peer

    # Programs.

    def install(self, service: Service) -> None:
        """Put a server program on the host and start it."""
        self.services[service.port] = service
        service.start(self, wiped=True)

    def spawn(self, fn: Callable[..., Any], *args: Any) -> Task:
        return self.kernel.spawn(self, self.life, fn, *args)

    # Faults.

    @property
    def alive(self) -> bool:
        return self.life.state != DEAD

    def offset_ns(self) -> int:
        """How far the wall clock is ahead of true time."""
        return self.wall_ns() - EPOCH - (self.kernel.now - BOOT)

    def set_clock(self, offset_ns: int, rate: float = 0.0) -> None:
        """Put the wall clock ``offset_ns`` ahead of true time, gaining ``rate`` seconds a second from now on."""
        self._offset = offset_ns
        self._rate = rate
        self._rate_since = self.kernel.now
        self.log(f"# clock set {offset_ns / SECOND:+.6f} s from true time, rate {rate:+g}")
        self._changed()

    def pause(self) -> None:
        """Freeze all processes; pauses count, and each needs its own resume."""
        self._pauses += 1
        self.log("# paused")
        self.kernel.freeze(self.life)

    def resume(self) -> None:
        self._pauses = max(0, self._pauses - 1)
        if not self._pauses:
            self.log("# resumed")
            self.kernel.thaw(self.life)

    def kill(self, *, for_good: bool = False) -> None:
        """Kill all processes at once: streams break, memory is gone, nothing gets to clean up. ``for_good``: no start
        will come for this kill's sake, so the next start for another's brings the host back."""
        self._kills += not for_good
        if not self.alive:
            return
        self.log("# killed")
        peers, sockets = list(self.peers), list(self.sockets)
        self.peers.clear()
        self.sockets.clear()
        for service in self.services.values():
            service.stop()
        for peer in peers:
            peer.reset()
        for socket in sockets:
            socket.abandon()
        self.kernel.end(self.life)
        self._changed()

    def break_streams(self, others: set[str]) -> int:
        """Reset every connection to one of the ``others``; returns how many there were."""
        peers = [peer for peer in self.peers if peer.peer in others]
        sockets = [socket for socket in self.sockets if socket.peer in others]
        for peer in peers:
            peer.reset()
        for socket in sockets:
            socket.reset()
        return len(peers) + len(sockets)

    def start(self, *, wiped: bool) -> None:
        """Start a killed host's services, with or without their disks; kills count, and each needs its own start."""
        self._kills = max(0, self._kills - 1)
        if self.alive:
            return
        self._wiped |= wiped
        if self._kills:
            return
        wiped, self._wiped = self._wiped, False
        self.life = self._new_life()
        if self._pauses:
            self.kernel.freeze(self.life)
        self.log("# started" + (", its disk wiped" if wiped else ""))
        for service in self.services.values():
            service.start(self, wiped=wiped)
        self._changed()
