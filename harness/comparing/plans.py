"""What a comparison runs: of each lock each fault, what is asked of its properties, and what it costs.

Every lock is put to the same test. Where a fault would mean nothing with the settings of the others, its column has
settings of its own (:data:`SETTINGS`), the same for all locks; where it means nothing to a lock's servers, what comes
nearest stands in for it (:data:`STANDS_IN`), or the cell says why there is nothing to run.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

import msgspec
from msgspec.structs import replace as with_

from lock_impls import catalogue
from lock_impls.base import LockInfo

from ..client_program import find_lock
from ..clusters.kinds import KINDS
from ..completion import complete
from ..errors import UsageError, unknown_name
from ..fault_specs import default_specs, fault_class, needs
from ..plan import BACKENDS, FaultSpec, Plan

NEMESES: Final = ("client-pause", "client-crash", "clock-jump", "kill-amnesia", "partition-node", "failover")
"""Those of an ordinary comparison: one of each way in which a client, a clock, a server's data, the network and the
servers' order of precedence let a lock down."""
STANDS_IN: Final = {"failover": "leader-loss"}
"""What is injected instead where servers agree by majority: they have a leader, and no primary with replicas."""
FAULT_FREE: Final = "none"
DEFAULTS: Final = Plan(lock="")
COST_HOLD: Final = 0.01
"""Seconds of work under the lock where its costs are measured, and none between: so the lock is what takes time."""
COST_LIMIT: Final = 10.0
OUTAGE_AT: Final = 5.0
"""Seconds after which one server is gone for good, to see whether the lock can do without it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How long leases and sections are in a column, seconds, and ``why`` they are not as in the others."""

    ttl: float = DEFAULTS.ttl
    hold: float = DEFAULTS.hold
    why: str = ""

    def told(self) -> str:
        hold = f"{self.hold:g} s" if self.hold >= 1 else f"{self.hold * 1000:g} ms"
        said = f"ttl {self.ttl:g} s, holds of {hold}"
        return f"{said}: {self.why}" if self.why else said


SETTINGS: Final = {
    "failover": Settings(
        10.0, 4.0, "a shorter lease is over before another server has been promoted, and a forgotten lock does no harm"
    ),
}
"""By nemesis; all others have the usual ones."""
Part = Literal["cell", "property", "cost"]
PROBES: Final[dict[str, tuple[Part, str]]] = {
    "released": ("property", "Is it freed when its holder dies?"),
    "reentrant": ("property", "May its holder take it again?"),
    "no-single-point": ("property", "Can it do without one server?"),
    "alone": ("cost", "What does it cost one client alone?"),
    "contended": ("cost", "What does it cost while several want it?"),
}
"""What is asked beside the cells, by the name of its job."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison is of. ``runs`` of each cell, with consecutive seeds from ``seed`` on; ``time_limit`` seconds
    of each run; ``left_out`` are locks of the catalogue that this cluster cannot run, and why."""

    locks: tuple[str, ...]
    nemeses: tuple[str, ...] = NEMESES
    cluster: str = "sim"
    runs: int = 3
    seed: int = 0
    clients: int = DEFAULTS.clients
    time_limit: float = DEFAULTS.time_limit
    left_out: tuple[tuple[str, str], ...] = ()

    def check(self) -> Asked:
        """The same, or UsageError for what cannot be compared."""
        if self.cluster not in BACKENDS:
            raise UsageError(f"cluster must be one of {', '.join(BACKENDS)}, got {self.cluster!r}")
        if not self.nemeses:
            raise UsageError("nemeses: expected a name from 'harness list nemeses', or more of them with commas")
        for what, names in (("locks", self.locks), ("nemeses", self.nemeses)):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise UsageError(f"{what}: {twice} is there more than once")
        if self.runs < 1:
            raise UsageError(f"runs must be at least 1, got {self.runs}")
        if self.clients < 2:
            raise UsageError(f"clients must be at least 2, got {self.clients}: a lock is for those who compete")
        for name in self.nemeses:
            fault_class(name)
        return self


@dataclass(frozen=True, slots=True)
class Job:
    """Runs that are played one after the other and come to one thing: a cell of the matrix, a property, or a cost.
    ``fault`` is what was injected, which ``name`` says of a cell, too, unless something stands in for it."""

    lock: str
    part: Part
    name: str
    plans: tuple[Plan, ...]
    fault: str = FAULT_FREE

    @property
    def cluster(self) -> str:
        return self.plans[0].cluster

    @property
    def where(self) -> tuple[str, ...]:
        """Jobs on the same containers are those with the same first values."""
        needed = {need for spec in self.plans[0].faults for need in needs(spec)}
        return self.plans[0].kind, str(self.plans[0].nodes), str("disk" in needed), self.lock, self.part, self.name


# Locks.


def family(info: LockInfo) -> str:
    """The service that a lock runs on: ``redis``, ``etcd``."""
    return KINDS[info.kinds[0]].family


