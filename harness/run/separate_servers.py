"""Find out if a lock keeps two clients apart although each has servers of its own.

All simulated clients are in one process, so a lock may exclude them by what clients on different machines do not share:
a file, an attribute of a module of the standard library, the working directory. That would be no lock in reality. Two
clients that have nothing but servers in common must both be granted the lock, at the same time, if each has servers of
its own.

One client acquires the lock twice: while nobody holds it, and while another client with other servers does. Both times
it is the same simulation with the same seed. So the answers are the same, unless something outside of the simulation
differs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from harness.clusters.base import Checkpoint, RecordEntry
from harness.clusters.sim.cluster import SimCluster
from harness.errors import Interruption
from harness.lock_impls.catalogue import LOCKS
from harness.plan import Plan
from harness.worker.client_program import ClientJob, client, find_workload
from harness.worker.world import World

from .opening import open_simulated

HOLDER, OTHER = "c0", "c1"
WAIT: Final = 0.5
"""For how long a client waits for the lock, as a share of the ttl: meanwhile no lease ends."""
POLL_S: Final = 0.01


def excluded_otherwise(plan: Plan) -> str | None:
    """Return the doubt about the runs of a completed plan if two clients exclude each other without common servers.

    None if they do not, or if a client alone is not granted the lock either. Locks of ours are not looked at, nor those
    whose clients may share files."""
    if plan.lock in LOCKS.own or plan.shared_files or not getattr(find_workload(plan.workload), "locks", True):
        return None
    try:
        with _acquired(plan, OTHER) as alone:
            pass
        with _acquired(plan, HOLDER) as held, _acquired(plan, OTHER) as granted:
            pass
    except Exception:  # noqa: BLE001 - the run itself shows what the lock does
        return None
    if not (alone and held) or granted:
        return None
    return (
        f"{HOLDER} and {OTHER} exclude each other even if each has servers of its own, so the lock relies on something "
        "that clients on different machines do not share, such as a file or the memory of a process"
    )


@contextlib.contextmanager
def _acquired(plan: Plan, name: str) -> Iterator[bool]:
    """Let a client with servers of its own acquire the lock. Yield whether it was granted; release it after that."""
    wait = WAIT * plan.ttl
    alone = msgspec.structs.replace(plan, clients=2, faults=(), delays=(), shuffle=0, time_limit=wait)
    holder = _Holder()
    cluster = open_simulated(alone, program=holder.run)
    with cluster.session() as run:
        run(lambda: holder.start(cluster, alone, name))
        yield holder.granted
        run(lambda: holder.leave(wait))


class _Holder:
    """A client that acquires the lock once, and holds it until :meth:`leave`."""

    def __init__(self) -> None:
        self.granted = False
        self._leaves = False
        self._join: Callable[[float], bool] = lambda _: True

    def start(self, cluster: SimCluster, plan: Plan, name: str) -> None:
        """Start the client, and wait until it was granted the lock, or for the plan's time."""
        self._join = cluster.launch(name, ClientJob.on(cluster, plan, name, time.monotonic_ns()), _ignore)
        deadline = time.monotonic() + plan.time_limit
        while not self.granted and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def leave(self, seconds: float) -> None:
        """Let the client release the lock, and wait for that."""
        self._leaves = True
        self._join(seconds)

    def run(self, job: ClientJob, record: RecordEntry, checkpoint: Checkpoint) -> None:
        """Run the client; a :data:`harness.clusters.base.HostProgram`."""
        me = client(job, record, checkpoint, World(job.life).find_lock(job.plan.lock))
        with contextlib.suppress(Interruption):
            while not (self._leaves or me.over()) and me.acquire("k0") is None:
                me.sleep(POLL_S)
            self.granted = not (self._leaves or me.over())
            while not self._leaves:
                me.sleep(POLL_S)
        me.release_all()


def _ignore(**_: Any) -> None:
    """No-op recorder of entries."""
