"""Hunts of asyncio locks cancel calls by default, and find the locks that are wrong only then."""

from __future__ import annotations

import pytest

from harness import hunt
from harness.errors import UsageError
from harness.search.request import HuntRequest

FAULT = "task-cancel"
MUTANTS = "tests.runs.cancelled_locks"
SOUND = "tests.runs.asyncio_locks:TokenLock"


@pytest.mark.parametrize("lock", ["redis-py-asyncio-lock", SOUND])
def test_calls_of_an_asyncio_lock_are_cancelled_by_default(lock: str) -> None:
    assert FAULT in HuntRequest(lock=lock).completed().faults


def test_calls_of_a_plain_lock_are_not() -> None:
    assert FAULT not in HuntRequest(lock="redis-token").completed().faults
    with pytest.raises(UsageError, match="methods are coroutines, and those of redis-token are not"):
        HuntRequest(lock="redis-token", faults=(FAULT,)).completed()


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["WithoutLease", "GrantsWhenCancelled", "DeletesWhenCancelled"])
def test_a_hunt_finds_a_lock_that_is_wrong_under_cancellation_alone(lock: str) -> None:
    """In ``mutex``: one of them also frees another client's lock if it is released twice, as in ``reuse``."""
    request = HuntRequest(lock=f"{MUTANTS}:{lock}", faults=(FAULT,), workloads=("mutex",), ttl=8.0)
    result = hunt(request, rounds=6).results
    assert result.given_up == ()
    finding = result.findings[0]
    assert finding.faults == (FAULT,), finding.lines


@pytest.mark.slow
def test_a_hunt_finds_no_failure_of_a_sound_lock_under_cancellation() -> None:
    result = hunt(HuntRequest(lock=SOUND, faults=(FAULT,), ttl=8.0), rounds=4)
    assert result.results.findings == ()
    assert result.results.judged > 0
