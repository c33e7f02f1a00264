"""Comparison of a run's verdicts with what its plan expects (:class:`harness.plan.Expect`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.checkers.base import Verdict, Violation
from harness.documents.run import ScenarioState
from harness.errors import UNKNOWN, VALID, VIOLATION
from harness.history import History
from harness.plan import Expect

from .decision import Decision
from .mechanism import mismatch

WRONG = ("missed", "late", "other-cause", "violated")
"""States of a run that contradict the expectation."""
OPEN = ("unknown", "error")
"""States of a run that neither meet nor contradict the expectation."""
OF_ANY_RUN = frozenset({"handover", "exposure"})
"""A scenario tells a story of its own: the lock may stay with one client, as it does while its lease is renewed, and a
fault may strike at a moment of its own. So a run that did not test these properties may be as expected."""
WITH_TWO_HOLDERS = "linearizability"
"""Two clients hold a key at the same time in no order of calls: where a scenario expects or ignores the one, the other
says nothing new."""


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """Outcome of a run beside its expectation. ``why`` is a sentence; ``found_s`` is the time at which the first
    violation began, in seconds after the run's first entry."""

    state: ScenarioState
    why: str
    found_s: float | None = None

    @property
    def exit_status(self) -> int:
        return status_of([self.state])


def status_of(states: Sequence[ScenarioState]) -> int:
    """Return the exit status of several runs: 1 if one is not as expected, 3 if one is unknown or broke, else 0."""
    if any(state in WRONG for state in states):
        return VIOLATION
    return UNKNOWN if any(state in OPEN for state in states) else VALID


def judge(expect: Expect, verdicts: Mapping[str, Verdict], history: History, decision: Decision) -> ExpectationResult:
    """Compare verdicts by checker name, with the history that they judge and the decision, with ``expect``."""
    origin_ns = history.origin
    verdict_by_name = {name: verdict.valid for name, verdict in verdicts.items()}
    found_s = first_violation_s(expect.invalid or tuple(verdicts), verdicts, origin_ns)
    ignored = {*expect.invalid, *expect.ignored}
    ignored |= {WITH_TWO_HOLDERS} if "mutual-exclusion" in ignored else set()
    healthy = tuple(name for name in verdicts if name not in ignored)
    always = () if "faults" in expect.untested else ("faults",)
    must_be_valid = healthy if expect.safe else (*expect.valid, *always)

    def because(name: str) -> str:
        return f"{name}: {verdicts[name].explanation}"

    for name in must_be_valid:
        if verdict_by_name[name] is False:
            return ExpectationResult("violated", because(name), first_violation_s((name,), verdicts, origin_ns))
    for name in (*must_be_valid, *expect.invalid):
        if verdict_by_name[name] is None and (name not in OF_ANY_RUN or name in (*expect.valid, *expect.invalid)):
            return ExpectationResult("unknown", because(name), found_s)
    accepted = decision.limits if decision.accepts_limits else ()
    for name in expect.invalid:
        if verdict_by_name[name] is True or name in accepted:
            found = "only what is accepted as a known limit" if name in accepted else "no violation"
            return ExpectationResult("missed", f"{name} found {found}, but was expected to find the failure", found_s)
    for name in expect.untested:
        if verdict_by_name[name] is not None:
            return ExpectationResult("missed", f"{because(name)}; but it was expected not to be tested", found_s)
    if expect.invalid and expect.within and found_s is not None and found_s > expect.within:
        return ExpectationResult("late", f"found at {found_s:.3f} s, expected within {expect.within:g} s", found_s)
    if (other := _other_cause(expect, verdicts, history, decision)) is not None:
        return ExpectationResult("other-cause", other, found_s)
    decisive = (*expect.invalid, *expect.untested)
    return ExpectationResult(
        "as-expected", because(decisive[0]) if decisive else "no checker found a violation", found_s
    )


def _other_cause(expect: Expect, verdicts: Mapping[str, Verdict], history: History, decision: Decision) -> str | None:
    """Return why the first violation does not have the expected mechanism; None if it has, or none is expected. Where
    known limits are accepted, the first is the first of those that no limit explains."""
    if decision.accepts_limits:
        told = (decision.properties[name].violation for name in expect.invalid)
        first = min(filter(None, told), key=lambda violation: violation.from_ns, default=None)
    else:
        first = first_violation(expect.invalid, verdicts)
    if expect.mechanism is None or first is None:
        return None
    why = mismatch(expect.mechanism, first, history)
    return f"{first.sentence}; but {why}" if why else None


def first_violation_s(names: Iterable[str], verdicts: Mapping[str, Verdict], origin_ns: int) -> float | None:
    """Return when the first violation reported by these checkers begins, in seconds after the history's first entry;
    None without a violation."""
    first = first_violation(names, verdicts)
    return None if first is None else round((first.from_ns - origin_ns) / 1e9, 3)


def first_violation(names: Iterable[str], verdicts: Mapping[str, Verdict]) -> Violation | None:
    """Return the violation reported by these checkers that begins first; None without a violation."""
    violations = [violation for name in names for violation in verdicts[name].evidence]
    return min(violations, key=lambda violation: violation.from_ns, default=None)
