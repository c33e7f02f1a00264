"""Evidence from nightly runs: the latest results of each scenario on each cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from harness.documents.nightly import ScenarioOutcome
from harness.documents.publication import PublishedEvidence, PublishedNight, PublishedState, PublishedStory
from harness.lock_impls import catalogue as locks
from harness.scenarios import catalogue
from harness.scenarios.catalogue import Scenario
from harness.studies import results_db
from harness.studies.lock_status import state_of
from harness.studies.results_db import Night
from harness.studies.scenario_command import scenario_command

from .copies import Copies
from .verdicts import worst

MUTANTS: Final = "mutants"
"""The suite of locks that are wrong on purpose: it tests the checkers, not locks."""


@dataclass(frozen=True, slots=True)
class LatestOutcomes:
    """The outcomes of one scenario on one cluster in the latest nightly run that made it, one for each seed."""

    night: Night
    outcomes: tuple[ScenarioOutcome, ...]


def latest(database: Path) -> list[LatestOutcomes]:
    """Return the latest outcomes of each scenario on each cluster, by name and cluster; none without a database.

    An outcome that was not run counts only if no nightly run made it. Raises UsageError for a damaged database."""
    if not database.exists():
        return []
    nights = [night for night in results_db.nights(database) if night.suite.partition(",")[0] != MUTANTS]
    found: dict[tuple[str, str], LatestOutcomes] = {}
    for night in reversed(nights):
        wanted = [key for key in results_db.scenarios(database, night.id) if _open(found.get(key))]
        of: defaultdict[tuple[str, str], list[ScenarioOutcome]] = defaultdict(list)
        for outcome in results_db.outcomes_of(database, night.id, wanted):
            of[outcome.scenario, outcome.cluster].append(outcome)
        for key, its in of.items():
            if key not in found or _made(its):
                found[key] = LatestOutcomes(night, tuple(its))
    return [found[key] for key in sorted(found)]


def _open(known: LatestOutcomes | None) -> bool:
    return known is None or not _made(known.outcomes)


def _made(outcomes: Iterable[ScenarioOutcome]) -> list[ScenarioOutcome]:
    return [one for one in outcomes if one.state != "not-run"]


def published(found: Sequence[LatestOutcomes]) -> tuple[PublishedNight, ...]:
    """Return the nightly runs that the outcomes are from, the newest first."""
    nights: dict[int, Night] = {one.night.id: one.night for one in found}
    return tuple(
        PublishedNight(
            started_at=night.started_at,
            suite=night.suite,
            clusters=night.clusters,
            scenarios=sum(one.night.id == night.id for one in found),
            versions=dict(night.versions),
        )
        for night in sorted(nights.values(), key=lambda one: (one.started_at, one.id), reverse=True)
    )


def outcome_state(outcome: ScenarioOutcome) -> PublishedState:
    """Return what one outcome shows about its lock.

    A known failure that the run did not find is not tested: the run disproves nothing that is known.
    """
    if outcome.state in ("not-run", "error"):
        return "not-tested"
    if state_of(outcome) == "fenced":
        return "fenced"
    if not {"broken", "known-limit"}.isdisjoint(outcome.states.values()):
        return "broken" if state_of(outcome) == "broken" else "known-limit"
    if outcome.valid is False or (outcome.expected.untested and outcome.state == "as-expected"):
        return "violated"
    if outcome.valid and outcome.state == "as-expected":
        return "kept"
    return "not-tested"


def evidence(found: LatestOutcomes, copies: Copies) -> PublishedEvidence:
    """Return the evidence of one scenario on one cluster."""
    made = _made(found.outcomes)
    state = worst(map(outcome_state, found.outcomes))
    shown = next(one for one in made or found.outcomes if outcome_state(one) == state)
    files = copies.run(shown.folder)
    judged, failed = _counts(made)
    return PublishedEvidence(
        source="nightly",
        state=state,
        title=shown.title,
        why=shown.why if state == "not-tested" else shown.reason or shown.why,
        faults=shown.faults,
        cluster=shown.cluster,
        scenario=shown.scenario,
        known_failure=not shown.safe,
        release=release_of(shown),
        judged=judged,
        failed=failed,
        undecided=sum(outcome_state(one) == "not-tested" for one in made),
        started_at=found.night.started_at,
        command=scenario_command(shown.scenario, shown.cluster, seed=shown.seed) if made else "",
        report=files.report,
        trace=files.trace,
    )


def story(one: PublishedEvidence) -> PublishedStory | None:
    """Return the story of a documented failure that a nightly run found; None if it is none of ours.

    A scenario is a schedule that somebody has made small, and it describes the mechanism itself."""
    scenario = scenario_of(one.scenario)
    if scenario is None or not one.known_failure or one.state not in ("broken", "violated", "known-limit"):
        return None
    return PublishedStory(
        title=one.title,
        state=one.state,
        about=" ".join(scenario.plan.about.split()),
        summary=one.why,
        faults=one.faults,
        release=one.release,
        started_at=one.started_at,
        command=one.command,
        report=one.report,
        trace=one.trace,
    )


def _counts(made: Sequence[ScenarioOutcome]) -> tuple[int, int]:
    """Return the numbers of runs with a verdict, and of those with a violation. An outcome on containers may stand for
    several runs."""
    judged = failed = 0
    for one in made:
        state = outcome_state(one)
        runs = one.detection.runs if one.detection else 1
        judged += 0 if state == "not-tested" else runs
        if state not in ("not-tested", "kept"):
            failed += one.detection.found if one.detection else 1
    return judged, failed


@cache
def scenario_of(name: str) -> Scenario | None:
    """Return the scenario of ours with this name; None for a user's own, or one that is no more."""
    return catalogue.find(name) if name in _names() else None


@cache
def _names() -> frozenset[str]:
    return frozenset(catalogue.names())


def release_of(outcome: ScenarioOutcome) -> str:
    """Return the releases that a scenario runs in place of the usual ones."""
    scenario = scenario_of(outcome.scenario)
    return "" if scenario is None else other_release(outcome.lock, scenario.plan.requires)


def other_release(lock: str, requires: Sequence[str]) -> str:
    """Return the requirements of a plan that are not those of the lock's entry in the catalogue."""
    own = locks.own_description(lock)
    usual = () if own is None else own.info.requires
    return ", ".join(one for one in requires if one not in usual)
