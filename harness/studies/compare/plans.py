"""Plans of a comparison: for each lock the runs under each fault, the runs that test its properties, and the runs that
measure its cost.

Every lock gets the same test. A fault that would have no effect with the common settings has settings of its own
(:data:`SETTINGS`), the same for all locks. If a fault has no meaning on a lock's servers, the most similar fault stands
in for it (:data:`STANDS_IN`), or the cell says why nothing can be run.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

import msgspec
from msgspec.structs import replace as with_

from harness.clusters.kinds import KINDS, can_run, own_kinds
from harness.errors import UsageError, unknown_name
from harness.faults.catalogue import default_specs, fault_class, fault_names
from harness.faults.process import ClientCrash, Kill
from harness.lock_impls import catalogue
from harness.lock_impls.base import LockInfo
from harness.plan import BACKENDS, FaultSpec, Plan
from harness.run.containers.cluster_pool import sharing_key
from harness.run.fault_engine import first_strike_s
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import find_info

COLUMNS: Final = {column.rank: (name, column) for name in fault_names() if (column := fault_class(name).column)}
NEMESES: Final = tuple(name for _, (name, _) in sorted(COLUMNS.items()))
"""Default faults of a comparison: one for each way in which a client, a clock, a server's data, the network and the
servers' order of precedence can break a lock."""
STANDS_IN: Final = {stead: name for name in fault_names() if (stead := fault_class(name).stands_in_for)}
"""Fault that stands in for one that the servers cannot suffer. Servers that agree by majority have a leader, but no
primary with replicas."""
FAULT_FREE: Final = "none"
DEFAULTS: Final = Plan(lock="")
COST_HOLD: Final = 0.01
"""Hold time in cost runs, seconds. Clients do not rest between holds, so most of the time is the lock's."""
COST_LIMIT: Final = 10.0
OUTAGE_AT: Final = 5.0
"""Time at which one server is killed permanently, in seconds, to test whether the lock works without it."""


@dataclass(frozen=True, slots=True)
class ColumnSettings:
    """Lease and hold time of a column in seconds, and ``why`` they differ from the other columns."""

    ttl: float = DEFAULTS.ttl
    hold: float = DEFAULTS.hold
    why: str = ""

    def words(self) -> str:
        hold = f"{self.hold:g} s" if self.hold >= 1 else f"{self.hold * 1000:g} ms"
        said = f"ttl {self.ttl:g} s, holds of {hold}"
        return f"{said}: {self.why}" if self.why else said


SETTINGS: Final = {
    name: ColumnSettings(column.ttl_s or DEFAULTS.ttl, column.hold_s or DEFAULTS.hold, column.why)
    for name, column in COLUMNS.values()
    if column.why
}
"""Settings by nemesis; all others have the default settings."""
Part = Literal["cell", "property", "cost"]
PROBES: Final[dict[str, tuple[Part, str]]] = {
    "released": ("property", "Is it freed when its holder dies?"),
    "reentrant": ("property", "Can its holder acquire it again?"),
    "no-single-point": ("property", "Is it available after the loss of one server?"),
    "alone": ("cost", "What does it cost without contention?"),
    "contended": ("cost", "What does it cost under contention?"),
}
"""Jobs besides the cells: the part and the question of each, by job name."""


class ComparisonRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a comparison: ``runs`` for each cell, with consecutive seeds from ``seed`` on; ``time_limit`` of each
    run in seconds; ``left_out`` are catalogue locks that this cluster cannot run, each with the reason."""

    locks: tuple[str, ...]
    nemeses: tuple[str, ...] = NEMESES
    cluster: str = "sim"
    runs: int = 3
    seed: int = 0
    clients: int = DEFAULTS.clients
    time_limit: float = DEFAULTS.time_limit
    left_out: tuple[tuple[str, str], ...] = ()

    def check(self) -> ComparisonRequest:
        """Return the request itself; raises UsageError if it cannot be compared."""
        if self.cluster not in BACKENDS:
            raise UsageError(f"cluster must be one of {', '.join(BACKENDS)}, got {self.cluster!r}")
        if not self.nemeses:
            raise UsageError("nemeses: expected a name from 'harness list nemeses', or several names with commas")
        for what, names in (("locks", self.locks), ("nemeses", self.nemeses)):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise UsageError(f"{what}: {twice} is given more than once")
        if self.runs < 1:
            raise UsageError(f"runs must be at least 1, got {self.runs}")
        if self.clients < 2:
            raise UsageError(
                f"clients must be at least 2, got {self.clients}: a comparison needs clients that compete for the lock"
            )
        for name in self.nemeses:
            fault_class(name)
        return self


@dataclass(frozen=True, slots=True)
class ComparisonJob:
    """Runs made one after the other that give one result: a cell of the matrix, a property, or a cost.

    ``fault`` is the injected fault. In a cell it equals ``name`` unless another fault stands in.
    """

    lock: str
    part: Part
    name: str
    plans: tuple[Plan, ...]
    fault: str = FAULT_FREE

    @property
    def cluster(self) -> str:
        return self.plans[0].cluster

    @property
    def spares(self) -> tuple[Plan, ...]:
        """Plans with the next seeds, as many as the job's own: for runs whose fault did not test the lock."""
        last = self.plans[-1]
        return _seeded(with_(last, seed=last.seed + 1), len(self.plans))

    @property
    def where(self) -> tuple[str, ...]:
        """Sort key: jobs that can reuse the same containers have the same first values."""
        return *sharing_key(self.plans[0]), self.lock, self.part, self.name


