"""The state of each lock under each family of faults over nightly runs."""

from __future__ import annotations

from typing import Any

import pytest

from harness.documents.nightly import ScenarioOutcome
from harness.studies.lock_status import RECENT, FamilyStatus, lock_statuses, state_of
from harness.wording import SAFE_WITH_FENCING
from tests.reports import nights


def outcome(state: str, lock: str = "redlock", faults: tuple[str, ...] = ("clock-jump",), **changed: Any) -> Any:
    """Return the outcome of a run whose worst property is in this state; ``not-run`` was not run."""
    valid = {"kept": True, "not-tested": None, "not-run": None}.get(state, False)
    given = {"lock": lock, "faults": list(faults), "valid": valid, "states": {"a": "kept", "b": state}, **changed}
    if state == "not-run":
        given |= {"state": "not-run", "states": {}}
    document = {"started_at": "2026-11-21T02:00:00Z", "outcomes": [nights.outcome("x", **given)]}
    found: ScenarioOutcome = nights.read({**nights.explored(), **document}).outcomes[0]
    return found


def over(*states: str) -> FamilyStatus:
    """Return the status of one lock after nightly runs in these states, on consecutive days."""
    days = [(f"2026-11-{day:02}T02:00:00Z", [outcome(state)]) for day, state in enumerate(states, 1) if state]
    (status,) = lock_statuses(days)
    return status


@pytest.mark.parametrize("state", ["broken", "known-limit", "not-tested", "kept"])
def test_the_state_of_a_run_is_that_of_its_worst_property(state: str) -> None:
    assert state_of(outcome(state)) == state


def test_violations_of_the_lock_alone_are_fenced_if_the_resource_refused_every_late_access() -> None:
    reason = f"{SAFE_WITH_FENCING}: two clients held the lock at the same time once."
    limit = {"mutual-exclusion": "known-limit", "resource": "kept"}
    fenced = outcome("known-limit", states=limit, valid=True, reason=reason)
    assert state_of(fenced) == "fenced"
    assert lock_statuses([("2026-11-01T02:00:00Z", [outcome("kept"), fenced])])[0].state == "fenced"
    assert state_of(outcome("known-limit", states=limit, valid=False, reason=reason)) == "known-limit"
    late = limit | {"liveness": "broken"}
    assert state_of(outcome("known-limit", states=late, valid=True, reason=reason)) == "broken"


def test_an_outcome_of_an_older_document_is_judged_by_its_verdict() -> None:
    assert state_of(outcome("broken", states={}, valid=False)) == "broken"
    assert state_of(outcome("broken", states={}, valid=True)) == "kept"
    assert state_of(outcome("broken", states={}, valid=None)) == "not-tested"


@pytest.mark.parametrize(
    ("states", "since", "nights_", "before"),
    [
        (("kept",), 1, 1, ""),
        (("kept", "broken", "broken"), 2, 2, "kept"),
        (("broken", "kept", "broken"), 3, 1, "kept"),
        (("kept", "", "kept"), 1, 2, ""),
        (("known-limit", "not-tested"), 2, 1, "known-limit"),
    ],
)
def test_since_is_the_first_night_of_the_last_series(
    states: tuple[str, ...], since: int, nights_: int, before: str
) -> None:
    found = over(*states)
    assert (found.since[:10], found.nights, found.before) == (f"2026-11-{since:02}", nights_, before)
    assert found.state == states[-1]
    assert found.recent == tuple(filter(None, states))


def test_the_worst_outcome_of_a_night_counts_and_what_was_not_run_only_alone() -> None:
    day = "2026-11-01T02:00:00Z"
    worst = lock_statuses([(day, [outcome("kept"), outcome("known-limit", reason="the limit"), outcome("not-run")])])
    assert [(one.state, one.why) for one in worst] == [("known-limit", "the limit")]
    assert lock_statuses([(day, [outcome("kept"), outcome("not-run")])])[0].state == "kept"
    assert lock_statuses([(day, [outcome("not-run")])])[0].state == "not-tested"


def test_each_fault_of_an_outcome_is_a_family_and_clusters_can_be_chosen() -> None:
    both = outcome("kept", faults=("kill", "partition"))
    none = outcome("broken", lock="a", faults=(), cluster="docker")
    found = lock_statuses([("2026-11-01T02:00:00Z", [both, none])])
    assert [(one.lock, one.family) for one in found] == [
        ("a", "no fault"),
        ("redlock", "kill"),
        ("redlock", "partition"),
    ]
    assert {one.lock for one in lock_statuses([("2026-11-01T02:00:00Z", [both, none])], "sim")} == {"redlock"}


def test_a_status_has_the_states_of_the_latest_nights_only() -> None:
    assert over("broken", *["kept"] * RECENT).recent == ("kept",) * RECENT
