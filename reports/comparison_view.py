"""A comparison's document as typed view data; :func:`read` says what is wrong with a malformed one (ReportError)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote

from reports.document import Node, ReportError, plain

SCHEMA: Final = 1
FAULT_FREE: Final = "none"
"""The column in which nothing is injected."""
STATES: Final = {
    "safe": "never two holders, and to be had whenever it should be",
    "fenced": (
        "two holders, and what they wrote to refused the late one by its fencing token (it grows with each grant)"
    ),
    "unsafe": "two holders, or what the lock protects was broken, and nothing stopped it",
    "unavailable": "not to be had when it should have been: never freed, or no grant long after the fault was over",
    "unknown": (
        "nobody can tell: the fault was not seen to take effect, the lock was never granted, nobody competed, "
        "or the comparison ended before"
    ),
    "not-run": "this fault means nothing to the servers of this lock",
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
    """A column: ``role`` has the families that get another fault in its place."""

    name: str
    summary: str
    settings: str
    role: Pairs


@dataclass(frozen=True, slots=True)
class CellView:
    """What came of one lock under one fault; ``link`` leads to the report of the run that shows it, empty for none."""

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
        """Did the comparison get to it?"""
        return self.state != "unknown" or self.runs > 0

    @property
    def share(self) -> str:
        """``2 of 5`` where only some runs showed the state; empty where all did."""
        some = self.counts.get(self.state, self.runs)
        return f"{some} of {self.runs}" if some < self.runs else ""


@dataclass(frozen=True, slots=True)
class PropertyView:
    """What a lock claims and what was seen; None where nothing is claimed, or nothing was measured."""

    name: str
    claimed: bool | None
    claim: str
    measured: bool | None
    found: str
    link: str

    @property
    def broken(self) -> bool:
        return self.claimed is True and self.measured is False

    @property
    def exceeded(self) -> bool:
        return self.claimed is False and self.measured is True


@dataclass(frozen=True, slots=True)
class CostView:
    """Seconds, grants a second, and the share of the time in which somebody was granted the lock (0 to 1)."""

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
    """From a holder's death to the next grant, s; None for never, or (without a run) for not measured."""

    seconds: float | None
    found: str
    link: str

    @property
    def never(self) -> bool:
        return self.seconds is None and bool(self.link)


@dataclass(frozen=True, slots=True)
class LockView:
    """A row; ``cells`` in the order of the columns, ``fault_free`` is what the contended run without faults came to."""

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
        """Was it put to every test before the comparison ended?"""
        return all(cell.reached for cell in self.cells)

    def under(self, *states: str) -> list[CellView]:
        """The cells in one of ``states``."""
        return [cell for cell in self.cells if cell.state in states]


@dataclass(frozen=True, slots=True)
class MeasureView:
    """One measurement by family; ``order`` has the best first."""

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
    """Which lock stands for each service."""
    measures: tuple[MeasureView, ...]

    @property
    def virtual(self) -> bool:
        """Were times those of the simulator?"""
        return self.cluster == "sim"

    @property
    def faults(self) -> list[str]:
        """The columns in which something is injected."""
        return [nemesis.name for nemesis in self.nemeses if nemesis.name != FAULT_FREE]

    def costs(self, name: str) -> list[CostView]:
        """The costs of that name, of all locks that have them."""
        return [lock.costs[name] for lock in self.locks if name in lock.costs]


def read(document: Node) -> ComparisonView:
    """The view of a comparison's document."""
    if document.require("schema") != SCHEMA:
        raise ReportError(f"{document.place}: schema: expected {SCHEMA}, got {plain(document.data['schema'])}")
    document.require("nemeses")
    document.require("locks")
    nemeses = tuple(_nemesis(node) for node in document.nodes("nemeses"))
    ranking = document.node("ranking")
    return ComparisonView(
        started_at=document.text("started_at"),
        command=document.text("command"),
        cluster=document.text("cluster"),
        seconds=document.number("seconds"),
        seed=plain(document.data.get("seed", "–")),
        runs=document.whole("runs") or 1,
        time_limit=document.number("time_limit"),
        clients=document.whole("clients"),
        versions=tuple(pair for pair in document.flat("versions") if pair[1] != "null"),
        interrupted=bool(document.truth("interrupted")),
        nemeses=nemeses,
        locks=tuple(_lock(node, nemeses) for node in document.nodes("locks")),
        left_out=_left_out(document),
        cost_settings=document.text("cost_settings"),
        claimed=ranking.texts("claimed"),
        source=ranking.text("source"),
        chosen=ranking.text("why_these", "the best lock of each service"),
        measures=tuple(_measure(node) for node in ranking.nodes("measures")),
    )


