"""State of each lock under each family of faults over the nightly runs: broken, known limit, fenced, not tested or
kept, and since when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.documents.nightly import ScenarioOutcome
from harness.run.verdicts.decision import FENCED
from harness.wording import SAFE_WITH_FENCING

STATES: Final = ("broken", "known-limit", "fenced", "not-tested", "kept")
"""States of a lock under a family of faults, the worst first; their words are in ``harness.wording``."""
NO_FAULT: Final = "no fault"
"""Family of the scenarios without a fault."""
RECENT: Final = 14
"""The most nightly runs of which a status has the states."""
NightOutcomes = tuple[str, Sequence[ScenarioOutcome]]
"""When a nightly run began (UTC, as in the database), and its outcomes."""


@dataclass(frozen=True, slots=True)
class FamilyStatus:
    """State of one lock under one family of faults.

    ``since`` is when the first nightly run of the latest unbroken series with this state began, ``nights`` is the
    length of that series, and ``before`` the state before it ("" if there was none). ``last`` is when the latest
    nightly run that has the lock and the family began; ``why`` and ``folder`` are of its worst outcome, and
    ``scenarios`` begins with that outcome's. ``recent`` are the states of the latest nightly runs that have both, the
    oldest first.
    """

    lock: str
    family: str
    state: str
    since: str
    nights: int
    before: str
    last: str
    scenarios: tuple[str, ...]
    why: str
    folder: str
    recent: tuple[str, ...]


def lock_statuses(nights: Sequence[NightOutcomes], cluster: str = "") -> list[FamilyStatus]:
    """Return the status of each lock under each family, by lock and family; ``nights`` have the oldest first. A
    ``cluster`` restricts it to outcomes on that cluster."""
    found: defaultdict[tuple[str, str], list[tuple[str, list[ScenarioOutcome]]]] = defaultdict(list)
    for began, outcomes in nights:
        cells: defaultdict[tuple[str, str], list[ScenarioOutcome]] = defaultdict(list)
        for outcome in outcomes:
            if cluster in ("", outcome.cluster):
                for family in outcome.faults or (NO_FAULT,):
                    cells[outcome.lock, family].append(outcome)
        for cell, its in cells.items():
            found[cell].append((began, its))
    return [_status(lock, family, history) for (lock, family), history in sorted(found.items())]


def state_of(outcome: ScenarioOutcome) -> str:
    """Return the state that one outcome shows; a run that proved nothing, or was not made, tested nothing."""
    found = set(outcome.states.values())
    if _is_fenced(outcome):
        return "fenced"
    if "broken" in found or (not found and outcome.valid is False):
        return "broken"
    if "known-limit" in found:
        return "known-limit"
    return "kept" if outcome.valid else "not-tested"


def _is_fenced(outcome: ScenarioOutcome) -> bool:
    """Return whether only properties of the lock alone were violated, and the resource refused every late access."""
    violated = {name for name, state in outcome.states.items() if state in ("broken", "known-limit")}
    return bool(outcome.valid and violated and violated <= FENCED and outcome.reason.startswith(SAFE_WITH_FENCING))


def _status(lock: str, family: str, history: Sequence[tuple[str, list[ScenarioOutcome]]]) -> FamilyStatus:
    states = [(began, _worst(outcomes)) for began, outcomes in history]
    last, (state, worst) = states[-1]
    nights = 0
    while nights < len(states) and states[-1 - nights][1][0] == state:
        nights += 1
    return FamilyStatus(
        lock=lock,
        family=family,
        state=state,
        since=states[-nights][0],
        nights=nights,
        before=states[-1 - nights][1][0] if nights < len(states) else "",
        last=last,
        scenarios=tuple(dict.fromkeys((worst.scenario, *(outcome.scenario for outcome in history[-1][1])))),
        why=worst.reason or worst.why,
        folder=worst.folder or "",
        recent=tuple(shown for _, (shown, _) in states[-RECENT:]),
    )


def _worst(outcomes: Sequence[ScenarioOutcome]) -> tuple[str, ScenarioOutcome]:
    """Return the worst state of a nightly run, and its outcome. What was not run counts only if nothing was run."""
    made = [outcome for outcome in outcomes if outcome.state != "not-run"] or list(outcomes)
    return min(((state_of(outcome), outcome) for outcome in made), key=lambda one: STATES.index(one[0]))
