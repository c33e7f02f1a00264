"""Plays one job of a comparison, and says what came of it as plain data.

The run that shows a cell's state, and those of properties and costs, are kept in the store with their reports; other
seeds are not, unless they happened on containers, where nothing happens a second time in the same way.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from checkers.base import Verdict

from ..plan import Plan
from ..reported import reported
from ..runs import Result, run
from . import cells, costs, plans, properties
from .plans import Job

BROKE: Final = "the process that ran it has died"
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a job, as plain data: ``cell``, ``cost``, ``property`` and ``recovery`` as in the document, as far
    as the job is of that kind (a cost run is judged, too: nothing was injected); folders are as the store gave them."""

    cell: Document = field(default_factory=dict)
    cost: Document = field(default_factory=dict)
    property: Document = field(default_factory=dict)
    recovery: Document = field(default_factory=dict)
    tokens: Verdict | None = None


def play(store: Path, asked_by: str, job: Job, open_cluster: Any) -> Outcome:
    """Play the runs of a job (a function of :mod:`harness.lanes`); ``asked_by`` is the comparison's command."""
    options = {} if open_cluster is None else {"open_cluster": open_cluster}
    player = _Runs(store, asked_by, job, options)
    with _unlogged():
        if job.part == "cell":
            return _cell(player)
        return _cost(player) if job.part == "cost" else _PROPERTIES[job.name](player)


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """What clients log of servers that are gone is in their histories, too, and here it would bury everything else."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


class _Runs:
    """The runs of one job, and what is kept of them."""

    def __init__(self, store: Path, asked_by: str, job: Job, options: dict[str, Any]) -> None:
        self.job = job
        self._store = store
        self._asked_by = asked_by
        self._options = options
        self.broke = ""

    def run(self, plan: Plan) -> Result | None:
        """None if it broke; ``broke`` says why."""
        store = self._store if plan.cluster == "docker" else None
        try:
            result = run(plan, store=store, command=self.command(plan), **self._options)
        except Exception as error:  # noqa: BLE001 - one run of many
            self.broke = f"the run broke: {type(error).__name__}: {error}"
            return None
        if result.interrupted:
            raise KeyboardInterrupt
        return result

    def keep(self, result: Result | None) -> str | None:
        """The folder of a run, with its report; None if there is none, and what was found counts all the same."""
        if result is None:
            return None
        try:
            return str(reported(result, self._store, self.command(result.plan)).folder)
        except Exception as error:  # noqa: BLE001 - whatever it was: the others are still to be played
            print(f"no report of {self.job.name} of {self.job.lock}: {type(error).__name__}: {error}", file=sys.stderr)
            return None

    def command(self, plan: Plan) -> str:
        """What repeats a run; only the comparison itself can ask for a server that is gone for good, and for clients
        that do not rest."""
        alone = self.job.part == "cost" or self.job.name == "no-single-point"
        return self._asked_by if alone else plans.command(plan, self.job.fault)


def _cell(runs: _Runs) -> Outcome:
    found: list[cells.Seen] = []
    shown: Result | None = None
    for plan in runs.job.plans:
        result = runs.run(plan)
        found.append(cells.Seen("unknown", runs.broke) if result is None else cells.seen(result))
        if cells.worst(found) == len(found) - 1:
            shown = result
    plan, folder = runs.job.plans[cells.worst(found)], runs.keep(shown)
    cell = cells.cell(found, plan, runs.job.fault, plans.command(plan, runs.job.fault), folder)
    name = runs.job.name
    cost = costs.no_cost(name, plan.clients) if shown is None else costs.cost(name, shown, folder)
    return Outcome(cell=cell, cost=cost)


def _cost(runs: _Runs) -> Outcome:
    (plan,) = runs.job.plans
    result = runs.run(plan)
    if result is None:
        return Outcome(cost=costs.no_cost(runs.job.name, plan.clients))
    folder = runs.keep(result)
    cost, judged = costs.cost(runs.job.name, result, folder), [cells.seen(result)]
    cell = cells.cell(judged, plan, runs.job.fault, runs.command(plan), folder)
    return Outcome(cell=cell, cost=cost, tokens=result.verdicts["fencing"])


def _released(runs: _Runs) -> Outcome:
    result = runs.run(runs.job.plans[0])
    if result is None:
        return Outcome(property=dict(properties.NOT_SEEN), recovery=properties.no_recovery(runs.broke))
    found, recovery = properties.released(result, runs.keep(result))
    return Outcome(property=found, recovery=recovery)


def _reentrant(runs: _Runs) -> Outcome:
    result = runs.run(runs.job.plans[0])
    if result is None:
        return Outcome(property=dict(properties.NOT_SEEN))
    return Outcome(property=properties.reentrant(result.verdicts["reentrancy"], runs.keep(result)))


def _no_single_point(runs: _Runs) -> Outcome:
    results = [runs.run(plan) for plan in runs.job.plans]
    told = {
        plan.kind: (None, runs.broke) if result is None else properties.outage(result)
        for plan, result in zip(runs.job.plans, results, strict=True)
    }
    usual = runs.job.plans[0]
    others = {kind: it for kind, it in told.items() if kind != usual.kind}
    return Outcome(property=properties.no_single_point(told[usual.kind], others, runs.keep(results[0]), usual))


_PROPERTIES: Final = {"released": _released, "reentrant": _reentrant, "no-single-point": _no_single_point}


def died(job: Job) -> Outcome:
    """Of a job whose process has died."""
    plan = job.plans[0]
    seen = [cells.Seen("unknown", BROKE)]
    return Outcome(
        cell=cells.cell(seen, plan, job.fault, plans.command(plan, job.fault), None),
        cost=costs.no_cost(job.name, plan.clients),
        property={**properties.NOT_SEEN, "found": BROKE},
        recovery=properties.no_recovery(BROKE),
    )
