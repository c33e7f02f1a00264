"""Evidence and costs from stored comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace as with_

from harness.documents import ComparisonDocument
from harness.documents.comparison import CellState, ComparedCell, ComparedLock
from harness.documents.publication import PublishedCosts, PublishedEvidence, PublishedState

from .copies import Copies

FAULT_FREE: Final = "none"
"""The column without faults."""
VIOLATED: Final = ("unsafe", "unavailable")
STATES: Final[Mapping[CellState, PublishedState]] = {
    "safe": "kept", "fenced": "fenced", "unsafe": "violated", "unavailable": "violated", "unknown": "not-tested",
    "not-run": "not-tested",
}  # fmt: skip
"""The states of cells. A cell does not tell whether a violation is documented; the run that shows it does."""
RunState = Callable[[str | None], PublishedState | None]
"""Returns the state that a stored run shows, None if the run is not stored."""


def comparison_evidence(
    documents: Sequence[ComparisonDocument], state_of_run: RunState, copies: Copies
) -> dict[str, list[PublishedEvidence]]:
    """Return the evidence by lock: for each column and cluster the cell of the latest comparison that ran it.

    ``documents`` have the oldest first.
    """
    latest: dict[tuple[str, str, str], tuple[ComparisonDocument, ComparedCell]] = {}
    for document in documents:
        for lock in document.locks:
            for column, cell in lock.cells.items():
                key = lock.name, column, document.cluster
                if cell.runs or key not in latest:
                    latest[key] = document, cell
    found: dict[str, list[PublishedEvidence]] = {}
    for (name, column, _), (document, cell) in latest.items():
        found.setdefault(name, []).append(_evidence(document, column, cell, state_of_run, copies))
    return found


def _evidence(
    document: ComparisonDocument, column: str, cell: ComparedCell, state_of_run: RunState, copies: Copies
) -> PublishedEvidence:
    state, fault = STATES[cell.state], cell.fault or column
    if state == "violated":
        state = _documented(state_of_run(cell.run))
    files = copies.run(cell.run)
    counts = cell.counts or {cell.state: cell.runs}
    undecided = counts.get("unknown", 0)
    return PublishedEvidence(
        source="comparison",
        state=state,
        title=f"Comparison of {len(document.locks)} locks"
        + (f"; fencing {cell.fencing}" if cell.fencing == "on" else ""),
        why=cell.why,
        faults=() if fault == FAULT_FREE else (fault,),
        cluster=document.cluster,
        judged=cell.runs - undecided,
        failed=sum(counts.get(one, 0) for one in (*VIOLATED, "fenced")),
        undecided=undecided,
        started_at=document.started_at,
        command=cell.command or "",
        report=files.report,
        trace=files.trace,
    )


def _documented(shown: PublishedState | None) -> PublishedState:
    """Return the state of a cell with a violation. Its run may be gone, or judge less than the comparison does."""
    return shown if shown in ("broken", "known-limit") else "violated"


def runs_in(document: ComparisonDocument) -> Iterator[str]:
    """Yield the folders of runs that a comparison names."""
    for lock in document.locks:
        named: Iterable[str | None] = (
            *(cell.run for cell in lock.cells.values()),
            *(one.run for one in lock.properties.values()),
            *(cost.run for cost in lock.costs),
            lock.recovery.run,
        )
        yield from (run for run in named if run)


def costs(documents: Sequence[ComparisonDocument]) -> dict[str, tuple[PublishedCosts, ...]]:
    """Return the costs by lock: on each cluster those of the latest comparison that measured the lock alone.

    ``documents`` have the oldest first."""
    latest: dict[tuple[str, str], PublishedCosts] = {}
    for document in documents:
        for lock in document.locks:
            if any(cost.name == "alone" and cost.acquire_p50_s is not None for cost in lock.costs):
                latest[lock.name, document.cluster] = _costs(document, lock)
    found: dict[str, list[PublishedCosts]] = {}
    for (name, _), one in sorted(latest.items()):
        found.setdefault(name, []).append(one)
    return {name: tuple(its) for name, its in found.items()}


def _costs(document: ComparisonDocument, lock: ComparedLock) -> PublishedCosts:
    return PublishedCosts(
        cluster=document.cluster,
        started_at=document.started_at,
        command=document.command,
        costs=tuple(with_(cost, run=None) for cost in lock.costs),
        recovery=with_(lock.recovery, run=None),
    )
