"""One critical section of every client, in an order that is decided step by step.

First each client goes through a section alone, one after the other, so that connections are open and scripts loaded;
that is not recorded. Then all stand at their gates, and the cluster is steered. A step is one of

- ``begin c0``: a client begins its section, and comes as far as the first answer that it has to wait for;
- ``c0>n1``: the next message between two hosts arrives, and what it causes there happens, as far as the next wait;
- ``pause c0`` (and so on): a fault strikes between two steps, or within a client's step, right after a call of it has
  ended: after ``acquire`` has returned, and before anything is asked for with the lock;
- ``c0 wakes``, ``resume c0``: the time of a client's sleep, or of a fault, is over;
- ``time passes``: to the next of these ends. No message is under way for longer than ``Bounds.late`` then.

Whatever happens between two such passings of time happens at one and the same moment. Entries of one moment are
recorded a nanosecond apart, so that their order is in the history.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ..client_program import Job, client
from ..clusters.base import Checkpoint, names
from ..clusters.sim import SimCluster
from ..errors import UsageError
from ..history import NEMESIS, Op, OpType
from ..plan import Plan
from ..recorder import Recorder
from ..runner import Runner
from ..sim.steering import Gate, Steering
from ..workloads.client import Client
from ..workloads.sections import update
from .interleavings import EVERYTHING, Path, Step
from .strikes import Strikes, Target

QUIET: Final = 0.01
"""Virtual seconds after the warm-up until nothing is under way any more."""
KEY: Final = "k0"
HISTORY: Final = "history"
FAULTS: Final = "faults"
"""Beside hosts and wires, what steps touch: who records an entry touches the one, who uses up a fault the other."""
PASSES: Final = "time passes"
TOO_LONG: Final = 1_000
"""Steps after which an execution is given up: something goes round in it."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How far an execution may go. ``access``: do clients read and write the resource while they hold the lock?
    ``faults`` of the ``families`` strike, at most; an acquire tries for ``wait`` seconds (0: once); messages take at
    most ``late`` seconds; the execution lasts ``horizon`` seconds (0: as long as faults take, and a ttl)."""

    access: bool = True
    faults: int = 1
    families: tuple[str, ...] = ("client-pause",)
    wait: float = 0.0
    late: float = 0.0
    horizon: float = 0.0


class OneByOne(Recorder):
    """Gives each entry a time of its own: those of one moment come a nanosecond apart."""

    def __init__(self, clock: Callable[[], tuple[int, int]]) -> None:
        super().__init__(None, clock)
        self._last = 0

    def record(self, *, time: int, wall: int, process: int, type_: OpType, f: str, **rest: Any) -> None:
        late = max(0, self._last + 1 - time)
        self._last = time + late
        super().record(time=time + late, wall=wall + late, process=process, type_=type_, f=f, **rest)


class _Player:
    """A client, as far as the steering knows it."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.warm = Gate()
        self.warmed = Gate()
        self.start = Gate()
        self.begun = self.done = False
        self.granted = True

    @property
    def within(self) -> bool:
        return self.begun and not self.done


