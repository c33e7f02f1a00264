"""Simulated hosts: each has its own wall clock, server programs and tasks, and can be paused, killed or cut off."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol

from .kernel import BOOT, DEAD, SECOND, Kernel, Life, ScheduledCall, Task
from .network import ServiceConnection, SimNetwork
from .service import Conn, Handler, Service

EPOCH: Final = 1_767_225_600_000_000_000
"""Correct wall-clock time at the start of every simulation: 2026-01-01T00:00:00Z, in ns since 1970."""
CancelNext = Callable[[Callable[[str, int], Callable[[], object]]], None]
"""Cancels the call that a client awaits in an event loop, or else its next one. The argument is called at that moment,
with the call's name and the time at which it began (ns, monotonic). It returns a function that is called if the call
has received the cancellation."""


class ClientSocket(Protocol):
    """A client program's socket, as its host sees it. ``peer`` is the host at the other end, None if not connected."""

    @property
    def peer(self) -> str | None: ...

    def abandon(self) -> None:
        """End the socket because its process was killed."""

    def reset(self) -> None:
        """Break the connection at both ends."""


class SimHost:
    """One simulated machine.

    Its monotonic clock is correct. Its wall clock is true time plus an offset and a drift, which faults set.
    """

    def __init__(self, network: SimNetwork, name: str) -> None:
        self.kernel: Kernel = network.kernel
        self.network = network
        self.name = name
        self.services: dict[int, Service] = {}
        self.connections: dict[ServiceConnection, None] = {}
        self.sockets: dict[ClientSocket, None] = {}
        self.on_send: Callable[[str, bytes], None] | None = None
        """Called with (target host, data) before a task of this host sends. It may freeze or kill this host."""
        self.last_sent: tuple[int, str, bytes] | None = None
        """What a task of this host sent last: time (ns), target host, data. Interrupted calls are described by it."""
        self.on_cancellable: Callable[[CancelNext], None] | None = None
        """Called in each event loop of this host in which the calls of a client can be cancelled from now on."""
        self.on_change: Callable[[str | None], None] | None = None
        """Called after each event that may have changed the state of this host's server programs. The argument is the
        sending host after a message or the end of a stream, and None after a timer, a clock change, a kill or a start.
        Only timers that were set after the callback was installed count. The callback must not change anything."""
        self._offset = 0
        self._rate = 0.0
        self._rate_since = BOOT
        self.lines: list[tuple[int, int, str]] = []
        """The host's log: (true time in ns, wall-clock time in ns, a line of a program or a fault on the host)."""
        self.lives = 0
        self._pauses = 0
        self._kills = 0
        self._wiped = False
        self.life = self._new_life()
        network.hosts[name] = self

    def _new_life(self) -> Life:
        self.lives += 1
        return Life(self.name, self.kernel.rng(f"host/{self.name}/{self.lives}"))

    # The other methods of ServiceHost, for server programs.

    @property
    def rng(self) -> Random:
        return self.life.rng

    def monotonic_ns(self) -> int:
        """Return the monotonic time, ns. It is correct on every host."""
        return self.kernel.now

    def wall_ns(self) -> int:
        """Return the wall-clock time, ns since 1970, with its offset and drift."""
        now = self.kernel.now
        if self._rate:
            return EPOCH + (now - BOOT) + self._offset + int((now - self._rate_since) * self._rate)
        return EPOCH + (now - BOOT) + self._offset

    def wall_in_ns(self, wall_ns: int) -> int:
        """Return in how many ns the wall clock will show this time unless it is set; negative for past times."""
        ahead = wall_ns - self.wall_ns()
        return round(ahead / (1 + self._rate)) if self._rate else ahead

    def call_later(self, delay_ns: int, fn: Callable[..., None], *args: Any) -> ScheduledCall:
        """Call ``fn(*args)`` after ``delay_ns``, unless the host is killed before."""
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
        """Append a line to the log with the current true and wall-clock times."""
        self.lines.append((self.kernel.now, self.wall_ns(), line))

    def lacks(self, client: str, what: str) -> None:
        """Make the run unknown: the simulator lacks what the client called."""
        printable = "".join(char if char.isprintable() else "?" for char in what)
        self.kernel.unsupported.setdefault(printable, client)

    def dial(self, host: str, port: int, handler: Handler) -> Conn:
        """Open a stream for a server program of this host; ``handler`` is called when it opens, or is refused."""
        peer = ServiceConnection(handler, self, None, host)
        peer.attempt = self.network.connect(self.name, host, port, peer, peer.connect_finished)
        return peer

    # Programs.

    def install(self, service: Service) -> None:
        """Install a server program with an empty disk and start it."""
        self.services[service.port] = service
        service.start(self, wiped=True)

    def spawn(self, fn: Callable[..., Any], *args: Any) -> Task:
        """Run ``fn(*args)`` as a new task of this host."""
        return self.kernel.spawn(self, self.life, fn, *args)

    # Faults.

    @property
    def alive(self) -> bool:
        return self.life.state != DEAD

    def offset_ns(self) -> int:
        """Return how far the wall clock is ahead of true time, ns."""
        return self.wall_ns() - EPOCH - (self.kernel.now - BOOT)

    def set_clock(self, offset_ns: int, rate: float = 0.0) -> None:
        """Set the wall clock ``offset_ns`` ahead of true time; from now on it gains ``rate`` seconds per second."""
        self._offset = offset_ns
        self._rate = rate
        self._rate_since = self.kernel.now
        self.log(f"# clock set {offset_ns / SECOND:+.6f} s from true time, rate {rate:+g}")
        self._changed()

    def pause(self) -> None:
        """Freeze all processes. Pauses are counted: the host runs again after as many calls of :meth:`resume`."""
        self._pauses += 1
        self.log("# paused")
        self.kernel.freeze(self.life)

    def resume(self) -> None:
        """Undo one pause."""
        self._pauses = max(0, self._pauses - 1)
        if not self._pauses:
            self.log("# resumed")
            self.kernel.thaw(self.life)

    def kill(self, *, for_good: bool = False) -> None:
        """Kill all processes without any clean-up: streams are reset, and memory is lost.

        Kills are counted, and each needs its own :meth:`start`. A kill ``for_good`` is not counted: no start belongs to
        it, so the next start for another kill restarts the host.
        """
        self._kills += not for_good
        if self.alive:
            self._end("# killed")

    def end_process(self) -> None:
        """End a client's process, which has exited by itself. The system closes its connections, as after a kill."""
        if self.alive:
            self._end("# exited")

    def _end(self, line: str) -> None:
        self.log(line)
        connections, sockets = list(self.connections), list(self.sockets)
        self.connections.clear()
        self.sockets.clear()
        for service in self.services.values():
            service.stop()
        for connection in connections:
            connection.reset()
        for socket in sockets:
            socket.abandon()
        self.kernel.end(self.life)
        self._changed()

    def break_streams(self, others: set[str]) -> int:
        """Reset every connection to one of the hosts ``others``, and return how many there were."""
        connections = [connection for connection in self.connections if connection.peer in others]
        sockets = [socket for socket in self.sockets if socket.peer in others]
        for connection in connections:
            connection.reset()
        for socket in sockets:
            socket.reset()
        return len(connections) + len(sockets)

    def start(self, *, wiped: bool) -> None:
        """Undo one kill, and restart the services once all kills are undone. ``wiped``: their disks are empty."""
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
