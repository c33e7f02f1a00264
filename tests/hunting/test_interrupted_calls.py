"""Hunts interrupt threads if the user names that fault, and find the locks that are wrong only then."""

from __future__ import annotations

import pytest

from harness import hunt
from harness.search.request import HuntRequest

FAULT = "thread-interrupt"
LOCKS = "tests.runs.interrupted_locks"


@pytest.mark.parametrize("lock", ["redis-token", "redis-py-asyncio-lock"])
def test_threads_are_interrupted_on_request_only(lock: str) -> None:
    assert FAULT not in HuntRequest(lock=lock).completed().faults


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["GrantsWhenInterrupted", "DeletesWhenInterrupted", "ForgetsItsToken"])
def test_a_hunt_finds_a_lock_that_is_wrong_when_it_is_interrupted(lock: str) -> None:
    finding = hunt(HuntRequest(lock=f"{LOCKS}:{lock}", faults=(FAULT,), stop_at_first=True), rounds=2).results.findings[
        0
    ]
    assert finding.faults == (FAULT,), finding.lines
    assert any("is interrupted" in line for line in finding.lines)


@pytest.mark.slow
def test_a_hunt_finds_no_failure_of_a_sound_lock_that_is_interrupted() -> None:
    request = HuntRequest(lock=f"{LOCKS}:TokenLock", faults=(FAULT,), workloads=("mutex", "reuse"), ttl=8.0)
    result = hunt(request, rounds=2).results
    assert result.findings == ()
    assert result.judged > 0
