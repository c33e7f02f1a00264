"""Liveness of a lock whose acquires have unknown outcomes."""

from __future__ import annotations

import pytest

from harness.checkers.base import Verdict
from harness.checkers.deadlock import DeadlockChecker
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


@pytest.mark.parametrize(
    ("moved_s", "host", "blame"),
    [(-8.0, "n1", "clock"), (-2.0, "n1", "service"), (8.0, "n1", "service"), (-8.0, "c1", "service")],
)
def test_a_clock_that_was_set_back_is_to_blame_for_a_lease_that_lasts(moved_s: float, host: str, blame: str) -> None:
    """The holder dies at 0.5 s, so the key is due at 3.5 s; it stays until 10 s."""
    story = Story().acquire("c0", 0.1, 0.11).crash(0.5, "c0").jump(1.0, {host: moved_s})
    for begin in range(1, 10, 2):
        story.acquire("c1", begin, begin + 1.99, "fail", timeout=2.0)
    violation = DeadlockChecker().check(story.acquire("c1", 11.0, 11.1).history()).evidence[0]
    assert violation.blame == blame
    assert ("n1's clock was set back by 8.000 s" in violation.sentence) == (blame == "clock")


def test_a_clock_is_not_to_blame_for_a_key_that_was_released() -> None:
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.5).jump(1.0, {"n1": -8.0})
    for begin in range(1, 10, 2):
        story.acquire("c1", begin, begin + 1.99, "fail", timeout=2.0)
    assert LivenessChecker().check(story.history()).evidence[0].blame == "service"
