"""A cluster on the machines of the tests, in the middle of a run, on which faults are injected one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from harness.clusters.ssh.cluster import SshCluster
from harness.faults.catalogue import build_fault
from harness.faults.records import FaultRecord
from harness.plan import FaultSpec, Plan
from harness.run.fault_engine import FaultEngine
from harness.run.opening import open_ssh
from harness.run.plans.completion import complete
from harness.run.recorder import Recorder
from harness.run.verdicts.fault_records import fault_records

from .machines import Machines

TTL: Final = 2.0
PATIENCE_S: Final = 60.0


class Bench:
    """The running cluster, and the history of the faults that are injected on it."""

    def __init__(self, cluster: SshCluster) -> None:
        self.cluster = cluster
        self.recorder = Recorder(None, cluster.clock)
        self._engine = FaultEngine(cluster, self.recorder, TTL)
        self._count = 0
        self.patience_s = PATIENCE_S
        """Seconds within which a fault must be healed."""

    @contextmanager
    def fault(self, name: str, **params: Any) -> Iterator[FaultRecord]:
        """Inject a fault and observe it as a run does; heal it at the end."""
        self._count += 1
        spec = FaultSpec(fault=name, at=0.0, params=params)
        strike = self._engine.inject(spec, build_fault(spec), Random(self._count), schedule=self._count)
        self._engine.activate(strike)
        self._engine.observe(strike)
        yield self.record()
        self._engine.undo(strike)
        self._engine.confirm_heal(strike, self.patience_s)

    def record(self) -> FaultRecord:
        """Return the last fault as it is recorded now."""
        return fault_records(self.recorder.history)[-1]

    def machine(self, program: str) -> str:
        return self.cluster._endpoints[program].machine


def on_bench(there: Machines, lock: str, test: Callable[[Bench], None], needs: tuple[str, ...], **fields: Any) -> None:
    """Run ``test`` on a cluster for ``lock``; ``needs`` are faults that it will inject."""
    plan = Plan(
        lock=lock, cluster="ssh", ssh_config=str(there.config), ttl=TTL,
        faults=tuple(FaultSpec(fault=name, at=0.0) for name in needs),
        **{"hosts": tuple(there.names), "clients": 3, **fields},
    )  # fmt: skip
    cluster = open_ssh(complete(plan.check()))
    cluster.run(lambda: test(Bench(cluster)))
