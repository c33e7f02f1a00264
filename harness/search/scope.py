"""Scope of an exhaustive search: the lock, its cluster, and the bounds within which everything is tried."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace as with_

from harness.checkers import catalogue as checker_catalogue
from harness.clusters.abilities import lacking
from harness.clusters.sim.cluster import SimCluster
from harness.errors import UsageError
from harness.faults.catalogue import fault_class
from harness.faults.pause import ClientPause
from harness.plan import Discipline, FaultSpec, Fencing, Plan
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import find_facts
from harness.run.processes.interpreter import interpreter_of

from .steered import Bounds
from .strikes import step_of

NO_END: Final = 3600.0
"""Time limit (s) of a plan that ends by its steps, not by time."""


class Scope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The lock, its cluster, and the bounds of the search.

    Each client executes one critical section: acquire, read, write, release. Without ``access`` to the resource it is
    acquire, release: fewer interleavings, but only a paused client then holds the lock for longer than a moment. At
    most ``faults`` faults of the ``families`` strike.

    Durations in seconds: ``ttl`` is the lease; an acquire tries for ``wait`` (0: once); a message may be under way for
    ``late`` while time passes; an execution takes at most ``horizon`` of virtual time (0: the longest that its faults
    may take, and a ttl). ``look_for`` names the checkers that count. Empty: mutual exclusion and the resource, or only
    the resource if it checks fencing tokens. ``requires``, ``python`` and ``lease`` are as in a plan.
    """

    lock: str
    clients: int = 2
    access: bool = True
    faults: int = 1
    families: tuple[str, ...] = (ClientPause.name,)
    ttl: float = 2.0
    wait: float = 0.0
    late: float = 0.0
    horizon: float = 0.0
    kind: str = ""
    nodes: int = 0
    discipline: Discipline = "trusting"
    fencing: Fencing = "off"
    lock_options: dict[str, Any] = {}
    server_options: dict[str, Any] = {}
    requires: tuple[str, ...] = ()
    python: str = ""
    lease: str = ""
    look_for: tuple[str, ...] = ()
    seed: int = 0

    def plan(self) -> Plan:
        """Return the completed plan that all executions share; UsageError if it cannot be run."""
        if self.faults < 0:
            raise UsageError(f"faults must not be negative, got {self.faults}")
        for name in ("wait", "late", "horizon"):
            if not 0 <= getattr(self, name) <= NO_END:
                raise UsageError(f"{name} must be from 0 to {NO_END:g} seconds, got {getattr(self, name)}")
        for name in self.look_for:
            checker_to_look_for(name)
        asked = Plan(
            lock=self.lock,
            kind=self.kind,
            nodes=self.nodes,
            clients=self.clients,
            ttl=self.ttl,
            sections=1,
            discipline=self.discipline,
            fencing=self.fencing,
            lock_options=self.lock_options,
            server_options=self.server_options,
            requires=self.requires,
            python=self.python,
            lease=self.lease,
            seed=self.seed,
            time_limit=NO_END,
        ).check()
        lock = find_facts(self.lock, interpreter_of(asked, search=True))
        plan = complete(asked, lock)
        for name in self.families if self.faults else ():
            step_of(name)
            missing = lacking(fault_class(name).needs, SimCluster.part_types(plan.kind))
            if missing:
                raise UsageError(f"fault {name!r} needs {', '.join(missing)}, which {plan.kind} cannot do")
            if fault_class(name).coroutines is not None:
                complete(with_(asked, faults=(FaultSpec(name, at=0.0),)), lock)
        return plan

    def bounds(self) -> Bounds:
        return Bounds(
            access=self.access,
            faults=self.faults,
            families=self.families if self.faults else (),
            wait=self.wait,
            late=self.late,
            horizon=self.horizon,
        )

    def words(self) -> str:
        """Return the bounds in words, so that a count of interleavings has a meaning."""
        of = f"{self.clients} clients" if self.clients != 1 else "one client"
        tries = f"an acquire retries for {self.wait:g} s" if self.wait else "one try for each acquire"
        under_way = (
            f"messages take up to {self.late:g} s" if self.late else "time advances only when no message is in transit"
        )
        ttl = f"ttl {self.ttl:g} s"
        section = "acquire, read, write, release" if self.access else "acquire, release"
        return f"{of}, one critical section each ({section}), {self.fault_words()}, {ttl}, {tries}, {under_way}"

    def fault_words(self) -> str:
        if not self.bounds().families:
            return "no fault"
        kinds = " or ".join(step_of(name).words for name in self.families)
        return f"at most {'one fault' if self.faults == 1 else f'{self.faults} faults'} ({kinds})"


def checker_to_look_for(name: str) -> Any:
    try:
        return checker_catalogue.find(name)
    except checker_catalogue.UnknownChecker as error:
        raise UsageError(f"look_for: {error}") from error
