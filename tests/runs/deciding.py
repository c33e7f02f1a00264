"""Decisions on verdicts that no run gave."""

from __future__ import annotations

from collections.abc import Mapping

from harness.checkers.base import Verdict
from harness.documents.lock import LockFacts
from harness.plan import Plan
from harness.run.verdicts.decision import Decision, decide

LOCK = LockFacts(name="some-lock", fence=True, queue=False, reentrant=False)


def decided(verdicts: Mapping[str, Verdict], plan: Plan | None = None) -> Decision:
    """Return the decision on a run of a lock with tokens and without documented limits."""
    return decide(plan or Plan(lock="some-lock"), LOCK, verdicts)
