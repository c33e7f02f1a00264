"""A lock of which nobody knows anything is not called live."""

from __future__ import annotations

from checkers.base import Verdict
from checkers.liveness import Liveness
from tests.checkers.story import Story


def raising(errors: int, grants: int = 2, fault: bool = False) -> Verdict:
    """Two clients in turn: first they are granted the lock, then each acquire ends in an error after 0.2 s."""
    story = Story()
    for number in range(grants):
        story.acquire(f"c{number % 2}", number, number + 0.01).release(f"c{number % 2}", number + 0.4)
    for number in range(errors):
        begin = grants + number / 4
        story.acquire(f"c{number % 2}", begin, begin + 0.2, "info")
    if fault:
        story.fault(0, "partition-node", ["n1"], grants, grants + errors / 4, disturbs=True)
    return Liveness().check(story.told())


def test_a_lock_that_only_raises_is_unknown() -> None:
    verdict = raising(errors=30)
    assert verdict.valid is None
    assert verdict.explanation.startswith("30 of 32 acquires ended unknown while no fault was at work")


def test_some_unknown_acquires_are_no_doubt() -> None:
    assert raising(errors=4, grants=5).valid is True
    assert raising(errors=8, grants=9).valid is True


def test_what_a_fault_explains_is_no_doubt() -> None:
    assert raising(errors=30, fault=True).valid is True
