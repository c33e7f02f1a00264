"""A comparison's document as typed view data; :func:`read` raises DocumentError for a malformed document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote

from harness.documents import ComparisonDocument, DocumentError, present
from harness.documents.comparison import (
    ComparedCell,
    ComparedCost,
    ComparedLock,
    ComparedNemesis,
    ComparedProperty,
    RankingMeasure,
)

from .document import known_versions

FAULT_FREE: Final = "none"
"""The column without faults."""
STATES: Final = {
    "safe": "never two holders, and available whenever it should be",
    "fenced": (
        "two holders, but the resource refused the late one because of its fencing token (it grows with each grant)"
    ),
    "unsafe": "two holders, or a corrupted resource, and nothing prevented it",
    "unavailable": "not available when it should have been: never freed, or no grant long after the fault was healed",
    "unknown": (
        "no verdict: the fault was not observed to take effect, the lock was never granted, there was no contention, "
        "or the comparison was interrupted"
    ),
    "not-run": "the fault does not apply to the servers of this lock",
}
WORST_FIRST: Final = ("unsafe", "unavailable", "unknown", "fenced", "not-run")
PROPERTIES: Final = {
    "mutual-exclusion": "Mutual exclusion",
    "released": "Freed when its holder dies",
    "reentrant": "Reentrant",
    "no-single-point": "No single point of failure",
    "fence": "Fencing token",
}
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NemesisView:
    """A column of the comparison; ``role`` names the families that get another fault in its place."""

    name: str
    summary: str
    settings: str
    role: Pairs


@dataclass(frozen=True, slots=True)
class CellView:
    """The result of one lock under one fault; ``link`` leads to the report of a run that shows it, empty if there is
    none."""

    nemesis: str
    state: str
    why: str
    runs: int
    counts: dict[str, int]
    kind: str
    fault: str
    fencing: str
    run: str
    link: str
    command: str

    @property
    def word(self) -> str:
        return self.state.replace("-", " ")

    @property
    def reached(self) -> bool:
        """Return whether the comparison tested this cell."""
        return self.state != "unknown" or self.runs > 0

    @property
    def share(self) -> str:
        """Return ``2 of 5`` if only some runs had this state; empty if all had."""
        some = self.counts.get(self.state, self.runs)
        return f"{some} of {self.runs}" if some < self.runs else ""


@dataclass(frozen=True, slots=True)
class PropertyView:
    """A lock's claim about a property and the observed result; None without a claim, or without a measurement.

    ``fenced``: two clients held the lock, and the property holds because the resource refused the late one."""

    name: str
    claimed: bool | None
    claim: str
    measured: bool | None
    found: str
    link: str
    fenced: bool

    @property
    def broken(self) -> bool:
        return self.claimed is True and self.measured is False

    @property
    def exceeded(self) -> bool:
        return self.claimed is False and self.measured is True


@dataclass(frozen=True, slots=True)
class CostView:
    """Costs of a lock: seconds, grants per second, and its availability, the share (0 to 1) of the time in which it was
    granted."""

    name: str
    clients: int | None
    rate: float | None
    acquire_p50: float | None
    acquire_p99: float | None
    release_p50: float | None
    availability: float | None
    run: str
    link: str


@dataclass(frozen=True, slots=True)
class RecoveryView:
    """Time from a holder's death to the next grant, s; None if there was no grant, or, without a run, no
    measurement."""

    seconds: float | None
    found: str
    link: str

    @property
    def never(self) -> bool:
        return self.seconds is None and bool(self.link)


@dataclass(frozen=True, slots=True)
class LockView:
    """A row: one lock. ``cells`` are in the order of the columns; ``fault_free`` is the result of the contended run
    without faults."""

    name: str
    title: str
    safety: str
    family: str
    kind: str
    fence: bool
    algorithm: str
    source: str
    language: str
    library: str
    promises: str
    cells: tuple[CellView, ...]
    fault_free: CellView
    properties: tuple[PropertyView, ...]
    costs: dict[str, CostView]
    recovery: RecoveryView

    @property
    def done(self) -> bool:
        """Return whether the lock was tested completely before the comparison ended."""
        return all(cell.reached for cell in self.cells)

    def under(self, *states: str) -> list[CellView]:
        """Return the cells in one of ``states``."""
        return [cell for cell in self.cells if cell.state in states]


@dataclass(frozen=True, slots=True)
class MeasureView:
    """One measurement by family; ``order`` has the best family first."""

    name: str
    unit: str
    values: dict[str, float]
    locks: dict[str, str]
    order: tuple[str, ...]
    agrees: bool


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """A whole comparison."""

    started_at: str
    command: str
    cluster: str
    seconds: float | None
    seed: str
    runs: int
    time_limit: float | None
    clients: int | None
    versions: Pairs
    interrupted: bool
    nemeses: tuple[NemesisView, ...]
    locks: tuple[LockView, ...]
    left_out: Pairs
    cost_settings: str
    claimed: tuple[str, ...]
    source: str
    chosen: str
    """The lock that represents each service."""
    measures: tuple[MeasureView, ...]

    @property
    def virtual(self) -> bool:
        """Return whether times are those of the simulator."""
        return self.cluster == "sim"

    @property
    def faults(self) -> list[str]:
        """Return the columns with a fault."""
        return [nemesis.name for nemesis in self.nemeses if nemesis.name != FAULT_FREE]

    def costs(self, name: str) -> list[CostView]:
        """Return the costs of that name, of all locks that have them."""
        return [lock.costs[name] for lock in self.locks if name in lock.costs]


def read(document: ComparisonDocument) -> ComparisonView:
    """Return the view of a comparison's document; DocumentError if it is malformed."""
    ranking = document.ranking
    return ComparisonView(
        started_at=document.started_at,
        command=document.command,
        cluster=document.cluster,
        seconds=document.seconds,
        seed="–" if document.seed is None else str(document.seed),
        runs=document.runs or 1,
        time_limit=document.time_limit,
        clients=document.clients,
        versions=known_versions(document.versions),
        interrupted=document.interrupted,
        nemeses=tuple(
            NemesisView(one.name, one.summary, one.settings, tuple(one.role.items())) for one in document.nemeses
        ),
        locks=tuple(_lock(lock, document.nemeses, f"locks[{i}]") for i, lock in enumerate(document.locks)),
        left_out=tuple((one.lock, one.why) for one in document.left_out),
        cost_settings=document.cost_settings,
        claimed=ranking.claimed,
        source=ranking.source,
        chosen=ranking.why_these,
        measures=tuple(_measure(measure) for measure in ranking.measures),
    )


