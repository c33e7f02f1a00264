"""What a hunt is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

import checkers.catalogue
from lock_impls.foreign import sharable

from ..client_program import find_lock
from ..clusters import kinds, sim_kinds
from ..completion import complete
from ..errors import UsageError
from ..fault_specs import fault_class, fault_names, needs
from ..plan import FaultSpec, Plan

NO_FAULT: Final = "none"
TTLS: Final = (2.0, 8.0, 1.0)
"""Seconds, the simplest first. Long ones are for what takes long: a failover that must be over before the lease is."""


SLACK: Final = 1.75
"""Seconds by which a lock may be had later than it must: a search makes faults meet that delay each other, and what is
late by an election or by a message that is sent again is no failure worth a story."""


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The lock, its surroundings, and how far the search goes.

    ``faults`` are the families that may strike, at most ``most_faults`` in one schedule (``none`` alone: no fault at
    all, and sections that may last longer than the lease). ``workloads`` are what clients may do, at most ``clients``
    of them; ``ttl`` 0 leaves the lease to the search. ``look_for`` are the checkers that count, none named: all that
    say invalid (but mutual exclusion where the resource checks fences, which is what fences are for). Each round tries
    at most ``schedules``, with a seed of its own from ``seed`` on. A round ends with the first schedule in which the
    lock is not safe; if ``thorough``, it goes on to the end, and finds one failure of each kind.
    """

    lock: str
    faults: tuple[str, ...] = ()
    most_faults: int = 2
    workloads: tuple[str, ...] = ()
    look_for: tuple[str, ...] = ()
    kind: str = ""
    nodes: int = 0
    clients: int = 3
    ttl: float = 0.0
    fencing: str = "off"
    lock_options: dict[str, Any] = {}
    server_options: dict[str, Any] = {}
    schedules: int = 60
    seed: int = 0
    thorough: bool = False

    def completed(self) -> Asked:
        """The same with what the lock decides filled in; UsageError for what cannot be hunted."""
        lock = find_lock(self.lock)
        info = lock.info
        for name in self.look_for:
            try:
                checkers.catalogue.find(name)
            except checkers.catalogue.UnknownChecker as error:
                raise UsageError(f"look_for: {error}") from error
        if self.most_faults < 0:
            raise UsageError(f"most_faults must not be negative, got {self.most_faults}")
        for name in ("schedules", "clients"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        promised = [*(["reentrant"] if info.reentrant else []), *(["queue"] if info.queue else [])]
        promised += ["readers-writers"] if sharable(lock) else []
        workloads = self.workloads or ("mutex", *promised)
        kind = self.kind or self._kind_for(info.kinds)
        asked = msgspec.structs.replace(
            self,
            workloads=workloads,
            kind=kind,
            faults=self.faults or tuple(able(kind)),
            nodes=self.nodes or kinds.default_nodes(kind),
        )
        for name in workloads:
            complete(msgspec.structs.replace(asked.plan(), workload=name))
        for name in asked.faults:
            asked.check_fault(name)
        return asked

    def plan(self) -> Plan:
        """The plan in which nothing happens: what every schedule of the hunt has in common."""
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
            server_options=self.server_options,
        ).check()

    def check_fault(self, name: str) -> None:
        """UsageError for a family that nobody knows, or that cannot strike here."""
        if name != NO_FAULT and fault_class(name).needs - sim_kinds.abilities(self.kind):
            complete(msgspec.structs.replace(self.plan(), faults=(FaultSpec(name, at=0.0, for_=0.0),)))
        if name == NO_FAULT and len(self.faults) > 1:
            raise UsageError(f"faults: {NO_FAULT!r} goes with no other, got {', '.join(self.faults)}")

    def _kind_for(self, offered: tuple[str, ...]) -> str:
        """The first kind of cluster on which all the faults that were asked for can strike; else the lock's usual."""
        here = [kind for kind in offered if kind in kinds.kinds("sim")] or list(offered)
        wanted = {need for name in self.faults if name != NO_FAULT for need in fault_class(name).needs}
        return next((kind for kind in here if wanted <= sim_kinds.abilities(kind)), here[0])


def spec_of(lock: str | type) -> str:
    """The name of a lock; every simulated client opens it anew by that, so a class must be where its name says.
    UsageError for one that is not."""
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
    """Several names: one text has them with commas between; what is no text is taken as it is."""
    parts = given.split(",") if isinstance(given, str) else given
    stripped = (part.strip() if isinstance(part, str) else part for part in parts)
    return tuple(part for part in stripped if part != "")


def able(kind: str) -> list[str]:
    """The families of faults that can strike a simulated cluster of this kind."""
    able = sim_kinds.abilities(kind)
    names = [name for name in fault_names() if name != NO_FAULT]
    return [name for name in names if needs(FaultSpec(name, at=0.0)) <= able]