def chosen(text: str, cluster: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The locks that ``text`` names (``all``, families, names, with commas), and those of ``all`` and of the families
    that this cluster cannot run, each with the reason. UsageError for names that nobody has, and if none is left."""
    asked = [name.strip() for name in text.split(",") if name.strip()]
    if not asked:
        raise UsageError("locks: expected a name from 'harness list locks', a family, or all; or more with commas")
    everything = sorted(catalogue.infos(), key=lambda info: (_families().index(family(info)), info.name))
    found: list[str] = []
    out: dict[str, str] = {}
    for name in asked:
        if name != "all" and name not in _families():
            found.append(_named(name))
            continue
        for info in everything:
            if name in ("all", family(info)):
                why = _not_here(info, cluster)
                found += [info.name] if not why and info.name not in found else []
                out |= {info.name: why} if why else {}
        if name == "all":
            out |= {lock: f"its client library is not installed: {it}" for lock, it in catalogue.unavailable().items()}
    if not found:
        reasons = "; ".join(f"{name}: {why}" for name, why in out.items())
        raise UsageError(f"none of the locks can be run on {cluster}: {reasons}")
    return tuple(found), tuple(out.items())


def _families() -> list[str]:
    return list(dict.fromkeys(kind.family for kind in KINDS.values()))


def _named(name: str) -> str:
    if ":" not in name and name not in catalogue.names():
        known = {"all", *_families(), *catalogue.names()}
        if not get_close_matches(name, known, cutoff=0.5):
            families = ", ".join(sorted(_families()))
            raise UsageError(
                f"unknown lock or family {name!r}: known: all, {families}, and those of 'harness list locks'"
            )
        raise unknown_name("lock or family", name, known)
    find_lock(name)
    return name


def _not_here(info: LockInfo, cluster: str) -> str:
    if cluster == "sim" and not info.simulated:
        return f"it is a lock for {info.language}: --cluster docker"
    if any(cluster in KINDS[kind].backends for kind in info.kinds):
        return ""
    kind = KINDS[info.kinds[0]]
    return f"it runs on {kind.about}: --cluster {' or '.join(sorted(kind.backends))}"


# Runs.


def jobs(asked: Asked) -> list[Job]:
    """All there is to do; raises what stands in the way of any of it."""
    for lock in asked.check().locks:
        complete(_plan(asked, lock).check())
    return [job for lock in asked.locks for job in _of(asked, lock)]


def _of(asked: Asked, lock: str) -> Iterator[Job]:
    for nemesis in asked.nemeses:
        found = cell(asked, lock, nemesis)
        if isinstance(found, Job):
            yield found
    yield from _properties(asked, lock)
    yield from _costs(asked, lock)


def cell(asked: Asked, lock: str, nemesis: str) -> Job | str:
    """The runs of a cell, on the first of the lock's kinds of cluster that can have the fault; or why there are
    none."""
    settings = SETTINGS.get(nemesis, Settings())
    refused = ""
    for fault in (nemesis, *([STANDS_IN[nemesis]] if nemesis in STANDS_IN else [])):
        specs = tuple(default_specs(fault, settings.ttl))
        for kind in find_lock(lock).info.kinds:
            plan = with_(_plan(asked, lock), kind=kind, ttl=settings.ttl, hold=settings.hold, faults=specs)
            try:
                complete(plan.check())
            except UsageError as error:
                refused = refused or str(error)
                continue
            return Job(lock, "cell", nemesis, _seeded(plan, asked.runs), fault)
    return _why_not(lock, nemesis) or refused.partition(";")[0]


def _why_not(lock: str, nemesis: str) -> str:
    if nemesis not in STANDS_IN:
        return ""
    return f"nothing to lose it to: {KINDS[find_lock(lock).info.kinds[0]].about}, and nobody to take over"


def _plan(asked: Asked, lock: str) -> Plan:
    info = find_lock(lock).info
    return Plan(
        lock=lock,
        kind=info.kinds[0],
        cluster=asked.cluster,
        clients=asked.clients,
        time_limit=asked.time_limit,
        seed=asked.seed,
        fencing="on" if info.fence else "off",
    )


def _seeded(plan: Plan, runs: int) -> tuple[Plan, ...]:
    return tuple(with_(plan, seed=plan.seed + number) for number in range(runs))


def _properties(asked: Asked, lock: str) -> Iterator[Job]:
    plan = _plan(asked, lock)
    yield _probe(lock, "released", "client-crash", with_(plan, faults=tuple(default_specs("client-crash", plan.ttl))))
    yield _probe(lock, "reentrant", FAULT_FREE, with_(plan, workload="reentrant"))
    gone = with_(plan, faults=(FaultSpec("kill", at=OUTAGE_AT, params={"target": "primary"}),))
    on_each = (with_(gone, kind=kind) for kind in find_lock(lock).info.kinds)
    yield _probe(lock, "no-single-point", "kill", *on_each)


def _costs(asked: Asked, lock: str) -> Iterator[Job]:
    plan = with_(
        _plan(asked, lock), hold=COST_HOLD, rest=0.0, time_limit=min(COST_LIMIT, asked.time_limit), fencing="off"
    )
    yield _probe(lock, "alone", FAULT_FREE, with_(plan, clients=1))
    yield _probe(lock, "contended", FAULT_FREE, plan)


def _probe(lock: str, name: str, fault: str, *some: Plan) -> Job:
    """Runs that are no cell; each says what it is for, since a failure there is an answer and no surprise."""
    part, question = PROBES[name]
    titled = tuple(with_(plan, title=f"{question} (asked by a comparison)") for plan in some)
    return Job(lock, part, name, titled, fault)


def command(plan: Plan, nemesis: str = FAULT_FREE) -> str:
    """The ``harness run`` that repeats a run of a comparison."""
    words = ["harness", "run", plan.lock, "--cluster", plan.cluster]
    words += ["--nemesis", nemesis] if nemesis != FAULT_FREE else []
    if plan.kind != find_lock(plan.lock).info.kinds[0]:
        words += ["--topology", plan.kind.rpartition("-")[2]]
    for name in ("workload", "clients", "fencing", "seed"):
        words += _option(name, getattr(plan, name), getattr(DEFAULTS, name))
    for name in ("ttl", "hold", "time_limit"):
        words += _option(name, f"{getattr(plan, name):g}s", f"{getattr(DEFAULTS, name):g}s")
    return shlex.join(words)


def _option(name: str, value: object, usual: object) -> Sequence[str]:
    return () if value == usual else (f"--{name.replace('_', '-')}", str(value))
