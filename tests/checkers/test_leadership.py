"""Causes of acts of former leaders."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.checkers.leadership import LeadershipChecker
from harness.history import History
from tests.checkers.leadership_stories import former_leader_acts, former_leader_is_told_that_it_leads


@pytest.mark.parametrize(
    ("tale", "blame", "why"),
    [
        (former_leader_acts, "client", "c0 had stopped relying on it at 1.710 s"),
        (former_leader_is_told_that_it_leads, "service", "an extend told c0 at 3.101 s that it still held it"),
    ],
)
def test_the_cause_is_named(tale: Callable[[], History], blame: str, why: str) -> None:
    verdict = LeadershipChecker().check(tale())
    violation = verdict.evidence[0]
    assert (violation.blame, violation.cause) == (blame, why)
    assert verdict.stats["by_former_leaders"] == 1
