"""Options of a hunt: which lock it searches, on which cluster, with which faults, and how far."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from harness.checkers import catalogue as checker_catalogue
from harness.clusters import kinds
from harness.clusters.abilities import lacking
from harness.clusters.sim.cluster import SimCluster
from harness.documents.lock import LockFacts
from harness.errors import UsageError
from harness.faults.catalogue import fault_class, fault_names, needs
from harness.plan import FaultSpec, Plan
from harness.run.plans.completion import complete, is_rare, methods_of, shares_objects
from harness.run.plans.lock_facts import find_facts
from harness.run.processes.interpreter import interpreter_of
from harness.worker.client_program import WORKLOADS

NO_FAULT: Final = "none"
TTLS: Final = (2.0, 8.0, 1.0)
"""Lease times (s) that a hunt tries, the simplest first. 8 s is for failovers that must end before the lease."""
SLACK: Final = 1.75
"""Seconds by which a lock may be acquired later than its promise.

A search combines faults that delay each other. A delay of one election or one retransmission is not worth reporting.
"""


class HuntRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The lock, its cluster, and the limits of the search.

    - ``faults``: families of faults that may strike, at most ``most_faults`` in one schedule. ``none`` must be alone;
      it means no faults, but critical sections that may last longer than the lease.
    - ``workloads``: what the clients may do; a schedule has at most ``clients`` clients.
    - ``ttl``: lease in seconds; 0 lets the search choose.
    - ``require``, ``accept``: what counts as a failure, as in a plan.
    - ``requires``, ``python``: releases of libraries, and the Python, as in a plan.
    - ``lease``: lease of grants that do not say it, as in a plan.
    - ``look_for``: names of the checkers that count, whatever is required. Empty: the required ones.
    - ``schedules``: most schedules of one round. Round number n has its own seed, derived from ``seed`` and n.
    - ``thorough``: a round continues after the first unsafe schedule, and reports one failure of each kind.
    - ``fault_free``: some schedules have no fault. This is so where no faults are named.
    - ``stop_at_first``: a known limit of the lock ends the search as any other failure does, unless it is accepted.
      Otherwise each is reported once, and the search goes on.
    """

    lock: str
    faults: tuple[str, ...] = ()
    most_faults: int = 2
    workloads: tuple[str, ...] = ()
    look_for: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    python: str = ""
    kind: str = ""
    nodes: int = 0
    clients: int = 3
    ttl: float = 0.0
    fencing: str = "off"
    lease: str = ""
    lock_options: dict[str, Any] = {}
    server_options: dict[str, Any] = {}
    schedules: int = 60
    seed: int = 0
    thorough: bool = False
    stop_at_first: bool = False
    fault_free: bool = False

    def completed(self) -> HuntRequest:
        """Return the request with defaults filled in from the lock; UsageError if this cannot be hunted."""
        lock = find_facts(self.lock, self.interpreter())
        for name in self.look_for:
            try:
                checker_catalogue.find(name)
            except checker_catalogue.UnknownChecker as error:
                raise UsageError(f"look_for: {error}") from error
        if self.most_faults < 0:
            raise UsageError(f"most_faults must not be negative, got {self.most_faults}")
        for name in ("schedules", "clients"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        promised = [*(["reentrant"] if lock.reentrant else []), *(["queue"] if lock.queue else [])]
        promised += ["readers-writers"] if lock.shared else []
        methods = set(lock.methods or ())
        promised += [
            name
            for name in WORKLOADS.own
            if is_rare(name) and methods.issuperset(methods_of(name)) and (lock.shareable or not shares_objects(name))
        ]
        workloads = self.workloads or ("mutex", *promised)
        kind = self.kind or self._kind_for(lock.kinds)
        request = msgspec.structs.replace(
            self,
            workloads=workloads,
            kind=kind,
            faults=self.faults or tuple(able(kind, asynchronous=bool(lock.asynchronous))),
            nodes=self.nodes or kinds.default_nodes(kind),
            fault_free=self.fault_free or not self.faults,
        )
        for name in workloads:
            complete(msgspec.structs.replace(request.plan(), workload=name), lock)
        for name in request.faults:
            request._check_fault(name, lock)
        return request

    @property
    def stops_at_limits(self) -> bool:
        """Return whether a known limit counts as any other failure."""
        return self.stop_at_first and "known-limits" not in self.accept

    def interpreter(self) -> str:
        """Return the path of the Python for the search, "" for this one."""
        return interpreter_of(self.plan(), search=True)

    def plan(self) -> Plan:
        """Return the plan without faults that every schedule of the hunt varies."""
        return Plan(
            lock=self.lock,
            kind=self.kind,
            nodes=self.nodes,
            clients=self.clients,
            workload=(self.workloads or ("mutex",))[0],
            ttl=self.ttl or TTLS[0],
            slack=SLACK,
            fencing=self.fencing,  # type: ignore[arg-type]  # checked with the plan
            lock_options=self.lock_options,
            lease=self.lease,
            server_options=self.server_options,
            checkers=tuple(name for name in self.look_for if name not in checker_catalogue.CHECKERS.own),
            require=self.require,
            accept=self.accept,
            requires=self.requires,
            python=self.python,
        ).check()

    def _check_fault(self, name: str, lock: LockFacts) -> None:
        """Raise UsageError for an unknown family, or one that cannot strike this kind of cluster."""
        if name == NO_FAULT:
            if len(self.faults) > 1:
                raise UsageError(f"faults: {NO_FAULT!r} goes with no other, got {', '.join(self.faults)}")
            return
        fault = fault_class(name)
        if fault.coroutines is not None or lacking(fault.needs, SimCluster.part_types(self.kind)):
            complete(msgspec.structs.replace(self.plan(), faults=(FaultSpec(name, at=0.0, for_=0.0),)), lock)

    def _kind_for(self, offered: tuple[str, ...]) -> str:
        """Return the first kind of cluster on which all requested faults can strike, else the lock's usual kind."""
        here = [kind for kind in offered if kinds.can_run(kind, "sim")] or list(offered)
        wanted = {need for name in self.faults if name != NO_FAULT for need in fault_class(name).needs}
        return next((kind for kind in here if not lacking(wanted, SimCluster.part_types(kind))), here[0])


def spec_of(lock: str | type) -> str:
    """Return the name by which every simulated client loads the lock.

    UsageError for a class that cannot be imported under its name.
    """
    if isinstance(lock, str):
        return lock
    if not isinstance(lock, type):
        raise UsageError(f"a lock is given as its class or its name, got {lock!r}")
    if getattr(sys.modules.get(lock.__module__), lock.__qualname__, None) is not lock:
        raise UsageError(
            f"{lock.__module__}:{lock.__qualname__} cannot be found under its name: clients open the lock by it, so "
            "the class must stand in a module, not in a function or in another class"
        )
    return f"{lock.__module__}:{lock.__qualname__}"


def names(given: str | Sequence[Any]) -> tuple[Any, ...]:
    """Split a comma-separated text into names; return a sequence without its empty names."""
    parts = given.split(",") if isinstance(given, str) else given
    stripped = (part.strip() if isinstance(part, str) else part for part in parts)
    return tuple(part for part in stripped if part != "")


def able(kind: str, *, asynchronous: bool = False) -> list[str]:
    """Return the families of faults that can strike a lock on a simulated cluster of this kind.

    ``asynchronous``: the lock's methods are coroutines."""
    parts = SimCluster.part_types(kind)
    names = [name for name in fault_names() if name != NO_FAULT]
    return [
        name
        for name in names
        if not fault_class(name).on_request
        and fault_class(name).coroutines in (None, asynchronous)
        and not lacking(needs(FaultSpec(name, at=0.0)), parts)
    ]
