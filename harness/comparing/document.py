"""The document of a comparison, from what came of its jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..client_program import find_lock
from ..fault_specs import fault_class
from ..runs import versions
from . import cells, costs, plans, properties
from .plans import Asked
from .play import Document, Outcome
from .ranking import ranking

STOPPED: Final = "the comparison was interrupted before this was done"
Outcomes = Mapping[tuple[str, str, str], Outcome]
"""By lock, part and name of the job."""


def assembled(asked: Asked, outcomes: Outcomes) -> Document:
    """The document but for when it was made, with folders as the store gave them; what has no outcome was not
    played, and is unknown."""
    families = sorted({plans.family(find_lock(lock).info) for lock in asked.locks})
    locks = [_lock(asked, lock, outcomes) for lock in asked.locks]
    return {
        "cluster": asked.cluster,
        "time": "virtual" if asked.cluster == "sim" else "real",
        "seed": asked.seed,
        "runs": asked.runs,
        "time_limit": asked.time_limit,
        "clients": asked.clients,
        "versions": {name: value for family in families for name, value in versions(family).items()},
        "nemeses": [_nemesis(name, locks) for name in asked.nemeses],
        "cost_settings": f"holds of {plans.COST_HOLD * 1000:g} ms, {min(plans.COST_LIMIT, asked.time_limit):g} s a run",
        "locks": locks,
        "left_out": [{"lock": lock, "why": why} for lock, why in asked.left_out],
        "ranking": ranking({lock["name"]: lock["costs"] for lock in locks}),
    }


def _nemesis(name: str, locks: Sequence[Document]) -> Document:
    stood_in = {lock["family"]: fault for lock in locks if (fault := lock["cells"][name]["fault"]) not in (None, name)}
    settings = plans.SETTINGS.get(name, plans.Settings())
    return {"name": name, "summary": fault_class(name).summary, "settings": settings.told(), "role": stood_in}


def _lock(asked: Asked, lock: str, outcomes: Outcomes) -> Document:
    info = find_lock(lock).info
    found = {name: _cell_of(asked, lock, name, outcomes.get((lock, "cell", name))) for name in asked.nemeses}
    contended = outcomes.get((lock, "cost", "contended"))
    measured = {name: it.property for name in properties.NAMES if (it := outcomes.get((lock, "property", name)))}
    measured["mutual-exclusion"] = properties.mutual_exclusion(info, found)
    measured["fence"] = properties.fence(
        info, contended.tokens if contended else None, found, contended.cost["run"] if contended else None
    )
    claims = properties.claims(info)
    dead = outcomes.get((lock, "property", "released"))
    return {
        "name": lock,
        "title": info.title,
        "safety": info.safety,
        "family": plans.family(info),
        "kind": info.kinds[0],
        "fence": info.fence,
        "algorithm": info.algorithm,
        "source": info.source,
        "language": info.language,
        "library": info.library,
        "promises": info.promises,
        "cells": found,
        "fault_free": contended.cell if contended and contended.cell else cells.not_run(STOPPED),
        "properties": {name: {**claim, **measured.get(name, properties.NOT_SEEN)} for name, claim in claims.items()},
        "costs": [*_costs_of(asked, lock, outcomes)],
        "recovery": dead.recovery if dead else properties.no_recovery("not measured"),
    }


def _cell_of(asked: Asked, lock: str, name: str, outcome: Outcome | None) -> Document:
    if outcome is not None:
        return outcome.cell
    job = plans.cell(asked, lock, name)
    return cells.not_run(job) if isinstance(job, str) else cells.not_run(STOPPED, "unknown")


def _costs_of(asked: Asked, lock: str, outcomes: Outcomes) -> Iterator[Document]:
    for name, clients in (("alone", 1), ("contended", asked.clients)):
        outcome = outcomes.get((lock, "cost", name))
        yield outcome.cost if outcome else costs.no_cost(name, clients)
    for name in asked.nemeses:
        if (outcome := outcomes.get((lock, "cell", name))) is not None:
            yield outcome.cost


def relative(value: Any, folder: Path) -> Any:
    """The same document, with the folders of runs (``run``) as they are seen from its own."""
    if isinstance(value, dict):
        return {
            key: os.path.relpath(it, folder) if key == "run" and it is not None else relative(it, folder)
            for key, it in value.items()
        }
    return [relative(it, folder) for it in value] if isinstance(value, list) else value
