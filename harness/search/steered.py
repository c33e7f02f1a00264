"""Execute one critical section of every client, in an order that is decided step by step.

First each client executes a critical section alone, one after the other, to open connections and load scripts; that is
not recorded. Then all clients wait, and the steps are chosen one at a time. A step is one of

- ``begin c0``: a client begins its critical section, and continues until it waits for an answer;
- ``c0>n1``: the next message between two hosts arrives; its receiver continues until it waits again;
- ``pause c0`` (and other faults): a fault strikes between two steps, or within a client's step right after one of its
  calls has ended: for example after ``acquire`` has returned, and before the client uses the resource;
- ``c0 wakes``, ``resume c0``: a client's sleep, or a fault, is over;
- ``time passes``: time advances to the next such end. No message may then be under way for longer than ``Bounds.late``.

Virtual time stands still between two ``time passes`` steps. Entries of the same moment are recorded one nanosecond
apart, so that the history has their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from harness.clusters.base import Checkpoint, names
from harness.clusters.sim.cluster import SimCluster
from harness.documents.lock import LockFacts
from harness.errors import UsageError
from harness.faults.pause import ClientPause
from harness.history import NEMESIS, Op, OpType
from harness.plan import Plan
from harness.run.recorder import Recorder
from harness.run.runner import Runner
from harness.sim.steering import Steering, TaskGate
from harness.worker.client import Client
from harness.worker.client_program import ClientJob, client
from harness.worker.sections import update
from harness.worker.world import World

from .interleavings import EVERYTHING, ExecutionStep, Path
from .strikes import Strikes, Target

QUIET: Final = 0.01
"""Virtual seconds after the warm-up until all messages have arrived."""
KEY: Final = "k0"
HISTORY: Final = "history"
FAULTS: Final = "faults"
"""Touched, besides hosts and links, by a step that records an entry, and by a step that uses up one of the faults."""
PASSES: Final = "time passes"
LOCK_CALLS: Final = ("acquire", "release")
"""Calls in which a client can be interrupted."""
TOO_LONG: Final = 1_000
"""Steps after which an execution is given up, since it seems to loop."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of an execution.

    ``access``: clients read and write the resource while they hold the lock. At most ``faults`` faults of the
    ``families`` strike. An acquire tries for ``wait`` seconds (0: once), messages take at most ``late`` seconds, and
    the execution lasts ``horizon`` seconds (0: as long as the faults take, and a ttl).
    """

    access: bool = True
    faults: int = 1
    families: tuple[str, ...] = (ClientPause.name,)
    wait: float = 0.0
    late: float = 0.0
    horizon: float = 0.0


class DistinctTimesRecorder(Recorder):
    """Recorder that gives each entry a time of its own: entries of one moment are a nanosecond apart."""

    def __init__(self, clock: Callable[[], tuple[int, int]]) -> None:
        super().__init__(None, clock)
        self._last = 0

    def record(self, *, time: int, wall: int, process: int, type_: OpType, f: str, **rest: Any) -> None:
        late = max(0, self._last + 1 - time)
        self._last = time + late
        super().record(time=time + late, wall=wall + late, process=process, type_=type_, f=f, **rest)


class _SteeredClient:
    """State of a client that the steering controls."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.warm = TaskGate()
        self.warmed = TaskGate()
        self.start = TaskGate()
        self.begun = self.done = False
        self.granted = True

    @property
    def within(self) -> bool:
        return self.begun and not self.done


