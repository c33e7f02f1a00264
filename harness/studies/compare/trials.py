"""Run one job of a comparison and return its outcome.

Runs that show a cell's state, a property or a cost are stored with their reports. Other seeds are not stored, except on
containers: Docker runs are not reproducible.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.checkers.base import Verdict
from harness.documents.comparison import ComparedCell, ComparedCost, ComparedRecovery
from harness.documents.messages import TraceMode
from harness.plan import Plan
from harness.run.pool.containers import reused_cluster
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from harness.run.with_report import with_report

from . import cells, costs, plans, properties
from .plans import ComparisonJob
from .properties import Finding


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """Outcome of a job: parts of the document, None where the job does not measure them. A cost run has a ``cell`` too,
    without a fault. Folders are as the store returned them."""

    cell: ComparedCell | None = None
    cost: ComparedCost | None = None
    property: Finding | None = None
    recovery: ComparedRecovery | None = None
    tokens: Verdict | None = None


def run_job(store: Path, asked_by: str, job: ComparisonJob) -> JobOutcome:
    """Make the runs of a job in a worker process. ``asked_by`` is the comparison's command."""
    options = {} if job.cluster == "sim" else {"open_cluster": reused_cluster()}
    player = _Runs(store, asked_by, job, options)
    with _unlogged():
        if job.part == "cell":
            return _cell(player)
        return _cost(player) if job.part == "cost" else _PROPERTIES[job.name](player)


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Silence client libraries' log messages: histories have their errors, and here they would hide other output."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


class _Runs:
    """Executes and stores the runs of one job."""

    def __init__(self, store: Path, asked_by: str, job: ComparisonJob, options: dict[str, Any]) -> None:
        self.job = job
        self._store = store
        self._asked_by = asked_by
        self._options = options
        self.broke = ""

    def run(self, plan: Plan) -> Result | None:
        """Return the result of a run. If it raises, return None and set ``broke`` to the reason."""
        store = self._store if plan.cluster == "docker" else None
        trace: TraceMode = "off" if self.job.part == "cost" else "violations"  # to record messages takes time, too
        try:
            result = run(plan, store=store, command=self.command(plan), trace=trace, **self._options)
        except Exception as error:  # noqa: BLE001 - one run of many
            self.broke = f"the run broke: {type(error).__name__}: {error}"
            return None
        if result.interrupted:
            raise KeyboardInterrupt
        return result

    def keep(self, result: Result | None) -> str | None:
        """Store the run with its report and return its folder; None if that fails. The findings count in any case."""
        if result is None:
            return None
        try:
            return str(with_report(result, self._store, self.command(result.plan)).folder)
        except Exception as error:  # noqa: BLE001 - any error: the other runs continue
            print(f"no report of {self.job.name} of {self.job.lock}: {type(error).__name__}: {error}", file=sys.stderr)
            return None

    def command(self, plan: Plan) -> str:
        """Return the command that repeats a run. It is the comparison's own command if ``harness run`` lacks the
        options: a server killed for good, or clients that do not rest."""
        alone = self.job.part == "cost" or self.job.name == "no-single-point"
        return self._asked_by if alone else plans.command(plan, self.job.fault)


def _cell(runs: _Runs) -> JobOutcome:
    found: list[cells.RunFindings] = []
    made: list[Plan] = []
    shown: Result | None = None
    spares = iter(runs.job.spares)
    for wanted in runs.job.plans:
        plan, result, findings = _exposed(runs, wanted, spares)
        found.append(findings)
        made.append(plan)
        if cells.worst(found) == len(found) - 1:
            shown = result
    plan, folder = made[cells.worst(found)], runs.keep(shown)
    cell = cells.cell(found, plan, runs.job.fault, plans.command(plan, runs.job.fault), folder)
    name = runs.job.name
    cost = costs.no_cost(name, plan.clients) if shown is None else costs.cost(name, shown, folder)
    return JobOutcome(cell=cell, cost=cost)


def _exposed(runs: _Runs, plan: Plan, spares: Iterator[Plan]) -> tuple[Plan, Result | None, cells.RunFindings]:
    """Make a run. As long as its fault did not test the lock, the next spare plan takes its place."""
    while True:
        result = runs.run(plan)
        found = cells.RunFindings("unknown", runs.broke) if result is None else cells.findings_of(result)
        spare = None if found.exposed else next(spares, None)
        if spare is None:
            return plan, result, found
        plan = spare


def _cost(runs: _Runs) -> JobOutcome:
    (plan,) = runs.job.plans
    result = runs.run(plan)
    if result is None:
        return JobOutcome(cost=costs.no_cost(runs.job.name, plan.clients))
    folder = runs.keep(result)
    cost, judged = costs.cost(runs.job.name, result, folder), [cells.findings_of(result)]
    cell = cells.cell(judged, plan, runs.job.fault, runs.command(plan), folder)
    return JobOutcome(cell=cell, cost=cost, tokens=result.verdicts["fencing"])


def _released(runs: _Runs) -> JobOutcome:
    result = runs.run(runs.job.plans[0])
    if result is None:
        return JobOutcome(property=properties.NOT_MEASURED, recovery=ComparedRecovery(found=runs.broke))
    found, recovery = properties.released(result, runs.keep(result))
    return JobOutcome(property=found, recovery=recovery)


def _reentrant(runs: _Runs) -> JobOutcome:
    result = runs.run(runs.job.plans[0])
    if result is None:
        return JobOutcome(property=properties.NOT_MEASURED)
    return JobOutcome(property=properties.reentrant(result.verdicts["reentrancy"], runs.keep(result)))


def _no_single_point(runs: _Runs) -> JobOutcome:
    results = [runs.run(plan) for plan in runs.job.plans]
    results_by_kind = {
        plan.kind: (None, runs.broke) if result is None else properties.outage(result)
        for plan, result in zip(runs.job.plans, results, strict=True)
    }
    usual = runs.job.plans[0]
    others = {kind: it for kind, it in results_by_kind.items() if kind != usual.kind}
    return JobOutcome(
        property=properties.no_single_point(results_by_kind[usual.kind], others, runs.keep(results[0]), usual)
    )


_PROPERTIES: Final = {"released": _released, "reentrant": _reentrant, "no-single-point": _no_single_point}


def died(job: ComparisonJob, why: str) -> JobOutcome:
    """Return the outcome of a job that was given up because its workers died."""
    plan = job.plans[0]
    seen = [cells.RunFindings("unknown", why)]
    return JobOutcome(
        cell=cells.cell(seen, plan, job.fault, plans.command(plan, job.fault), None),
        cost=costs.no_cost(job.name, plan.clients),
        property=Finding(found=why),
        recovery=ComparedRecovery(found=why),
    )
