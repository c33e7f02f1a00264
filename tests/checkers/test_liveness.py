"""Liveness of a lock whose acquires have unknown outcomes."""

from __future__ import annotations

import pytest

from harness.checkers.base import Verdict
from harness.checkers.deadlock import DeadlockChecker
from harness.checkers.liveness import LivenessChecker
from harness.history import History
from tests.checkers.service_stories import released_while_others_hang
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


def after_a_lost_answer(**settings: float) -> History:
    """The answer to c0's first request is lost; c0 waits for it until 8.6 s."""
    story = Story(**settings).fault(0, "lost-reply", ["c0", "n1"], 0.1, 0.2, disturbs=True)
    for number in range(3):
        story.acquire("c1", 9.0 + number, 9.01 + number).release("c1", 9.2 + number)
    return story.acquire("c0", 0.1, 8.6, timeout=1.0).release("c0", 8.8).history()


def test_a_client_may_wait_for_a_lost_answer_as_long_as_its_library_does() -> None:
    assert LivenessChecker().check(after_a_lost_answer()).valid is False
    assert LivenessChecker().check(after_a_lost_answer(answer_timeout=8.0)).valid is True
    assert LivenessChecker().check(after_a_lost_answer(answer_timeout=3.0)).valid is False


def kept_until(released: float, **settings: float) -> History:
    """c0 relies on its lock until 1 s and releases it at ``released``; c1 requests it all the time."""
    got = {"fence": None, "valid_for": None, "relies_for": 1.0}
    story = Story(**settings).call("c0", "acquire", 0.0, 0.01, asked={"timeout": 1.0}, got=got)
    story.acquire("c1", 0.1, released + 0.1, timeout=20.0).release("c0", released)
    return story.release("c1", released + 0.2).history()


def test_a_lock_without_a_stated_lease_stays_with_a_client_until_it_releases_it() -> None:
    """Its library may renew it, though the client has stopped relying on it."""
    assert DeadlockChecker().check(kept_until(10.0)).valid is not False
    assert DeadlockChecker().check(kept_until(10.0, lease=2.0)).valid is False


def test_acquires_that_hang_are_not_called_new_requests() -> None:
    _, found = LivenessChecker().check(released_while_others_hang()).evidence
    assert found.sentence == (
        "No client got k0 from 11.000 s to 30.000 s, while acquires of c0, c1 hung beyond their timeouts: c2 had "
        "released it, so it should have been available by 12.001 s (ttl 2 s, slack 1 s)"
    )