def sound_first(locks: Sequence[LockView]) -> list[LockView]:
    """The locks by how many cells are in the worst state, then in the next one; the soundest first."""
    return sorted(locks, key=lambda lock: ([len(lock.under(state)) for state in WORST_FIRST], lock.family, lock.name))


def _nemesis(node: Node) -> NemesisView:
    return NemesisView(_name(node), node.text("summary"), node.text("settings"), node.flat("role"))


def _lock(node: Node, nemeses: tuple[NemesisView, ...]) -> LockView:
    cells, properties = node.node("cells"), node.node("properties")
    return LockView(
        name=_name(node),
        title=node.text("title"),
        safety=node.text("safety"),
        family=node.text("family"),
        kind=node.text("kind"),
        fence=bool(node.truth("fence")),
        algorithm=node.text("algorithm"),
        source=node.text("source"),
        language=node.text("language"),
        library=node.text("library"),
        promises=node.text("promises"),
        cells=tuple(_cell(nemesis.name, cells) for nemesis in nemeses),
        fault_free=_cell("fault_free", node),
        properties=tuple(_property(name, properties) for name in PROPERTIES),
        costs={cost.name: cost for cost in map(_cost, node.nodes("costs"))},
        recovery=_recovery(node.node("recovery")),
    )


def _cell(nemesis: str, cells: Node) -> CellView:
    """A cell that is not there is unknown: the comparison was ended before."""
    node = cells.node(nemesis)
    state = node.require("state") if node.data else "unknown"
    if state not in STATES:
        raise ReportError(f"{node.place}.state: expected one of {', '.join(STATES)}, got {plain(state)}")
    counts = node.node("counts")
    runs = node.whole("runs") or 0
    return CellView(
        nemesis=nemesis,
        state=state,
        why=node.text("why") or ("" if node.data else "the comparison ended before this was run"),
        runs=runs,
        counts={name: counts.whole(name) or 0 for name in counts.data},
        kind=node.text("kind"),
        fault=node.text("fault", nemesis),
        fencing=node.text("fencing"),
        run=node.text("run"),
        link=_link(node),
        command=node.text("command"),
    )


def _property(name: str, properties: Node) -> PropertyView:
    node = properties.node(name)
    return PropertyView(
        name, node.truth("claimed"), node.text("claim"), node.truth("measured"), node.text("found"), _link(node)
    )


def _cost(node: Node) -> CostView:
    return CostView(
        name=_name(node),
        clients=node.whole("clients"),
        rate=node.number("acquires_per_second"),
        acquire_p50=node.number("acquire_p50_s"),
        acquire_p99=node.number("acquire_p99_s"),
        release_p50=node.number("release_p50_s"),
        availability=node.number("availability"),
        run=node.text("run"),
        link=_link(node),
    )


def _recovery(node: Node) -> RecoveryView:
    return RecoveryView(node.number("seconds"), node.text("found"), _link(node))


def _measure(node: Node) -> MeasureView:
    values = node.node("values")
    known = {family: value for family in values.data if (value := values.number(family)) is not None}
    return MeasureView(
        name=_name(node),
        unit=node.text("unit"),
        values=known,
        locks=dict(node.flat("locks")),
        order=tuple(family for family in node.texts("order") if family in known),
        agrees=bool(node.truth("agrees")),
    )


def _left_out(document: Node) -> Pairs:
    """Locks that were asked for and are in no row, and why."""
    return tuple((node.text("lock"), node.text("why")) for node in document.nodes("left_out"))


def _name(node: Node) -> str:
    node.require("name")
    return node.text("name")


def _link(node: Node) -> str:
    """The address of the run's report, from the folder of the document; runs elsewhere than beside it are refused."""
    run = node.text("run")
    if PurePosixPath(run).is_absolute():
        raise ReportError(f"{node.place}.run: expected a folder relative to the document's, got {run}")
    return f"{quote(run.rstrip('/'))}/report.html" if run else ""
