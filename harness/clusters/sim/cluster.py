"""The simulated cluster: servers, clients and network in one process on virtual time, with faults in the simulation.

:class:`SimCluster` implements :class:`harness.clusters.base.Cluster` on top of :mod:`harness.sim`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from greenlet import getcurrent

from harness.clusters import kinds
from harness.clusters.abilities.hosts import State
from harness.clusters.abilities.network import Tap
from harness.clusters.base import Checkpoint, ClusterEndpoints, HostProgram, ObservedFacts, RecordEntry, Role
from harness.clusters.floods import floods_class
from harness.errors import ProcessEnds
from harness.history.lock_keys import OnKeyChange
from harness.sim import exits
from harness.sim.call_finder import CurrentCall
from harness.sim.hosts import EPOCH, SimHost
from harness.sim.kernel import BOOT, DEAD, FROZEN, RUNNING, SECOND, Kernel, Task
from harness.sim.message_log import Entry, MessageLog
from harness.sim.network import SimNetwork
from harness.sim.patches import virtual
from harness.sim.places import PlaceFinder
from harness.sim.steering import Steering

from .interrupts import ClientThreads, TaskCancels, ThreadInterrupts
from .keys import KeyWatch
from .kinds import blaming, servers_class
from .links import LinkMethods
from .machines import SimMachine
from .processors import Processors
from .resource import RESOURCE_PORT, LineService

CONTROL: Final = "control"
RESOURCE: Final = "resource"
_STATES: Final[dict[int, State]] = {RUNNING: "running", FROZEN: "paused", DEAD: "dead"}
SETTLE: Final = 0.5
"""Virtual seconds for servers to connect to each other before the run begins."""


def _dated(now: int, wall: int, line: str, origin_ns: int) -> str:
    clock = datetime.fromtimestamp(wall // SECOND, UTC)
    return f"{(now - origin_ns) / SECOND:10.3f} s  {clock:%Y-%m-%d %H:%M:%S}  {line}\n"


class SimCluster(LinkMethods):
    """See :class:`harness.clusters.base.Cluster`. It implements itself what the simulator can do to any host; the
    servers and their floods are parts of their own."""

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
        program: HostProgram,
        shuffle: int = 0,
    ) -> None:
        self.kind = kind
        self._program = program
        self._kernel = Kernel(seed, shuffle)
        self._network = SimNetwork(self._kernel)
        self._control = SimHost(self._network, CONTROL)
        self._keys: KeyWatch | None = None
        self._steered = False
        self._machines: dict[str, SimMachine] = {}
        SimHost(self._network, RESOURCE).install(LineService(resource))
        with blaming(kind):
            self.servers = servers_class(kind)(self._make, kind, nodes or kinds.default_nodes(kind), options)
        floods = floods_class(kind)
        self._floods = () if floods is None else (floods(lambda host: (host, self.servers.port)),)
        for name in kinds.clients(clients):
            self._make(name, "client")
        self._threads = ClientThreads([self._machines[name].host for name in kinds.clients(clients)], self.servers)
        self._interrupts = TaskCancels(self._threads), ThreadInterrupts(self._threads)
        self._processors = Processors(self._kernel, {name: machine.host for name, machine in self._machines.items()})

    def give_up_after(self, events: int) -> None:
        """Make :meth:`run` raise :class:`harness.sim.kernel.TooManyEvents` after this number of events."""
        self._kernel.event_limit = events

    def delay_message(self, source: str, target: str, nth: int, seconds: float) -> None:
        """Delay the ``nth`` message (counted from 1) from one host to another by ``seconds``."""
        self._network.link(source, target).delay_message(nth, round(seconds * SECOND))

    def _make(self, name: str, role: Role) -> SimHost:
        host = SimHost(self._network, name)
        self._machines[name] = SimMachine(host, role)
        return host

    @classmethod
    def part_types(cls, kind: str) -> tuple[type, ...]:
        """Return the classes of the parts of a cluster of this kind; none if it cannot be simulated."""
        if not kinds.can_run(kind, "sim"):
            return ()
        floods = floods_class(kind)
        own = (TaskCancels, ThreadInterrupts, Processors)
        return cls, servers_class(kind), *own, *(() if floods is None else (floods,))

    @property
    def parts(self) -> tuple[object, ...]:
        return self, self.servers, *self._interrupts, self._processors, *self._floods

    @property
    def hosts(self) -> list[SimMachine]:
        return list(self._machines.values())

    def endpoints(self) -> ClusterEndpoints:
        return self.servers.address()

    def resource(self) -> tuple[str, int]:
        return RESOURCE, RESOURCE_PORT

    def run(self, main: Callable[[], None]) -> None:
        with self.session() as run:
            run(main)

    @contextlib.contextmanager
    def session(self) -> Iterator[Callable[[Callable[[], None]], None]]:
        """Yield a function that runs code with the cluster; see :meth:`run`. After each call the cluster stands still,
        and at the end of the context it is closed."""
        with virtual(), blaming(self.kind):
            try:
                yield self._run
            finally:
                if self._keys is not None:
                    self._keys.lapse(self._kernel.now)
                self._kernel.close()

    def _run(self, main: Callable[[], None]) -> None:
        def control() -> None:
            time.sleep(SETTLE)
            main()
            self._kernel.finish()

        self._control.spawn(control)
        self._kernel.run()

    def steer(self, decide: Callable[[], None]) -> Steering:
        """Let ``decide`` choose the next event from now on; of timers only those of clients are choices."""
        self._steered = True
        clients = [machine.name for machine in self.hosts if machine.role == "client"]
        return Steering(self._kernel, clients, decide)

    def clock(self) -> tuple[int, int]:
        now = self._kernel.now
        return now, EPOCH + now - BOOT

    def logs(self, origin_ns: int) -> dict[str, str]:
        servers = [machine for machine in self.hosts if machine.role != "client"]
        return {server.name: "".join(_dated(*line, origin_ns) for line in server.host.lines) for server in servers}

    def about(self) -> ObservedFacts:
        return {}

    def unsupported(self) -> dict[str, str]:
        """Return the calls that simulated processes made and the simulator lacks, each with the first such host."""
        return dict(self._kernel.unsupported)

    def messages(self, source: str, target: str) -> int:
        """Return the number of messages that one host has sent to another."""
        return self._network.link(source, target).messages

    def interrupt(self) -> None:
        self._kernel.crash(KeyboardInterrupt())

    def launch(self, client: str, job: Any, record: RecordEntry) -> Callable[[float], bool]:
        record = self.listening(client, record)

        def program(checkpoint: Checkpoint) -> None:
            try:
                self._program(job, record, checkpoint)
            except ProcessEnds as end:
                main = self._machines[client].host.life.main
                assert main is not None
                exits.end_process(main, cleans_up=end.cleans_up)

        return self.spawn(client, program)

    def listening(self, client: str, record: RecordEntry) -> RecordEntry:
        """Return a function that also tells the cluster where the client is, so that it can be interrupted there."""
        listening, log = self._threads.listening(client, record), self._network.log
        if log is None:
            return listening

        def noted(**entry: Any) -> None:
            log.note_call(entry["type_"], entry["f"], entry["process"])
            listening(**entry)

        return noted

    def log_messages(
        self, places: PlaceFinder, current_call: CurrentCall, sink: Callable[[list[Entry]], None]
    ) -> MessageLog:
        """Log what clients and servers send each other from now on; call this before :meth:`run`. The arguments are
        those of :class:`harness.sim.message_log.MessageLog`."""
        clients = [machine.name for machine in self.hosts if machine.role == "client"]
        servers = [machine.name for machine in self.hosts if machine.role != "client"]
        log = self._network.log = MessageLog(self._kernel, clients, servers, places, current_call, sink)
        return log

    def spawn(self, client: str, main: Callable[[Checkpoint], None]) -> Callable[[float], bool]:
        """Run a function on a client's host; only the simulator can, since all hosts are in one process."""
        machine = self._machines[client]
        machine.hang_wanted = machine.hung = False
        task: Task

        def checkpoint() -> None:
            if not machine.hang_wanted and task.life.state == RUNNING:
                return
            me = getcurrent()
            assert isinstance(me, Task)
            with self._threads.at_checkpoint(client) if me is task else contextlib.nullcontext():
                if machine.hang_wanted:
                    machine.hung = True
                    me.park()
                if me.life.state != RUNNING:
                    me.park(0)

        task = machine.host.life.main = machine.host.spawn(main, checkpoint)
        self._threads.launched(client, task)

        def join(timeout: float) -> bool:
            deadline = time.monotonic() + timeout
            while not (task.dead or machine.hung or task.life.state == DEAD):
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.05)
            return True

        return join

    def watch_keys(self, keys: Sequence[str], on_change: OnKeyChange) -> None:
        """Report changes at the exact event; see :mod:`harness.clusters.sim.keys`."""
        clients = frozenset(machine.name for machine in self.hosts if machine.role == "client")
        self._keys = KeyWatch(keys, on_change, clients=clients, lapses=self.servers.lapses)
        for name, look in self.servers.look.items():
            self._keys.add(self._machines[name].host, look)

    def tap(self, tap: Tap | None) -> None:
        for server, watch in self.servers.watch.items():
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
                for command in self.servers.commands(data):
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
        if self._steered:  # a probe would have to wait, and time stands still
            return _STATES[life.state]
        done: list[bool] = []
        self._kernel.later(0, life, done.append, True)
        time.sleep(0.001)
        if done:
            return "running"
        return "paused" if life.state == FROZEN else "dead"

    def incarnation(self, host: str) -> int | None:
        machine = self._machines[host].host
        return machine.lives if machine.life.state != DEAD else None

    def key_count(self, host: str) -> int | None:
        ask = self.servers.key_count.get(host)
        return None if ask is None else ask()

    # Clocks.

    def set_clock(self, host: str, offset: float, rate: float = 0.0) -> None:
        self._machines[host].host.set_clock(round(offset * SECOND), rate)

    def read_clock(self, host: str) -> int:
        return self._machines[host].host.wall_ns() - self.clock()[1]
