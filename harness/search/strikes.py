"""The faults of an exhaustive search: the hosts that each can strike, its duration, and its names as a step."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from harness.clusters.base import names
from harness.clusters.sim.cluster import SimCluster
from harness.errors import unknown_name
from harness.faults.base import FaultStep
from harness.faults.catalogue import build_fault, fault_class, fault_names
from harness.plan import FaultSpec
from harness.run.fault_engine import FaultEngine, InjectedStrike
from harness.run.recorder import Recorder


def step_of(name: str) -> FaultStep:
    """Return how a fault appears in an exhaustive search; UsageError for one that cannot."""
    steps = {known: step for known in fault_names() if (step := fault_class(known).step) is not None}
    if name not in steps:
        raise unknown_name("fault of an exhaustive search", name, steps)
    return steps[name]


@dataclass(frozen=True, slots=True)
class Target:
    """One fault on one host, as a step."""

    name: str
    fault: FaultStep
    host: str

    @property
    def step(self) -> str:
        return f"{self.fault.verb} {self.host}"

    @property
    def undo(self) -> str:
        return f"{self.fault.undo} {self.host}"

    def spec(self, ttl: float) -> FaultSpec:
        lasts = None if self.fault.ttls is None else self.fault.ttls * ttl
        return FaultSpec(self.name, at=0.0, for_=lasts, params={**self.fault.params, "target": self.host})


class Strikes:
    """Injects and heals faults on a steered cluster. Virtual time does not pass meanwhile, so each fault is observed at
    once."""

    def __init__(self, cluster: SimCluster, recorder: Recorder, faults: tuple[str, ...], most: int, ttl: float) -> None:
        self._cluster = cluster
        self._engine = FaultEngine(cluster, recorder, ttl)
        self._most = most
        self._ttl = ttl
        self._count = 0
        self._unseen: list[InjectedStrike] = []
        """Strikes in calls of clients that were injected in the current step: they take effect when its tasks run."""
        self._ends: dict[InjectedStrike, tuple[Target, int]] = {}
        """Active faults that end later, with their ends (ns)."""
        self.targets: dict[str, Target] = {}
        """All targets, by the names of their steps."""
        for name in faults:
            for host in names(cluster.hosts, step_of(name).role):
                target = Target(name, step_of(name), host)
                self.targets[target.step] = target

    @property
    def left(self) -> int:
        """Return how many faults may still strike."""
        return self._most - self._count

    def active_on(self, host: str) -> bool:
        """Return whether a fault that struck this host is still active and will end."""
        return any(target.host == host for target, _ in self._ends.values())

    @property
    def next_end(self) -> int | None:
        """Return when the next fault ends, ns."""
        return min((end for _, end in self._ends.values()), default=None)

    def due(self) -> dict[str, str]:
        """Return the steps that end expired faults, with their hosts."""
        now, _ = self._cluster.clock()
        return {target.undo: target.host for target, end in self._ends.values() if end <= now}

    def strike(self, step: str) -> None:
        """Take one of the steps in :attr:`targets`."""
        target = self.targets[step]
        spec = target.spec(self._ttl)
        now, _ = self._cluster.clock()
        strike = self._engine.inject(spec, build_fault(spec), Random(0), schedule=self._count)
        self._count += 1
        self._engine.activate(strike)
        if target.fault.in_calls:
            self._unseen.append(strike)
            return
        self._engine.observe(strike)
        if spec.for_ == 0.0:
            self._heal(strike)
        elif spec.for_ is not None:
            self._ends[strike] = target, now + round(spec.for_ * 1e9)

    def observe(self) -> None:
        """Observe what struck a call in the step that has ended."""
        for strike in self._unseen:
            strike.over.set()  # the observation must not wait: time stands still
            self._engine.observe(strike)
        self._unseen.clear()

    def end(self, step: str) -> None:
        """Take one of the steps in :meth:`due`."""
        strike = next(strike for strike, (target, _) in self._ends.items() if target.undo == step)
        del self._ends[strike]
        self._heal(strike)

    def _heal(self, strike: InjectedStrike) -> None:
        self._engine.undo(strike)
        self._engine.confirm_heal(strike, patience_s=0.0)