class Section(Runner):
    """One execution of a completed plan on a fresh cluster, along ``path``. :meth:`run` raises its errors."""

    def __init__(self, plan: Plan, lock: LockFacts, cluster: SimCluster, bounds: Bounds, path: Path) -> None:
        super().__init__(plan, lock, cluster)
        self.recorder = DistinctTimesRecorder(cluster.clock)
        self.recorder.listeners.append(self._heard)
        self.finished = False
        """Return whether all clients have ended their critical sections, and all faults are over."""
        self._sim = cluster
        self._bounds = bounds
        self._path = path
        self._players = [_SteeredClient(node) for node in names(cluster.hosts, "client")]
        self._by_node = {player.node: player for player in self._players}
        self._strikes = Strikes(cluster, self.recorder, bounds.families, bounds.faults, plan.ttl)
        self._clients: list[Client] = []
        """References to the clients; a client closes its connections when it is garbage-collected."""
        self._recording = False
        self._over = TaskGate()
        self._steering: Steering
        self._acts: dict[str, set[str]] = {}
        self._step: ExecutionStep | None = None
        self._touched: set[str] = set()
        self._entries = 0
        """Number of entries in the history when the step began."""
        self._completions = 0
        """Number of calls that ended in this step."""
        self._calls: dict[str, str] = {}
        """The call in which each client is."""
        self._horizon = 0
        self._taken = 0

    # The clients.

    def _execute(self) -> None:
        self._began_ns = time.monotonic_ns()
        for player in self._players:
            self._sim.spawn(player.node, self._program(player))
        for player in self._players:
            player.warm.open()
            player.warmed.wait()
        for player in self._players:
            if not player.granted:
                raise UsageError(
                    f"{self._plan.lock} was not granted to {player.node}, though no other client asked for it"
                )
        time.sleep(QUIET)
        self.recorder.nemesis("start", self._settings())
        self._recording = True
        self._horizon = time.monotonic_ns() + round(self._longest() * 1e9)
        self._steering = self._sim.steer(self._decide)
        self._over.wait()

    def _longest(self) -> float:
        bounds = self._bounds
        lasting = max((target.fault.ttls or 0.0 for target in self._strikes.targets.values()), default=0.0)
        return bounds.horizon or (bounds.faults * lasting + 1) * self._plan.ttl

    def _program(self, player: _SteeredClient) -> Callable[[Checkpoint], None]:
        record = self._sim.listening(player.node, self._record)

        def main(checkpoint: Checkpoint) -> None:
            job = ClientJob.on(self._cluster, self._plan, player.node, self._began_ns)
            one = client(job, record, checkpoint, World(job.life).find_lock(self._plan.lock))
            self._clients.append(one)
            player.warm.wait()
            player.granted = self._warm_up(one)
            player.warmed.open()
            player.start.wait()
            self._section(one)
            player.done = True

        return main

    def _record(self, **entry: Any) -> None:
        if self._recording:
            self.recorder.record(**entry)

    @staticmethod
    def _warm_up(one: Client) -> bool:
        """Execute a critical section that changes nothing; return whether the lock was granted."""
        grant = one.acquire(KEY)
        if grant is None:
            return False
        one.read(KEY, grant)
        one.release(KEY)
        return True

    def _section(self, one: Client) -> None:
        grant = one.acquire(KEY, self._bounds.wait)
        if grant is None:
            return
        if self._bounds.access:
            update(one, lambda _key, _grant: None)(KEY, grant)
        one.release(KEY)

    # What happens next.

    def _decide(self) -> None:
        self._account()
        self._acts = self._possible()
        if not self._acts:
            self.finished = all(player.done for player in self._players) and self._strikes.next_end is None
            self._steering.end()
            self._over.open()
            return
        self._taken += 1
        if self._taken > TOO_LONG:
            raise UsageError(
                f"an execution of {self._plan.lock} does not end within {TOO_LONG:,} steps; the lock seems to loop"
            )
        self._step = self._path.choose([ExecutionStep(act) for act in sorted(self._acts, key=self._rank)])
        self._entries, self._completions = len(self.recorder.history), 0
        self._touched = self._acts[self._step.act]
        self._take(self._step.act)

    def _rank(self, act: str) -> tuple[bool, str]:
        """Sort key that puts steps last which are independent of most others; then fewer executions have to be cut."""
        return self._acts[act].isdisjoint(self._by_node), act

    def _possible(self) -> dict[str, set[str]]:
        """Return all steps that are possible next, with what each touches."""
        acts = {f"begin {player.node}": {player.node} for player in self._players if not player.begun}
        acts |= {wire: {wire, host} for wire, host in self._steering.messages().items()}
        for found in (self._steering.sleepers(), self._strikes.due()):
            acts |= {act: {host} for act, host in found.items()}
        if self._strikes.left:
            acts |= {step: {target.host, FAULTS} for step, target in self._strikes.targets.items() if self._may(target)}
        if self._passing() is not None:
            acts[PASSES] = {EVERYTHING}
        return acts

    def _may(self, target: Target) -> bool:
        """Return whether this fault may strike now: a client within its critical section, a server while any client is
        in one."""
        if target.fault.in_calls:
            return self._calls.get(target.host, "") in LOCK_CALLS
        if target.fault.role == "client":
            return self._by_node[target.host].within and not self._strikes.active_on(target.host)
        return any(player.within for player in self._players)

    def _passing(self) -> int | None:
        """Return until when (ns) time may pass now; None if it may not."""
        steering, strikes = self._steering, self._strikes
        waiting = strikes.next_end is not None or not all(player.done for player in self._players)
        if not waiting or strikes.due() or steering.sleepers():
            return None
        ends = [end for end in (steering.next_timer(), strikes.next_end) if end is not None]
        until = min(ends, default=None)
        if until is None or until > self._horizon:
            return None
        sent = steering.oldest_sent_ns()
        return until if sent is None or until <= sent + round(self._bounds.late * 1e9) else None

    def _take(self, act: str) -> None:
        strikes, steering = self._strikes, self._steering
        if act == PASSES:
            until = self._passing()
            assert until is not None
            steering.advance_to(until)
        elif act in strikes.targets:
            strikes.strike(act)
        elif act in strikes.due():
            strikes.end(act)
        elif act in steering.messages():
            steering.deliver(act)
        elif act in steering.sleepers():
            steering.wake(act)
        else:
            self._begin(act)

    def _begin(self, act: str) -> None:
        player = next(player for player in self._players if act == f"begin {player.node}")
        player.begun = True
        player.start.open()

    def _account(self) -> None:
        """Report what the finished step touched, and at which points within it a fault could have struck."""
        step = self._step
        if step is None:
            return
        self._strikes.observe()
        if len(self.recorder.history) > self._entries:
            self._touched.add(HISTORY)
        self._touched |= self._steering.sent
        self._path.took(frozenset(self._touched), () if step.then else self._within(step))

    def _within(self, step: ExecutionStep) -> list[ExecutionStep]:
        if not self._strikes.left:
            return []
        hosts = [host for host in self._touched if host in self._by_node]
        return [
            ExecutionStep(step.act, then, number)
            for then, target in self._strikes.targets.items()
            if target.fault.within and target.host in hosts
            for number in range(1, self._completions + (not self._by_node[target.host].done))
        ]

    def _heard(self, op: Op) -> None:
        if op.process != NEMESIS and op.node is not None:
            self._calls[op.node] = op.f if op.type == "invoke" else ""
        if op.process == NEMESIS or op.type == "invoke" or self._step is None:
            return
        self._completions += 1
        if self._step.then and self._completions == self._step.after:
            self._touched.add(FAULTS)
            self._strikes.strike(self._step.then)
