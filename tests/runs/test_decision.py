"""The decision of a run: states of properties, what is required, and the word for it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from harness.checkers import catalogue
from harness.checkers.base import Blame, Verdict, Violation
from harness.documents.lock import LockFacts
from harness.documents.run import PropertyState, RunWord
from harness.faults.records import FaultRecord
from harness.lock_impls.base import Limit
from harness.plan import Plan
from harness.run.verdicts.decision import Decision, decide, with_promised_tokens
from harness.wording import certainty, first_sentence
from tests.checkers.story import Story

PLAN = Plan(lock="some-lock")
LOCK = LockFacts(name="some-lock", fence=True, queue=False, reentrant=False, limits=("late-client",))
KEPT = Verdict(True, "fine")


def broken(blame: Blame | None = None) -> Verdict:
    violation = Violation("overlap", "k0", "Two clients held k0", 1_000, 2_000, blame=blame)
    return Verdict(False, "Two clients held k0", (violation,))


def verdicts(**changed: Verdict) -> dict[str, Verdict]:
    """Return the verdicts of all checkers of a run without violations, with some ``changed``."""
    found = {checker.name: KEPT for checker in catalogue.all()}
    found["fencing"] = replaced_stats(KEPT, tokens=3)
    found["fairness"] = found["reentrancy"] = Verdict(True, "not applicable: no queue", applies=False)
    return found | {name.replace("_", "-"): verdict for name, verdict in changed.items()}


def replaced_stats(verdict: Verdict, **stats: Any) -> Verdict:
    return Verdict(verdict.valid, verdict.explanation, verdict.evidence, stats, verdict.applies)


def fault(name: str, *hosts: str) -> FaultRecord:
    return FaultRecord(0, name, hosts, {}, 500, 900, seen=True, observed={}, error=None)


def state(decision: Decision, name: str) -> PropertyState:
    return decision.properties[name].state


def test_the_first_sentence_does_not_end_at_a_number_or_a_host() -> None:
    assert first_sentence("c1 acquired k0 at 2.5 s. c0 was paused.") == "c1 acquired k0 at 2.5 s."
    assert first_sentence("No violation in 30 s") == "No violation in 30 s"


def test_a_run_is_valid_if_all_that_the_lock_promises_was_kept() -> None:
    decision = decide(PLAN, LOCK, verdicts())
    assert (decision.valid, decision.word) == (True, "valid")
    assert state(decision, "fairness") == "not-applicable"


@pytest.mark.parametrize(
    ("fencing", "resource", "valid", "word"),
    [
        ("off", KEPT, False, "violation found"),
        ("on", KEPT, True, "safe with fencing"),
        ("on", broken(), False, "violation found"),
        ("on", Verdict(None, "nothing was written"), None, "unknown"),
    ],
)
def test_two_holders_are_harmless_only_if_the_resource_refused_the_late_one(
    fencing: Any, resource: Verdict, valid: bool | None, word: RunWord
) -> None:
    found = verdicts(mutual_exclusion=broken("client"), resource=resource)
    decision = decide(replace(PLAN, fencing=fencing), LOCK, found)
    assert (decision.valid, decision.word) == (valid, word)
    assert decision.properties["mutual-exclusion"].state == "known-limit"  # it stays visible


def test_fencing_does_not_help_a_lock_without_tokens() -> None:
    found = verdicts(
        mutual_exclusion=broken("client"), fencing=Verdict(True, "not applicable: no tokens", applies=False)
    )
    assert decide(replace(PLAN, fencing="on"), LOCK, found).valid is False


@pytest.mark.parametrize(
    ("promised", "fencing", "expected"),
    [(True, "off", "broken"), (True, "on", "broken"), (False, "on", "not-tested"), (False, "off", "not-applicable")],
)
def test_tokens_that_are_absent_are_broken_if_promised_and_not_tested_if_only_checked(
    promised: bool, fencing: Any, expected: PropertyState
) -> None:
    plan, lock = replace(PLAN, fencing=fencing), replace(LOCK, fence=promised)
    found = verdicts(
        fencing=Verdict(True, "not applicable: the lock issues no tokens", (), {"tokens": 0}, applies=False),
    )
    history = Story().acquire("c0", 0.1, 0.11).release("c0", 0.2).history()
    completed = with_promised_tokens(plan, lock, found, history)
    assert [violation.involved[0]["client"] for violation in completed["fencing"].evidence] == ["c0"] * promised
    decision = decide(plan, lock, completed)
    assert state(decision, "fencing") == expected
    assert decision.valid == {"broken": False, "not-tested": None, "not-applicable": True}[expected]


@pytest.mark.parametrize(
    ("blame", "limits", "faults", "expected"),
    [
        ("client", ("late-client",), (), "known-limit"),
        ("client", (), (), "broken"),
        ("clock", ("late-client",), (), "broken"),
        ("clock", ("late-client", "clock"), (), "known-limit"),
        ("service", ("server-fault",), (), "broken"),
        ("service", ("server-fault",), (fault("client-pause", "c0"),), "broken"),
        ("service", ("server-fault",), (fault("kill-amnesia", "n1"),), "known-limit"),
        ("service", ("server-fault",), (fault("partition-node", "c0", "n1"),), "known-limit"),
        ("service", ("server-fault",), (fault("latency", "c0", "n1"),), "broken"),
        ("service", ("server-fault",), (fault("slow-link", "c0", "n1"), fault("client-crash", "c0")), "broken"),
        ("service", ("always",), (), "known-limit"),
    ],
)
def test_a_violation_is_a_known_limit_only_if_the_documented_cause_was_there(
    blame: Blame, limits: tuple[Limit, ...], faults: tuple[FaultRecord, ...], expected: PropertyState
) -> None:
    decision = decide(PLAN, replace(LOCK, limits=limits), verdicts(mutual_exclusion=broken(blame)), faults)
    assert state(decision, "mutual-exclusion") == expected
    assert decision.valid is False


def test_of_several_violations_the_first_beyond_the_documented_limits_is_told() -> None:
    late = Violation("overlap", "k0", "Two clients held k0", 1_000, 2_000, blame="client")
    granted = Violation("overlap", "k0", "Two clients held k0", 3_000, 4_000, blame="service")
    again = Violation("overlap", "k0", "Two clients held k0", 5_000, 6_000, blame="service")
    mixed = Verdict(False, "Two clients held k0", (late, granted, again))
    assert decide(PLAN, LOCK, verdicts(mutual_exclusion=mixed)).properties["mutual-exclusion"].violation is granted
    documented = Verdict(False, "Two clients held k0", (late,))
    known = decide(PLAN, LOCK, verdicts(mutual_exclusion=documented)).properties["mutual-exclusion"]
    assert (known.state, known.violation) == ("known-limit", late)
    assert decide(PLAN, LOCK, verdicts()).properties["mutual-exclusion"].violation is None


def test_known_limits_do_not_count_where_the_user_accepts_them() -> None:
    plan = replace(PLAN, accept=("known-limits",))
    found = verdicts(mutual_exclusion=broken("client"), resource=broken())
    decision = decide(plan, LOCK, found)
    assert (decision.valid, decision.word) == (True, "valid except for known limits")
    assert decision.properties["resource"].limits == ("late-client",)
    assert decide(plan, LOCK, verdicts(mutual_exclusion=broken("service"))).valid is False


def test_a_property_that_the_lock_does_not_promise_is_a_known_limit() -> None:
    found = verdicts(fairness=broken("service"))
    assert decide(PLAN, LOCK, found).properties["fairness"].limits == ("unpromised",)
    assert decide(replace(PLAN, accept=("known-limits",)), LOCK, found).valid is True
    assert state(decide(PLAN, replace(LOCK, queue=True), found), "fairness") == "broken"
    assert state(decide(PLAN, replace(LOCK, queue=None), found), "fairness") == "broken"  # not known: an old run


def test_the_user_can_require_other_properties() -> None:
    found = verdicts(mutual_exclusion=broken("service"), liveness=Verdict(None, "nobody waited"))
    assert decide(replace(PLAN, require=("resource",)), LOCK, found).valid is True
    assert decide(replace(PLAN, require=("liveness",)), LOCK, found).valid is None
    assert decide(replace(PLAN, require=("mutual-exclusion",)), LOCK, found).valid is False


def test_a_required_property_that_does_not_apply_is_not_tested() -> None:
    decision = decide(replace(PLAN, require=("fairness",)), LOCK, verdicts())
    assert (decision.valid, decision.untested) == (None, ("fairness",))


def test_faults_that_did_not_take_effect_leave_the_verdict_open_whatever_is_required() -> None:
    found = verdicts(faults=Verdict(None, "the clock did not move"))
    assert decide(replace(PLAN, require=("resource",)), LOCK, found).valid is None


def test_a_run_in_which_nothing_was_kept_is_unknown() -> None:
    found = {name: Verdict(True, "not applicable: -", applies=False) for name in verdicts()}
    assert decide(PLAN, LOCK, found | {"faults": KEPT}).valid is None


@pytest.mark.parametrize(("runs", "percent"), [(1, 95.0), (3, 63.2), (30, 9.6), (300, 1.0)])
def test_runs_without_a_failure_bound_the_share_of_failing_runs(runs: int, percent: float) -> None:
    assert f" {percent:g} % of such runs" in certainty(runs)
    assert ("say" in certainty(runs)) == (runs == 1), "a bound of 95 % with 95 % confidence says nothing to a reader"
    assert (1 - percent / 100) ** runs < 0.05001 < (1 - (percent - 0.1) / 100) ** runs