def sound_first(locks: Sequence[LockView]) -> list[LockView]:
    """Sort the locks by how many cells are in the worst state, then in the next one; the soundest lock comes first."""
    return sorted(locks, key=lambda lock: ([len(lock.under(state)) for state in WORST_FIRST], lock.family, lock.name))


def _lock(lock: ComparedLock, nemeses: Sequence[ComparedNemesis], place: str) -> LockView:
    """Return a row; ``place`` is its place in the document, for error messages."""
    recovery = lock.recovery
    two_holders = any(cell.two_holders or cell.state == "fenced" for cell in lock.cells.values())
    return LockView(
        name=lock.name,
        title=lock.title,
        safety=lock.safety,
        family=lock.family,
        kind=lock.kind,
        fence=lock.fence,
        algorithm=lock.algorithm,
        source=lock.source,
        language=lock.language,
        library=lock.library,
        promises=lock.promises,
        cells=tuple(_cell(one.name, lock.cells.get(one.name), f"{place}.cells.{one.name}") for one in nemeses),
        fault_free=_cell("fault_free", present(lock.fault_free), f"{place}.fault_free"),
        properties=tuple(
            _property(
                name,
                lock.properties.get(name),
                f"{place}.properties.{name}",
                fenced=two_holders and name == "mutual-exclusion",
            )
            for name in PROPERTIES
        ),
        costs={cost.name: _cost(cost, f"{place}.costs[{i}]") for i, cost in enumerate(lock.costs)},
        recovery=RecoveryView(recovery.seconds, recovery.found, _link(recovery.run, f"{place}.recovery")),
    )


def _cell(nemesis: str, cell: ComparedCell | None, place: str) -> CellView:
    """Return a cell. A missing cell is unknown: the comparison was interrupted before it."""
    if cell is None:
        cell = ComparedCell(state="unknown", why="the comparison ended before this was run")
    return CellView(
        nemesis=nemesis,
        state=cell.state,
        why=cell.why,
        runs=cell.runs,
        counts={str(state): count for state, count in cell.counts.items()},
        kind=cell.kind or "",
        fault=nemesis if cell.fault is None else cell.fault,
        fencing=cell.fencing or "",
        run=cell.run or "",
        link=_link(cell.run, place),
        command=cell.command or "",
    )


def _property(name: str, found: ComparedProperty | None, place: str, *, fenced: bool) -> PropertyView:
    one = found or ComparedProperty()
    link = _link(one.run, place)
    return PropertyView(name, one.claimed, one.claim, one.measured, one.found, link, fenced and one.measured is True)


def _cost(cost: ComparedCost, place: str) -> CostView:
    return CostView(
        name=cost.name,
        clients=cost.clients,
        rate=cost.acquires_per_second,
        acquire_p50=cost.acquire_p50_s,
        acquire_p99=cost.acquire_p99_s,
        release_p50=cost.release_p50_s,
        availability=cost.availability,
        run=cost.run or "",
        link=_link(cost.run, place),
    )


def _measure(measure: RankingMeasure) -> MeasureView:
    known = {family: value for family, value in measure.values.items() if value is not None}
    return MeasureView(
        name=measure.name,
        unit=measure.unit,
        values=known,
        locks=measure.locks,
        order=tuple(family for family in measure.order if family in known),
        agrees=measure.agrees,
    )


def _link(run: str | None, place: str) -> str:
    """Return the address of the run's report, relative to the folder of the document."""
    if run is not None and PurePosixPath(run).is_absolute():
        expected = "expected a folder relative to the document's"
        raise DocumentError(f"the comparison: {place}.run: {expected}, got {run}")
    return f"{quote(run.rstrip('/'))}/report.html" if run else ""
