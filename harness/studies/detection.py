"""How often runs on containers find a known failure: the detection rate, and whether it has fallen.

Containers run in real time, so a fault on an event strikes at another moment in each run, and a run may miss the
failure by chance. So a nightly run repeats such a scenario until it knows its rate, and alarms if the rate has fallen,
not if one run missed the failure. Other scenarios are repeated only if a run tested nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Final, NamedTuple

import msgspec

from harness.documents.nightly import Detection, ScenarioOutcome
from harness.plan import Plan

ALARM: Final = 0.001
"""Largest probability of so few detections by chance at which a nightly run alarms. It has about a hundred such
scenarios, so a false alarm comes once in ten nights at most."""
CALM: Final = 0.2
"""Least probability of so few detections by chance at which a nightly run stops to repeat a scenario that one of its
runs has missed and another has found."""
KNOWN: Final = 10
"""Number of stored runs from which on a rate is known: one run a night is enough then, if it finds the failure."""
AT_FIRST: Final = 2
"""Runs a night until then."""
MOST: Final = 6
"""Runs a night, at most."""
TRIES: Final = 3
"""Runs a night, at most, of a scenario whose detection rate does not count, while they are unknown."""
ENDS: Final = frozenset({"violated", "error", "not-run"})
"""States after which a scenario is not repeated: they say nothing about the detection."""


class Counts(NamedTuple):
    """Number of runs of a scenario, and of those that found the failure."""

    found: int = 0
    runs: int = 0


def chance(now: Counts, before: Counts) -> float | None:
    """Return the probability that so few of the runs ``now`` find the failure if the rate is that of ``before``; None
    if there are no runs to compare.

    Fisher's exact test, one-sided: given the detections of both together, the number that falls into the runs ``now``
    has a hypergeometric distribution. Unlike a binomial test against the stored rate it takes into account that the
    rate is an estimate from ``before.runs`` runs.
    """
    if not now.runs or not before.runs:
        return None
    found, runs = now.found + before.found, now.runs + before.runs
    first = max(0, found - before.runs)
    ways = sum(comb(now.runs, k) * comb(before.runs, found - k) for k in range(first, now.found + 1))
    return ways / comb(runs, found)


def repeats(plan: Plan) -> bool:
    """Return whether a nightly run repeats a plan on containers: one of a known failure with a fault on an event."""
    failure = plan.expect is not None and not plan.expect.safe
    return plan.cluster == "docker" and failure and any(spec.on is not None for spec in plan.faults)


def repeated(run: Callable[[], ScenarioOutcome], before: Counts) -> ScenarioOutcome:
    """Run a scenario until its detection rate is known, given its stored runs, and return one outcome for all.

    It is as expected if a run found the failure and the rate has not fallen, and ``missed`` if it has. If no run found
    the failure, and earlier nights do not show whether that is chance, it is unknown. Without earlier runs, the first
    miss counts as it is.
    """
    outcomes: list[ScenarioOutcome] = []
    while not outcomes or _goes_on(outcomes, before):
        outcomes.append(run())
    now = _counts(outcomes)
    detection = Detection(
        found=now.found, runs=now.runs, before_found=before.found, before_runs=before.runs, chance=chance(now, before)
    )
    seconds = round(sum(outcome.real_seconds for outcome in outcomes), 3)
    return msgspec.structs.replace(_judged(outcomes, detection), detection=detection, real_seconds=seconds)


def until_known(run: Callable[[], ScenarioOutcome]) -> ScenarioOutcome:
    """Run a scenario again while its outcome is unknown, :data:`TRIES` times at most, and return the last one.

    An unknown run tested nothing: the event of its fault did not come, or its programs waited for a processor. That is
    chance on containers.
    """
    outcomes = [run()]
    while outcomes[-1].state == "unknown" and len(outcomes) < TRIES:
        outcomes.append(run())
    seconds = round(sum(outcome.real_seconds for outcome in outcomes), 3)
    return msgspec.structs.replace(outcomes[-1], unknown_runs=len(outcomes) - 1, real_seconds=seconds)


def counts_of(outcome: ScenarioOutcome) -> Counts:
    """Return the counts of a stored outcome, also of one from before they were stored."""
    if outcome.detection is not None:
        return Counts(outcome.detection.found, outcome.detection.runs)
    return _counts([outcome])


def has_fallen(detection: Detection) -> bool:
    """Return whether so few detections are no chance."""
    return detection.chance is not None and detection.chance <= ALARM


def words(detection: Detection) -> str:
    """Return the counts in words: ``found in 3 of 4 runs, in 19 of 20 before (p = 0.3)``."""
    now = f"found in {detection.found} of {detection.runs} runs"
    if detection.chance is None:
        return now
    return f"{now}, in {detection.before_found} of {detection.before_runs} before (p = {detection.chance:.2g})"


def _counts(outcomes: list[ScenarioOutcome]) -> Counts:
    runs = [outcome for outcome in outcomes if outcome.state not in ENDS]
    return Counts(sum(outcome.state == "as-expected" for outcome in runs), len(runs))


def _goes_on(outcomes: list[ScenarioOutcome], before: Counts) -> bool:
    now = _counts(outcomes)
    if outcomes[-1].state in ENDS or now.runs >= MOST:
        return False
    if before.runs < KNOWN and now.runs < AT_FIRST:
        return True
    by_chance = chance(now, before)
    if by_chance is None:
        return now.found < now.runs
    return now.found < now.runs and by_chance > ALARM and (not now.found or by_chance < CALM)


def _judged(outcomes: list[ScenarioOutcome], detection: Detection) -> ScenarioOutcome:
    last = outcomes[-1]
    if last.state in ENDS:
        return last
    found = next((outcome for outcome in outcomes if outcome.state == "as-expected"), None)
    if has_fallen(detection):
        return msgspec.structs.replace(
            found or last, state="missed", why=f"the detection rate has fallen: {words(detection)}"
        )
    if found is not None:
        return msgspec.structs.replace(found, why=f"{found.why}; {words(detection)}") if len(outcomes) > 1 else found
    if detection.chance is None:
        return msgspec.structs.replace(last, why=f"{last.why}; {words(detection)}")
    return msgspec.structs.replace(
        last, state="unknown", why=f"{words(detection)}, which may be chance; the last run: {last.why}"
    )
