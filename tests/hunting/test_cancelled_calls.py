"""Hunts of asyncio locks cancel calls by default, and find the locks that are wrong only then."""

from __future__ import annotations

import pytest

from harness import hunt
from harness.errors import UsageError
from harness.plan import FaultSpec, Plan
from harness.search.request import HuntRequest
from harness.search.stories.story import story_of
from harness.search.trials import run_trial

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


def test_a_story_says_when_a_cancellation_took_effect_and_what_the_call_had_sent() -> None:
    """The fault strikes when c1 has begun to acquire, and takes effect when that awaits its answer."""
    lock, spec = f"{MUTANTS}:DeletesWhenCancelled", FaultSpec(FAULT, on="request:SET", client=1)
    plan = Plan(lock=lock, clients=2, ttl=8.0, hold=1.0, time_limit=12.0, faults=(spec,))
    steps = story_of(run_trial(plan), "keys").story.steps
    assert [step.text for step in steps if "cancelled" in step.text] == [
        "c1's acquire is cancelled after its SET was sent"
    ]


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
def test_a_hunt_finds_that_coredis_loses_its_token() -> None:
    """Nothing is told but the lock."""
    finding = hunt(HuntRequest(lock="coredis-lock"), rounds=1).results.findings[0]
    assert (finding.faults, finding.broken) == ((FAULT,), ("keys",)), finding.lines
    assert "Cannot release an unlocked lock" in finding.lines[-1]


@pytest.mark.slow
def test_a_hunt_finds_no_failure_of_a_sound_lock_under_cancellation() -> None:
    result = hunt(HuntRequest(lock=SOUND, faults=(FAULT,), ttl=8.0), rounds=4)
    assert result.results.findings == ()
    assert result.results.judged > 0