# Locks.


def family(info: LockInfo) -> str:
    """Return the service that a lock runs on, such as ``redis`` or ``etcd``."""
    return KINDS.find(info.kinds[0]).service


def chosen(text: str, cluster: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the locks that ``text`` names: ``all``, families or lock names, separated by commas.

    The second value lists locks of ``all`` and of the families that this cluster cannot run, each with the reason.
    Raises UsageError for unknown names and if no lock remains.
    """
    request = [name.strip() for name in text.split(",") if name.strip()]
    if not request:
        raise UsageError("locks: expected a name from 'harness list locks', a family or all; several with commas")
    everything = sorted(catalogue.infos(), key=lambda info: (_families().index(family(info)), info.name))
    found: list[str] = []
    out: dict[str, str] = {}
    for name in request:
        if name != "all" and name not in _families():
            found.append(_named(name))
            continue
        absent = catalogue.unavailable()
        for info in everything:
            if name in ("all", family(info)):
                why = _not_here(info, cluster) or absent.get(info.name, "")
                found += [info.name] if not why and info.name not in found else []
                out |= {info.name: why} if why else {}
    if not found:
        reasons = "; ".join(f"{name}: {why}" for name, why in out.items())
        raise UsageError(f"none of the locks can be run on {cluster}: {reasons}")
    return tuple(found), tuple(out.items())


def _families() -> list[str]:
    return list(dict.fromkeys(kind.service for kind in own_kinds()))


def _named(name: str) -> str:
    if ":" not in name and name not in catalogue.names():
        known = {"all", *_families(), *catalogue.names()}
        if not get_close_matches(name, known, cutoff=0.5):
            families = ", ".join(sorted(_families()))
            raise UsageError(
                f"unknown lock or family {name!r}: known: all, {families}, and those of 'harness list locks'"
            )
        raise unknown_name("lock or family", name, known)
    find_info(name)
    return name


def _not_here(info: LockInfo, cluster: str) -> str:
    if cluster == "sim" and not info.simulated:
        return f"{info.containers_only or f'it is a lock for {info.language}'}: --cluster docker"
    if any(can_run(kind, cluster) for kind in info.kinds):
        return ""
    kind = KINDS.find(info.kinds[0])
    return f"it runs on {kind.about}: --cluster {' or '.join(sorted(kind.backends))}"


# Runs.


def jobs(request: ComparisonRequest) -> list[ComparisonJob]:
    """Return all jobs. Raises UsageError if any of them cannot be run."""
    for lock in request.check().locks:
        complete(_plan(request, lock).check())
    found = [job for lock in request.locks for job in _jobs_of_lock(request, lock)]
    _refuse_late_faults(found)
    return found


def _refuse_late_faults(found: Sequence[ComparisonJob]) -> None:
    """Refuse a time limit within which a fault would never strike, with the shortest one that is long enough.

    Faults strike until the clients settle, see :meth:`harness.plan.Plan.settle_time`."""
    late: list[tuple[float, str]] = []
    for job in found:
        plan = complete(job.plans[0])
        for spec in plan.faults:
            needed_s = first_strike_s(spec) + fault_class(spec.fault).takes
            if spec.on is None and needed_s > plan.time_limit - plan.settle_time:
                settles_s = max(plan.settle_time, plan.settling_time)
                late.append((needed_s + min(needed_s, settles_s), f"{spec.fault} on {job.lock}"))
    if late:
        longest, what = max(late)
        raise UsageError(
            f"time limit: {found[0].plans[0].time_limit:g} s is too short, {what} would never strike; expected at "
            f"least {longest:g} s (--time-limit {longest:g}s)"
        )


def _jobs_of_lock(request: ComparisonRequest, lock: str) -> Iterator[ComparisonJob]:
    for nemesis in request.nemeses:
        found = cell(request, lock, nemesis)
        if isinstance(found, ComparisonJob):
            yield found
    yield from _properties(request, lock)
    yield from _costs(request, lock)


def cell(request: ComparisonRequest, lock: str, nemesis: str) -> ComparisonJob | str:
    """Return the job of a cell, on the lock's first kind of cluster that supports the fault; or the reason if there is
    none."""
    settings = SETTINGS.get(nemesis, ColumnSettings())
    refused = ""
    for fault in (nemesis, *([STANDS_IN[nemesis]] if nemesis in STANDS_IN else [])):
        specs = tuple(default_specs(fault, settings.ttl))
        for kind in find_info(lock).kinds:
            plan = with_(_plan(request, lock), kind=kind, ttl=settings.ttl, hold=settings.hold, faults=specs)
            try:
                complete(plan.check())
            except UsageError as error:
                refused = refused or str(error)
                continue
            return ComparisonJob(lock, "cell", nemesis, _seeded(plan, request.runs), fault)
    return _why_not(lock, nemesis) or refused.partition(";")[0]


def _why_not(lock: str, nemesis: str) -> str:
    if nemesis not in STANDS_IN:
        return ""
    return f"no fault could transfer the lock: {KINDS.find(find_info(lock).kinds[0]).about}, without a standby"


def _plan(request: ComparisonRequest, lock: str) -> Plan:
    info = find_info(lock)
    return Plan(
        lock=lock,
        kind=info.kinds[0],
        cluster=request.cluster,
        clients=request.clients,
        time_limit=request.time_limit,
        seed=request.seed,
        fencing="on" if info.fence else "off",
    )


def _seeded(plan: Plan, runs: int) -> tuple[Plan, ...]:
    return tuple(with_(plan, seed=plan.seed + number) for number in range(runs))


def _properties(request: ComparisonRequest, lock: str) -> Iterator[ComparisonJob]:
    plan = _plan(request, lock)
    died = with_(plan, faults=tuple(default_specs(ClientCrash.name, plan.ttl)))
    yield _probe(lock, "released", ClientCrash.name, died)
    yield _probe(lock, "reentrant", FAULT_FREE, with_(plan, workload="reentrant"))
    gone = with_(plan, faults=(FaultSpec(Kill.name, at=OUTAGE_AT, params={"target": "primary"}),))
    on_each = (with_(gone, kind=kind) for kind in find_info(lock).kinds if can_run(kind, request.cluster))
    yield _probe(lock, "no-single-point", Kill.name, *on_each)


def _costs(request: ComparisonRequest, lock: str) -> Iterator[ComparisonJob]:
    plan = with_(
        _plan(request, lock), hold=COST_HOLD, rest=0.0, time_limit=min(COST_LIMIT, request.time_limit), fencing="off"
    )
    yield _probe(lock, "alone", FAULT_FREE, with_(plan, clients=1))
    yield _probe(lock, "contended", FAULT_FREE, plan)


def _probe(lock: str, name: str, fault: str, *some: Plan) -> ComparisonJob:
    """Return a job other than a cell. The titles of its runs name its purpose, because a violation there is an answer
    and not a surprise."""
    part, question = PROBES[name]
    titled = tuple(with_(plan, title=f"{question} (part of a comparison)") for plan in some)
    return ComparisonJob(lock, part, name, titled, fault)


def command(plan: Plan, nemesis: str = FAULT_FREE) -> str:
    """Return the ``harness run`` command that repeats a run of a comparison."""
    words = ["harness", "run", plan.lock, "--cluster", plan.cluster]
    words += ["--nemesis", nemesis] if nemesis != FAULT_FREE else []
    if plan.kind != find_info(plan.lock).kinds[0]:
        words += ["--topology", plan.kind.rpartition("-")[2]]
    for name in ("workload", "clients", "fencing", "seed"):
        words += _option(name, getattr(plan, name), getattr(DEFAULTS, name))
    for name in ("ttl", "hold", "time_limit"):
        words += _option(name, f"{getattr(plan, name):g}s", f"{getattr(DEFAULTS, name):g}s")
    return shlex.join(words)


def _option(name: str, value: object, usual: object) -> Sequence[str]:
    return () if value == usual else (f"--{name.replace('_', '-')}", str(value))
