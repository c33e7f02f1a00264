"""Liveness of a lock whose acquires have unknown outcomes."""

from __future__ import annotations

from harness.checkers.base import Verdict
from harness.checkers.liveness import LivenessChecker
from tests.checkers.story import Story


def verdict_on_errors(errors: int, grants: int = 2, fault: bool = False) -> Verdict:
    """Two clients alternate. First they are granted the lock; then each acquire ends in an error after 0.2 s."""
    story = Story()
    for number in range(grants):
        story.acquire(f"c{number % 2}", number, number + 0.01).release(f"c{number % 2}", number + 0.4)
    for number in range(errors):
        begin = grants + number / 4
        story.acquire(f"c{number % 2}", begin, begin + 0.2, "info")
    if fault:
        story.fault(0, "partition-node", ["n1"], grants, grants + errors / 4, disturbs=True)
    return LivenessChecker().check(story.history())


def test_a_lock_that_only_raises_gives_unknown() -> None:
    verdict = verdict_on_errors(errors=30)
    assert verdict.valid is None
    assert verdict.explanation.startswith("30 of 32 acquires had an unknown outcome while no fault was active")


def test_a_few_unknown_acquires_leave_the_verdict_valid() -> None:
    assert verdict_on_errors(errors=4, grants=5).valid is True
    assert verdict_on_errors(errors=5, grants=45).valid is True


def test_a_lock_that_raises_in_each_second_acquire_gives_unknown() -> None:
    assert verdict_on_errors(errors=9, grants=9).valid is None


def test_unknown_acquires_during_a_fault_leave_the_verdict_valid() -> None:
    assert verdict_on_errors(errors=30, fault=True).valid is True
