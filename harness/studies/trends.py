"""Trends of nightly runs: what changed since the previous one, and how each lock did under each fault over time.

The input is :mod:`harness.studies.results_db`; the output is one plain document, which is printed, drawn or written as
JSON. Several seeds of a scenario on one cluster count as one: the worst state, the median time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from harness.documents import TrendsDocument
from harness.documents.nightly import Detection, ScenarioOutcome
from harness.documents.run import ScenarioState
from harness.documents.trends import SCHEMA, Changes, TrendChange, TrendsDetection, TrendsNight, TrendsSeries
from harness.run.verdicts.expectation import OPEN, WRONG

from . import results_db
from .results_db import Night

ORDER: Final = ("violated", "missed", "other-cause", "late", "error", "unknown", "not-run", "as-expected")
"""States, the worst first."""
RED: Final = frozenset({*WRONG, *OPEN})
"""States that count as failing. ``not-run`` counts neither as failing nor as expected."""
FACTOR: Final = 2.0
SHORTEST_S: Final = 0.1
"""Shorter times to the first violation count as this: on containers, scheduling alone varies them by as much."""
Series = tuple[str, tuple[str, ...], str]


def trends(path: Path, *, last: int, factor: float = FACTOR, suite: str = "", clusters: str = "") -> TrendsDocument:
    """Return the document on the latest matching nightly run in the file at ``path``, with up to ``last`` runs of the
    same suite and clusters, including that one.

    Non-empty ``suite`` and ``clusters`` ("sim", "docker,sim") restrict the selection. Raises UsageError for a file that
    cannot be read.
    """
    wanted = [
        night
        for night in results_db.nights(path)
        if suite in ("", night.suite) and clusters in ("", ",".join(night.clusters))
    ]
    alike = [night for night in wanted if (night.suite, night.clusters) == (wanted[-1].suite, wanted[-1].clusters)]
    shown = alike[-last:]
    of = results_db.outcomes(path, [night.id for night in shown])
    found = Counter(one.found_at for one in results_db.explored_failures(path))
    before, now = ([None, None, *shown])[-2:]
    return TrendsDocument(
        schema=SCHEMA,
        suite=now.suite if now else suite,
        clusters=now.clusters if now else (),
        factor=factor,
        nights=tuple(_night(night, of[night.id], found[datetime.fromisoformat(night.started_at)]) for night in shown),
        compared=compare(of[before.id], of[now.id], factor) if before and now else None,
        detections=tuple(detections([of[night.id] for night in shown])),
        series=tuple(series([of[night.id] for night in shown])),
    )


def _night(night: Night, of: list[ScenarioOutcome], new_failures: int) -> TrendsNight:
    states = [outcome.state for outcome in of]
    red, idle = sum(state in RED for state in states), states.count("not-run")
    return TrendsNight(
        id=night.id,
        started_at=datetime.fromisoformat(night.started_at),
        seconds=night.seconds,
        status=night.status,
        as_expected=len(of) - red - idle,
        not_as_expected=red,
        not_run=idle,
        seed=night.seed,
        explored=night.explored,
        bound=night.bound,
        new_failures=new_failures,
    )


def compare(before: Iterable[ScenarioOutcome], now: Iterable[ScenarioOutcome], factor: float) -> Changes:
    """Return the differences between two nightly runs; each list is sorted by scenario and cluster.

    ``newly_red``: failing now, not before (state before None if it was missing); ``newly_green``: as expected now
    and red before; ``changed``: another change of state; ``appeared`` (and not red); ``disappeared``; ``slower`` and
    ``faster``: known failures found both times, whose times to the first violation differ by more than ``factor``.
    """
    old, new = _by_scenario(before), _by_scenario(now)
    found: defaultdict[str, list[TrendChange]] = defaultdict(list)
    for key in sorted({*old, *new}):
        was, now_is = old.get(key), new.get(key)
        if name := _kind_of_change(_state(was), _state(now_is)):
            why = now_is[0].why if now_is else ""
            found[name].append(_change((now_is or was or [])[0], before=_state(was), now=_state(now_is), why=why))
        was_s, now_s = _found(was or ()), _found(now_is or ())
        # A cure's lock may still be violated where the resource is fenced, so its times mean nothing.
        if now_is and not now_is[0].safe and was_s is not None and now_s is not None:
            ratio = max(now_s, SHORTEST_S) / max(was_s, SHORTEST_S)
            if not 1 / factor <= ratio <= factor:
                change = _change(now_is[0], before_s=was_s, now_s=now_s, ratio=round(ratio, 3))
                found["slower" if ratio > 1 else "faster"].append(change)
    return Changes(**{name: tuple(some) for name, some in found.items()})


def _by_scenario(of: Iterable[ScenarioOutcome]) -> dict[tuple[str, str], list[ScenarioOutcome]]:
    """Return the outcomes of each scenario on each cluster, the worst first."""
    found = defaultdict(list)
    for outcome in sorted(of, key=lambda outcome: ORDER.index(outcome.state)):
        found[outcome.scenario, outcome.cluster].append(outcome)
    return dict(found)


def _state(of: Sequence[ScenarioOutcome] | None) -> ScenarioState | None:
    return of[0].state if of else None


def _found(of: Iterable[ScenarioOutcome]) -> float | None:
    """Return the median time to the first violation in seconds; None if none was found."""
    times = [outcome.found_s for outcome in of if outcome.found_s is not None]
    return median(times) if times else None


def _kind_of_change(before: str | None, now: str | None) -> str | None:
    if before == now:
        return None
    if now is None:
        return "disappeared"
    if now in RED and before not in RED:
        return "newly_red"
    if before is None:
        return "appeared"
    return "newly_green" if before in RED and now == "as-expected" else "changed"


def _change(outcome: ScenarioOutcome, **change: Any) -> TrendChange:
    return TrendChange(
        scenario=outcome.scenario,
        cluster=outcome.cluster,
        lock=outcome.lock,
        faults=outcome.faults,
        folder=outcome.folder,
        **change,
    )


def series(nights: Sequence[Iterable[ScenarioOutcome]]) -> list[TrendsSeries]:
    """Return the figures of each combination of lock, faults and cluster, one value for each nightly run."""
    places: dict[Series, list[list[ScenarioOutcome]]] = defaultdict(lambda: [[] for _ in nights])
    for number, night in enumerate(nights):
        for outcome in night:
            if outcome.state != "not-run":
                places[outcome.lock, outcome.faults, outcome.cluster][number].append(outcome)
    return [
        TrendsSeries(
            lock=lock,
            faults=faults,
            cluster=cluster,
            runs=tuple(len(some) for some in by_night),
            rate=tuple(_rate(some) for some in by_night),
            found_s=tuple(_found(some) for some in by_night),
        )
        for (lock, faults, cluster), by_night in sorted(places.items())
    ]


def detections(nights: Sequence[Iterable[ScenarioOutcome]]) -> list[TrendsDetection]:
    """Return the detection rates by scenario, one value for each nightly run."""
    counts: dict[str, list[Detection | None]] = defaultdict(lambda: [None for _ in nights])
    for number, night in enumerate(nights):
        for outcome in night:
            if outcome.detection is not None:
                counts[outcome.scenario][number] = outcome.detection
    return [
        TrendsDetection(
            scenario=scenario,
            found=tuple(None if one is None else one.found for one in by_night),
            runs=tuple(None if one is None else one.runs for one in by_night),
            chance=None if by_night[-1] is None else by_night[-1].chance,
        )
        for scenario, by_night in sorted(counts.items())
    ]


def _rate(of: Iterable[ScenarioOutcome]) -> float | None:
    judged = [outcome.valid for outcome in of if outcome.valid is not None]
    return judged.count(False) / len(judged) if judged else None
