"""Durations of each fault on real clusters, for :mod:`benchmarks.containers`: to strike, to be seen, to heal."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from benchmarks.containers_cluster import T, launch, seconds
from benchmarks.containers_workload import LOCK, TTL
from harness.clusters.abilities import Needs, lacking
from harness.clusters.base import names
from harness.clusters.docker.cluster import DockerCluster
from harness.faults.base import InjectionContext, Observation
from harness.faults.catalogue import fault_class, fault_names

KINDS: Final = ("redis-independent", "redis-sentinel", "redis-single")
"""Most damage first: where there are several servers."""
MOMENTS: Final = ("inject", "until seen", "heal", "until seen")
HEALS_WITHIN: Final = 15.0
SETTLES: Final = 0.3
"""Seconds between two faults, in which clients get their locks again."""


def kind_for(fault: str) -> str:
    """Return the first of :data:`KINDS` on which a fault can strike, empty if there is none: a leader is lost only by
    etcd and ZooKeeper."""
    return next((kind for kind in KINDS if not lacking(fault_class(fault).needs, DockerCluster.part_types(kind))), "")


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault: milliseconds until each of :data:`MOMENTS`, as far as they came, and what went wrong."""

    fault: str
    kind: str
    took: list[float]
    wrong: str = ""

    def __str__(self) -> str:
        columns = "".join(f"{took:>12,.1f}" for took in self.took)
        return f"  {self.fault:<20} {self.kind:<18}{columns}  {self.wrong}".rstrip()


def faults_on(kind: str) -> list[str]:
    """The faults that are measured on this kind of cluster."""
    return [name for name in fault_names() if name != "none" and kind_for(name) == kind]


def needs_on(kind: str) -> Needs:
    return frozenset(need for name in faults_on(kind) for need in fault_class(name).needs)


class Range:
    """A cluster for faults, one after the other, while its clients hold and release locks."""

    def __init__(self, there: DockerCluster) -> None:
        self._there = there
        self._lock = "redlock" if there.kind == "redis-independent" else LOCK
        for client in names(there.hosts, "client"):
            self._work(client)
        time.sleep(2 * SETTLES)

    def _work(self, client: str) -> None:
        plan = {"lock": self._lock, "wait": 0.2, "hold": 0.5, "time_limit": 1000.0}
        launch(self._there, client, "Held", lambda **_: None, **plan)

    def strike(self, fault: str) -> Strike:
        """A fault that cannot be measured is a line all the same."""
        took: list[float] = []
        wrong = []
        scene = InjectionContext(self._there, Random(1), TTL, "c0")
        try:
            damage = self._timed(took, lambda: fault_class(fault)().inject(scene))
            try:
                seen = self._timed(took, damage.observe, since=took[0])
            finally:
                scene.over.set()
                self._timed(took, damage.heal)
            healed = self._timed(took, partial(_await, damage.healed), since=took[-1])
            wrong = [f"NOT SEEN: {look.expected}, got {look.facts}" for look in (seen, healed) if not look.effective]
            self._restore(damage.hosts)
        except Exception as error:  # noqa: BLE001 - of one fault; the others are still to be measured
            wrong = [f"ERROR {type(error).__name__}: {error}"]
        time.sleep(SETTLES)
        return Strike(fault, self._there.kind, took, "; ".join(wrong))

    @staticmethod
    def _timed(took: list[float], call: Callable[[], T], since: float = 0.0) -> T:
        lasted, returned = seconds(call)
        took.append(since + lasted * 1e3)
        return returned

    def _restore(self, hosts: list[str]) -> None:
        """Give clients that died or hang, or that were started again without a job, their work back."""
        there = self._there
        for client in set(hosts) & set(names(there.hosts, "client")):
            there.kill(client, for_good=True)
            there.start(client, wiped=False)
            self._work(client)


def _await(look: Callable[[], Observation]) -> Observation:
    deadline = time.monotonic() + HEALS_WITHIN
    while not (seen := look()).effective and time.monotonic() < deadline:
        time.sleep(0.01)
    return seen


def strikes(there: DockerCluster) -> list[Strike]:
    """Every fault whose kind of cluster this is, once."""
    some = faults_on(there.kind)
    if not some:
        return []
    place = Range(there)
    # A failover moves the primary, and partitions of the others from it are to be seen first.
    return [place.strike(name) for name in sorted(some, key="failover".__eq__)]
