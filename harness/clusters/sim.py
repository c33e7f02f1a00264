"""The simulated cluster: everything in one process, on virtual time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ..history.lock_keys import Tell as TellKey
from ..sim import threads
from ..sim.hosts import EPOCH, Host
from ..sim.kernel import BOOT, DEAD, FROZEN, RUNNING, SECOND, Kernel, Task
from ..sim.network import LOST, Network, Snare, Weight
from ..sim.patches import virtual
from ..sim.service import Conn, ServiceHost
from ..sim.steering import Steering
from . import kinds, sim_kinds
from .base import Address, Checkpoint, DiskState, Facts, Links, Program, Record, Role, Shape, State, Tap
from .floods import Flooding, floods_of
from .sim_keys import KeyWatch

CONTROL: Final = "control"
RESOURCE: Final = "resource"
RESOURCE_PORT: Final = 7000
_STATES: Final[dict[int, State]] = {RUNNING: "running", FROZEN: "paused", DEAD: "dead"}
SETTLE: Final = 0.5
"""Virtual seconds for servers to find each other before the run begins."""


class _Machine:
    """A simulated host in its role."""

    def __init__(self, host: Host, role: Role) -> None:
        self.host = host
        self.name = self.address = host.name
        self.role = role
        self.hang_wanted = False
        self.hung = False


class _LineService:
    """The protected resource as a program on a simulated host: a line in, a line out."""

    port = RESOURCE_PORT

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        """It keeps everything; it is never faulted."""

    def stop(self) -> None: ...

    def opened(self, conn: Conn) -> None:
        conn.session = b""

    def received(self, conn: Conn, data: bytes) -> None:
        *lines, conn.session = (conn.session + data).split(b"\n")
        for line in lines:
            conn.send(self._answer(line) + b"\n")

    def closed(self, conn: Conn) -> None: ...


class _BlackHole(Snare):
    """On both directions between a client and a server."""

    def __init__(self, network: Network, client: Host, server: str) -> None:
        super().__init__(b"", LOST, insatiable=True)
        self._links = [network.link(client.name, server), network.link(server, client.name)]
        self._client = client
        self._server = server
        for link in self._links:
            link.snares.append(self)

    def cancel(self) -> None:
        if self.armed:
            self.armed = False
            for link in self._links:
                link.snares.remove(self)
            self._client.break_streams({self._server})


def _dated(now: int, wall: int, line: str, origin_ns: int) -> str:
    clock = datetime.fromtimestamp(wall // SECOND, UTC)
    return f"{(now - origin_ns) / SECOND:10.3f} s  {clock:%Y-%m-%d %H:%M:%S}  {line}\n"


class SimCluster(Flooding):
    """See :class:`harness.clusters.base.Cluster`."""

    backend = "sim"

    def __init__(
        self,
        *,
        kind: str,
        nodes: int,
        clients: int,
        seed: int,
        resource: Callable[[bytes], bytes],
        options: dict[str, Any],
        program: Program,
        shuffle: int = 0,
    ) -> None:
        self.kind = kind
        self._program = program
        self.abilities = sim_kinds.abilities(kind)
        self._kernel = Kernel(seed, shuffle)
        self._network = Network(self._kernel)
        self._control = Host(self._network, CONTROL)
        self._keys: KeyWatch | None = None
        self._steered = False
        self._machines: dict[str, _Machine] = {}
        Host(self._network, RESOURCE).install(_LineService(resource))
        self._servers = sim_kinds.build(kind, self._make, nodes or kinds.default_nodes(kind), options)
        self._floods = floods_of(kind, lambda host: (host, kinds.KINDS[kind].port))
        for name in kinds.clients(clients):
            self._make(name, "client")

    def give_up_after(self, events: int) -> None:
        """Make :meth:`run` raise :class:`harness.sim.kernel.Endless` once so much has happened."""
        self._kernel.most_events = events

    def hold_up(self, source: str, target: str, nth: int, seconds: float) -> None:
        """The ``nth`` message (from 1 on) from one host to another takes so much longer."""
        self._network.link(source, target).hold_up(nth, round(seconds * SECOND))

    def _make(self, name: str, role: Role) -> Host:
        host = Host(self._network, name)
        self._machines[name] = _Machine(host, role)
        return host

    @property
    def hosts(self) -> list[_Machine]:
        return list(self._machines.values())

    def endpoints(self) -> Address:
        return self._servers.address

    def resource(self) -> tuple[str, int]:
        return RESOURCE, RESOURCE_PORT

    def run(self, main: Callable[[], None]) -> None:
        def control() -> None:
            time.sleep(SETTLE)
            main()
            self._kernel.finish()

        with virtual():
            self._control.spawn(control)
            try:
                self._kernel.run()
            finally:
                if self._keys is not None:
                    self._keys.lapse(self._kernel.now)
                self._kernel.close()
                threads.forget()

    def steer(self, decide: Callable[[], None]) -> Steering:
        """From now on ``decide`` says what happens next, and of timers it decides about those of clients."""
        self._steered = True
        clients = [machine.name for machine in self.hosts if machine.role == "client"]
        return Steering(self._kernel, clients, decide)

    def clock(self) -> tuple[int, int]:
        now = self._kernel.now
        return now, EPOCH + now - BOOT

    def logs(self, origin_ns: int) -> dict[str, str]:
        servers = [machine for machine in self.hosts if machine.role != "client"]
        return {server.name: "".join(_dated(*line, origin_ns) for line in server.host.lines) for server in servers}

    def about(self) -> Facts:
        return {}

    def interrupt(self) -> None:
        self._kernel.crash(KeyboardInterrupt())

    def launch(self, client: str, job: Any, record: Record) -> Callable[[float], bool]:
        return self.spawn(client, lambda checkpoint: self._program(job, record, checkpoint))

    def spawn(self, client: str, main: Callable[[Checkpoint], None]) -> Callable[[float], bool]:
        """Run any code on a client's host: only here, where all hosts are in one process."""
        machine = self._machines[client]
        machine.hang_wanted = machine.hung = False
        task: Task

        def checkpoint() -> None:
            if machine.hang_wanted:
                machine.hung = True
                task.park()
            if task.life.state != RUNNING:
                task.park(0)

        task = machine.host.spawn(main, checkpoint)

        def join(timeout: float) -> bool:
            deadline = time.monotonic() + timeout
            while not (task.dead or machine.hung or task.life.state == DEAD):
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.05)
            return True

        return join

    def watch_keys(self, keys: Sequence[str], tell: TellKey) -> None:
        """To the event exact: see :mod:`harness.clusters.sim_keys`."""
        clients = frozenset(machine.name for machine in self.hosts if machine.role == "client")
        self._keys = KeyWatch(keys, tell, clients=clients, lapses=self._servers.lapses)
        for name, look in self._servers.look.items():
            self._keys.add(self._machines[name].host, look)

    def tap(self, tap: Tap | None) -> None:
        for server, watch in self._servers.watch.items():
            watch(None if tap is None else self._on_reply(server, tap))
        for machine in self._machines.values():
            if machine.role == "client":
                machine.host.on_send = None if tap is None else self._on_send(machine.name, tap)

    def _on_reply(self, server: str, tap: Tap) -> Callable[[str, str], None]:
        def on_reply(peer: str, command: str) -> None:
            if peer in self._machines and self._machines[peer].role == "client":
                tap("reply", peer, server, command)

        return on_reply

    def _on_send(self, client: str, tap: Tap) -> Callable[[str, bytes], None]:
        def on_send(target: str, data: bytes) -> None:
            if target in self._machines:
                for command in self._servers.commands(data):
                    tap("request", client, target, command)

        return on_send

    # Processes.

    def pause(self, host: str) -> None:
        self._machines[host].host.pause()

    def resume(self, host: str) -> None:
        self._machines[host].host.resume()

    def kill(self, host: str, *, for_good: bool = False) -> None:
        self._machines[host].host.kill(for_good=for_good)

    def start(self, host: str, *, wiped: bool) -> None:
        self._machines[host].host.start(wiped=wiped)

    def hang(self, host: str) -> None:
        self._machines[host].hang_wanted = True

    def hung(self, host: str) -> bool:
        return self._machines[host].hung

    def state(self, host: str) -> State:
        life = self._machines[host].host.life
        if self._steered:  # nobody can wait and see: time stands still
            return _STATES[life.state]
        done: list[bool] = []
        self._kernel.later(0, life, done.append, True)
        time.sleep(0.001)
        if done:
            return "running"
        return "paused" if life.state == FROZEN else "dead"

    def life(self, host: str) -> int | None:
        machine = self._machines[host].host
        return machine.lives if machine.life.state != DEAD else None

    def size(self, host: str) -> int | None:
        ask = self._servers.size.get(host)
        return None if ask is None else ask()

    # Disks: nothing is lost between a simulated server and its disk.

    def stall(self, host: str) -> None:
        raise NotImplementedError("a simulated server's disk does not stall")

    def unstall(self, host: str) -> None:
        raise NotImplementedError("a simulated server's disk does not stall")

    def lose_power(self, host: str) -> None:
        raise NotImplementedError("a simulated server's disk loses nothing")

    def disk(self, host: str) -> DiskState:
        raise NotImplementedError("a simulated server has no disk to write to")

    # Clocks.

    def set_clock(self, host: str, offset: float, rate: float = 0.0) -> None:
        self._machines[host].host.set_clock(round(offset * SECOND), rate)

    def read_clock(self, host: str) -> int:
        return self._machines[host].host.wall_ns() - self.clock()[1]

    # Network.

    def cut(self, links: Links) -> None:
        for source, target in links:
            self._network.link(source, target).cuts += 1

    def mend(self, links: Links) -> None:
        for source, target in links:
            link = self._network.link(source, target)
            link.cuts = max(0, link.cuts - 1)

    def reaches(self, source: str, target: str, timeout: float) -> float | None:
        began = self._kernel.now
        answered = threading.Event()
        self._network.ping(source, target, answered.set)
        return (self._kernel.now - began) / SECOND if answered.wait(timeout) else None

    def shape(self, links: Links, shape: Shape) -> Callable[[], None]:
        weight = Weight(
            round(shape.latency * SECOND), round(shape.jitter * SECOND), shape.loss, shape.rate or float("inf")
        )
        shaped = [self._network.link(source, target) for source, target in links]
        for link in shaped:
            link.burden(weight)

        def undo() -> None:
            for link in shaped:
                link.relieve(weight)

        return undo

    def swallow(self, source: str, target: str, needle: bytes, delay: float | None) -> Snare:
        snare = Snare(needle, -1 if delay is None else round(delay * SECOND))
        self._network.link(source, target).snares.append(snare)
        return snare

    def black_hole(self, client: str, server: str) -> Snare:
        return _BlackHole(self._network, self._machines[client].host, server)

    def break_streams(self, host: str) -> int:
        return self._machines[host].host.break_streams(set(self._machines))

    def primary(self) -> str | None:
        return self._servers.primary()
