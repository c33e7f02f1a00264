"""What changed since last night, and how locks fare under faults over the nights.

Works on what :mod:`harness.results_db` gives and makes one plain document, which is printed, drawn or given out as
JSON. Several seeds of a scenario on one cluster count as one: the worst state, the median time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from . import results_db
from .expectation import OPEN, WRONG, Outcome
from .results_db import Night

SCHEMA: Final = 1
ORDER: Final = ("violated", "missed", "late", "error", "unknown", "not-run", "as-expected")
"""States, the worst first."""
RED: Final = frozenset({*WRONG, *OPEN})
"""States that are not as expected; ``not-run`` is neither green nor red."""
FACTOR: Final = 2.0
SHORTEST_S: Final = 0.1
"""Times to the first violation below this are taken for this: on containers, scheduling alone moves them by as much."""
Series = tuple[str, tuple[str, ...], str]


def trends(path: Path, *, last: int, factor: float = FACTOR, suite: str = "", clusters: str = "") -> dict[str, Any]:
    """The document on the last night in the file at ``path`` that fits, and up to ``last`` of the same suite and
    clusters that end with it. ``suite`` and ``clusters`` ("sim", "docker,sim") narrow, empty ones do not.

    Keys: ``nights`` (the oldest first; with counts), ``compared`` (None with fewer than two nights; see
    :func:`compare`), ``series`` (see :func:`series`). Raises UsageError for a file that cannot be read.
    """
    wanted = [
        night
        for night in results_db.nights(path)
        if suite in ("", night.suite) and clusters in ("", ",".join(night.clusters))
    ]
    alike = [night for night in wanted if (night.suite, night.clusters) == (wanted[-1].suite, wanted[-1].clusters)]
    shown = alike[-last:]
    of = results_db.outcomes(path, [night.id for night in shown])
    before, now = ([None, None, *shown])[-2:]
    return {
        "schema": SCHEMA,
        "suite": now.suite if now else suite,
        "clusters": list(now.clusters) if now else [],
        "factor": factor,
        "nights": [_night(night, of[night.id]) for night in shown],
        "compared": compare(of[before.id], of[now.id], factor) if before and now else None,
        "series": series([of[night.id] for night in shown]),
    }


def _night(night: Night, of: list[Outcome]) -> dict[str, Any]:
    states = [outcome.state for outcome in of]
    red, idle = sum(state in RED for state in states), states.count("not-run")
    return {
        "id": night.id,
        "started_at": night.started_at,
        "seconds": night.seconds,
        "status": night.status,
        "as_expected": len(of) - red - idle,
        "not_as_expected": red,
        "not_run": idle,
    }


def compare(before: Iterable[Outcome], now: Iterable[Outcome], factor: float) -> dict[str, list[dict[str, Any]]]:
    """What differs between two nights, as lists by what happened, each sorted by scenario and cluster.

    ``newly_red``: red now and not before (the state before is None if it was not there), ``newly_green``: as expected
    now and red before, ``changed``: another change of state, ``appeared`` (and not red), ``disappeared``; ``slower``
    and ``faster``: known failures, found both times, the times to the first violation apart by more than ``factor``.
    """
    old, new = _by_scenario(before), _by_scenario(now)
    told: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("newly_red", "newly_green", "changed", "appeared", "disappeared", "slower", "faster")
    }
    for key in sorted({*old, *new}):
        was, now_is = old.get(key), new.get(key)
        if name := _change(_state(was), _state(now_is)):
            told[name].append(_named((now_is or was or [])[0]) | _changed(was, now_is))
        was_s, now_s = _found(was or ()), _found(now_is or ())
        # What a cure is allowed to violate (its own lock's promise, where the resource is fenced) tells nothing.
        if now_is and not now_is[0].safe and was_s is not None and now_s is not None:
            ratio = max(now_s, SHORTEST_S) / max(was_s, SHORTEST_S)
            if not 1 / factor <= ratio <= factor:
                times = {"before_s": was_s, "now_s": now_s, "ratio": round(ratio, 3)}
                told["slower" if ratio > 1 else "faster"].append(_named(now_is[0]) | times)
    return told


def _by_scenario(of: Iterable[Outcome]) -> dict[tuple[str, str], list[Outcome]]:
    """The outcomes of each scenario on each cluster, the worst first."""
    found = defaultdict(list)
    for outcome in sorted(of, key=lambda outcome: ORDER.index(outcome.state)):
        found[outcome.scenario, outcome.cluster].append(outcome)
    return dict(found)


def _state(of: Sequence[Outcome] | None) -> str | None:
    return of[0].state if of else None


def _found(of: Iterable[Outcome]) -> float | None:
    """The median time to the first violation, s; None if none was found."""
    times = [outcome.found_s for outcome in of if outcome.found_s is not None]
    return median(times) if times else None


def _change(before: str | None, now: str | None) -> str | None:
    if before == now:
        return None
    if now is None:
        return "disappeared"
    if now in RED and before not in RED:
        return "newly_red"
    if before is None:
        return "appeared"
    return "newly_green" if before in RED and now == "as-expected" else "changed"


def _changed(before: Sequence[Outcome] | None, now: Sequence[Outcome] | None) -> dict[str, Any]:
    return {"before": _state(before), "now": _state(now), "why": now[0].why if now else ""}


def _named(outcome: Outcome) -> dict[str, Any]:
    return {
        "scenario": outcome.scenario,
        "cluster": outcome.cluster,
        "lock": outcome.lock,
        "faults": list(outcome.faults),
        "folder": outcome.folder,
    }


def series(nights: Sequence[Iterable[Outcome]]) -> list[dict[str, Any]]:
    """For each lock, faults and cluster one value a night: ``rate``, the share of runs with a violation among those
    with a verdict, ``found_s``, the median time to the first violation (both None where there is none), and ``runs``.
    """
    places: dict[Series, list[list[Outcome]]] = defaultdict(lambda: [[] for _ in nights])
    for number, night in enumerate(nights):
        for outcome in night:
            if outcome.state != "not-run":
                places[outcome.lock, outcome.faults, outcome.cluster][number].append(outcome)
    return [
        {
            "lock": lock,
            "faults": list(faults),
            "cluster": cluster,
            "runs": [len(some) for some in by_night],
            "rate": [_rate(some) for some in by_night],
            "found_s": [_found(some) for some in by_night],
        }
        for (lock, faults, cluster), by_night in sorted(places.items())
    ]


def _rate(of: Iterable[Outcome]) -> float | None:
    judged = [outcome.valid for outcome in of if outcome.valid is not None]
    return judged.count(False) / len(judged) if judged else None
