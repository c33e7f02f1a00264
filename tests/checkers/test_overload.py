"""Time limits in a run whose programs waited for a processor."""

from __future__ import annotations

import pytest

from harness.checkers.answers import AnswersChecker
from harness.checkers.mutual_exclusion import MutualExclusionChecker
from harness.checkers.overload import longest_wait_ns
from harness.checkers.running import run_all
from harness.history import SECOND, History
from tests.checkers.story import Story


def late_by(late_s: float, *waits: tuple[float, float]) -> History:
    """An acquire with a limit of 2 s, in a run with a slack of 1 s, is answered ``late_s`` after both. ``waits`` are
    samples (time, wait) in seconds."""
    story = Story().acquire("c0", 0.1, 0.2, timeout=2.0).release("c0", 0.3)
    story.acquire("c1", 1.0, 4.0 + late_s, timeout=2.0).release("c1", 4.5 + late_s)
    samples = [[round(at * SECOND), round(wait * SECOND)] for at, wait in waits]
    story.nemesis(12.0, "stop", "info", {"reason": "time limit", **({"processor_waits": samples} if waits else {})})
    return story.history()


def test_a_late_answer_is_a_violation_on_a_machine_with_enough_processors() -> None:
    assert run_all(late_by(0.4), [AnswersChecker()])["answers"].valid is False
    assert run_all(late_by(0.4, (3.0, 0.05)), [AnswersChecker()])["answers"].valid is False


def test_a_late_answer_is_unknown_if_programs_waited_longer_for_a_processor() -> None:
    verdict = run_all(late_by(0.4, (2.0, 0.3), (3.0, 0.3)), [AnswersChecker()])["answers"]
    assert verdict.valid is None
    assert not verdict.evidence
    assert "waited for a processor for up to 0.600 s" in verdict.explanation


def test_an_answer_that_is_later_than_the_wait_remains_a_violation() -> None:
    assert run_all(late_by(0.9, (2.0, 0.3), (3.0, 0.3)), [AnswersChecker()])["answers"].valid is False


def test_two_holders_remain_a_violation_on_an_overloaded_machine() -> None:
    story = Story().acquire("c0", 0.0, 0.1).acquire("c1", 0.2, 0.3).release("c0", 0.6).release("c1", 0.7)
    story.nemesis(6.0, "stop", "info", {"reason": "time limit", "processor_waits": [[SECOND, 4 * SECOND]]})
    verdict = run_all(story.history(), [MutualExclusionChecker()])["mutual-exclusion"]
    assert (verdict.valid, len(verdict.evidence)) == (False, 1)


@pytest.mark.parametrize(
    ("waits", "longest_s"),
    [
        ((), 0),
        (((1, 0.05), (2, 0.04)), 0),
        (((1, 0.2), (2, 0.3), (5.9, 0.1)), 0.6),
        (((1, 0.2), (2, 0.3), (6.5, 0.4)), 0.7),
        (((1, 0.2), (9, 0.1)), 0.2),
        (((1, 2.0), (2, 2.0), (3, 2.0)), 5.0),
        (((1, 2.0), (2, 7.0)), 7.0),
    ],
)
def test_waits_are_added_within_five_seconds(waits: tuple[tuple[float, float], ...], longest_s: float) -> None:
    assert longest_wait_ns(late_by(0.0, *waits)) == round(longest_s * SECOND)
