"""Assemble the document of a comparison from the outcomes of its jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace as with_

from harness.clusters.kinds import KINDS
from harness.documents.comparison import (
    SCHEMA,
    ComparedCell,
    ComparedCost,
    ComparedLock,
    ComparedNemesis,
    ComparedProperty,
    ComparedRecovery,
    ComparisonDocument,
    LeftOutLock,
)
from harness.faults.catalogue import fault_class
from harness.lock_impls.base import LockInfo
from harness.run.plans.lock_facts import find_info
from harness.run.verdicts.judging import versions

from . import cells, costs, plans, properties
from .plans import ComparisonRequest
from .ranking import ranking
from .trials import JobOutcome

STOPPED: Final = "the comparison was interrupted before this was done"
Outcomes = Mapping[tuple[str, str, str], JobOutcome]
"""Outcomes of jobs by lock, part and name of the job."""
Shown = TypeVar("Shown", ComparedCell, ComparedProperty, ComparedCost, ComparedRecovery)
"""A part of the document that names the folder of a run."""


def assemble(request: ComparisonRequest, outcomes: Outcomes) -> ComparisonDocument:
    """Return the document without its times, with folders as the store returned them. Jobs without an outcome were not
    run; their cells are unknown."""
    kinds = sorted({find_info(lock).kinds[0] for lock in request.locks}, key=_service)
    locks = tuple(_lock(request, lock, outcomes) for lock in request.locks)
    return ComparisonDocument(
        schema=SCHEMA,
        cluster=request.cluster,
        time="virtual" if request.cluster == "sim" else "real",
        seed=request.seed,
        runs=request.runs,
        time_limit=request.time_limit,
        clients=request.clients,
        versions={name: value for kind in kinds for name, value in versions(KINDS.find(kind).packages).items()},
        nemeses=tuple(_nemesis(name, locks) for name in request.nemeses),
        cost_settings=f"holds of {plans.COST_HOLD * 1000:g} ms, {min(plans.COST_LIMIT, request.time_limit):g} s a run",
        locks=locks,
        left_out=tuple(LeftOutLock(lock=lock, why=why) for lock, why in request.left_out),
        ranking=ranking({lock.name: lock.costs for lock in locks}),
    )


def _service(kind: str) -> tuple[str, str]:
    return KINDS.find(kind).service, kind


def _nemesis(name: str, locks: Sequence[ComparedLock]) -> ComparedNemesis:
    stood_in = {lock.family: fault for lock in locks if (fault := lock.cells[name].fault) not in (None, name)}
    settings = plans.SETTINGS.get(name, plans.ColumnSettings())
    return ComparedNemesis(name=name, summary=fault_class(name).summary, settings=settings.words(), role=stood_in)


def _lock(request: ComparisonRequest, lock: str, outcomes: Outcomes) -> ComparedLock:
    info = find_info(lock)
    cells_ = {name: _cell_of(request, lock, name, outcomes.get((lock, "cell", name))) for name in request.nemeses}
    contended = outcomes.get((lock, "cost", "contended"), JobOutcome())
    dead = outcomes.get((lock, "property", "released"), JobOutcome())
    return ComparedLock(
        name=lock,
        title=info.title,
        safety=info.safety,
        family=plans.family(info),
        kind=info.kinds[0],
        fence=info.fence,
        algorithm=info.algorithm,
        source=info.source,
        language=info.language,
        library=info.library,
        promises=info.promises,
        cells=cells_,
        fault_free=contended.cell or cells.not_run(STOPPED),
        properties=properties.claimed_and_measured(info, _findings(info, lock, cells_, outcomes)),
        costs=tuple(_costs_of(request, lock, outcomes)),
        recovery=dead.recovery or ComparedRecovery(found="not measured"),
    )


def _findings(
    info: LockInfo, lock: str, cells_: Mapping[str, ComparedCell], outcomes: Outcomes
) -> dict[str, properties.Finding]:
    contended = outcomes.get((lock, "cost", "contended"), JobOutcome())
    found = {
        name: outcome.property
        for name in properties.NAMES
        if (outcome := outcomes.get((lock, "property", name))) is not None and outcome.property is not None
    }
    found["mutual-exclusion"] = properties.mutual_exclusion(info, cells_)
    folder = contended.cost.run if contended.cost else None
    found["fence"] = properties.fence(info, contended.tokens, cells_, folder)
    return found


def _cell_of(request: ComparisonRequest, lock: str, name: str, outcome: JobOutcome | None) -> ComparedCell:
    if outcome is not None and outcome.cell is not None:
        return outcome.cell
    job = plans.cell(request, lock, name)
    return cells.not_run(job) if isinstance(job, str) else cells.not_run(STOPPED, "unknown")


def _costs_of(request: ComparisonRequest, lock: str, outcomes: Outcomes) -> Iterator[ComparedCost]:
    for name, clients in (("alone", 1), ("contended", request.clients)):
        measured = outcomes.get((lock, "cost", name), JobOutcome()).cost
        yield measured or costs.no_cost(name, clients)
    for name in request.nemeses:
        measured = outcomes.get((lock, "cell", name), JobOutcome()).cost
        if measured is not None:
            yield measured


def relative(document: ComparisonDocument, folder: Path) -> ComparisonDocument:
    """Return the document with the folders of runs relative to its own ``folder``."""

    def moved(shown: Shown) -> Shown:
        return shown if shown.run is None else with_(shown, run=os.path.relpath(shown.run, folder))

    locks = tuple(
        with_(
            lock,
            cells={name: moved(cell) for name, cell in lock.cells.items()},
            fault_free=UNSET if isinstance(lock.fault_free, UnsetType) else moved(lock.fault_free),
            properties={name: moved(found) for name, found in lock.properties.items()},
            costs=tuple(map(moved, lock.costs)),
            recovery=moved(lock.recovery),
        )
        for lock in document.locks
    )
    return with_(document, locks=locks)