class Section(Runner):
    """One execution of a completed plan on a fresh cluster; ``path`` decides. :meth:`run` raises what that raises."""

    def __init__(self, plan: Plan, cluster: SimCluster, bounds: Bounds, path: Path) -> None:
        super().__init__(plan, cluster, writer=None, progress=None)
        self.recorder = OneByOne(cluster.clock)
        self.recorder.listeners.append(self._heard)
        self.finished = False
        """Have all clients come to the end of their sections, and all faults to theirs?"""
        self._sim = cluster
        self._bounds = bounds
        self._path = path
        self._players = [_Player(node) for node in names(cluster.hosts, "client")]
        self._by_node = {player.node: player for player in self._players}
        self._strikes = Strikes(cluster, self.recorder, bounds.families, bounds.faults, plan.ttl)
        self._clients: list[Client] = []
        """Kept: a client that is forgotten closes its connections."""
        self._recording = False
        self._over = Gate()
        self._steering: Steering
        self._acts: dict[str, set[str]] = {}
        self._step: Step | None = None
        self._touched: set[str] = set()
        self._entries = 0
        """How many there were when the step began."""
        self._completions = 0
        """How many entries the client has recorded in this step, each of which is the end of a call."""
        self._horizon = 0
        self._taken = 0

    # The clients.

    def _play(self) -> None:
        self._began_ns = time.monotonic_ns()
        for player in self._players:
            self._sim.spawn(player.node, self._program(player))
        for player in self._players:
            player.warm.open()
            player.warmed.wait()
        for player in self._players:
            if not player.granted:
                raise UsageError(f"{self._plan.lock} was not granted to {player.node}, who was alone")
        time.sleep(QUIET)
        self.recorder.nemesis("start", self._settings())
        self._recording = True
        self._horizon = time.monotonic_ns() + round(self._longest() * 1e9)
        self._steering = self._sim.steer(self._decide)
        self._over.wait()

    def _longest(self) -> float:
        bounds = self._bounds
        lasting = max((target.family.ttls or 0.0 for target in self._strikes.targets.values()), default=0.0)
        return bounds.horizon or (bounds.faults * lasting + 1) * self._plan.ttl

    def _program(self, player: _Player) -> Callable[[Checkpoint], None]:
        def main(checkpoint: Checkpoint) -> None:
            one = client(self._job(player.node), self._record, checkpoint)
            self._clients.append(one)
            player.warm.wait()
            player.granted = self._warm_up(one)
            player.warmed.open()
            player.start.wait()
            self._section(one)
            player.done = True

        return main

    def _job(self, node: str) -> Job:
        address = self._cluster.endpoints()
        return Job(
            plan=self._plan,
            node=node,
            generation=0,
            kind=address.kind,
            addresses=address.addresses,
            resource=self._cluster.resource(),
            began_ns=self._began_ns,
        )

    def _record(self, **entry: Any) -> None:
        if self._recording:
            self.recorder.record(**entry)

    @staticmethod
    def _warm_up(one: Client) -> bool:
        """A section that changes nothing."""
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
            raise UsageError(f"an execution does not end within {TOO_LONG:,} steps: {self._plan.lock} goes round in it")
        self._step = self._path.choose([Step(act) for act in sorted(self._acts, key=self._rank)])
        self._entries, self._completions = len(self.recorder.history), 0
        self._touched = self._acts[self._step.act]
        self._take(self._step.act)

    def _rank(self, act: str) -> tuple[bool, str]:
        """What changes places with most comes last: it sleeps in what comes before, and few executions are cut."""
        return self._acts[act].isdisjoint(self._by_node), act

    def _possible(self) -> dict[str, set[str]]:
        """All that can happen next, with what it touches."""
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
        """May this strike now? A client within its section, a server while any client is."""
        if target.family.role == "client":
            return self._by_node[target.host].within and not self._strikes.at_work(target.host)
        return any(player.within for player in self._players)

    def _passing(self) -> int | None:
        """Until when time may pass now, ns; None if it may not."""
        steering, strikes = self._steering, self._strikes
        waiting = strikes.next_end is not None or not all(player.done for player in self._players)
        if not waiting or strikes.due() or steering.sleepers():
            return None
        ends = [end for end in (steering.next_timer(), strikes.next_end) if end is not None]
        until = min(ends, default=None)
        if until is None or until > self._horizon:
            return None
        sent = steering.oldest()
        return until if sent is None or until <= sent + round(self._bounds.late * 1e9) else None

    def _take(self, act: str) -> None:
        strikes, steering = self._strikes, self._steering
        if act == PASSES:
            until = self._passing()
            assert until is not None
            steering.pass_to(until)
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
        """The step is over: say what it touched, and where in the middle of it a fault could have struck."""
        step = self._step
        if step is None:
            return
        if len(self.recorder.history) > self._entries:
            self._touched.add(HISTORY)
        self._touched |= self._steering.sent
        self._path.took(frozenset(self._touched), () if step.then else self._within(step))

    def _within(self, step: Step) -> list[Step]:
        if not self._strikes.left:
            return []
        hosts = [host for host in self._touched if host in self._by_node]
        return [
            Step(step.act, then, number)
            for then, target in self._strikes.targets.items()
            if target.family.within and target.host in hosts
            for number in range(1, self._completions + (not self._by_node[target.host].done))
        ]

    def _heard(self, op: Op) -> None:
        if op.process == NEMESIS or op.type == "invoke" or self._step is None:
            return
        self._completions += 1
        if self._step.then and self._completions == self._step.after:
            self._touched.add(FAULTS)
            self._strikes.strike(self._step.then)
