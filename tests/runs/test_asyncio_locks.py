"""Locks whose methods are coroutines run on the simulator, unmodified, and get the verdict that they deserve."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import run
from harness.checkers.base import Violation
from harness.errors import UsageError
from harness.faults.catalogue import default_specs
from harness.plan import Plan
from harness.run.store import HISTORY
from harness.run.verdicts.judging import Result

LOCKS = f"{__package__}.asyncio_locks"
OTHER_LOOPS = f"{__package__}.loops"
LIBRARY = "redis-py-asyncio-lock"


def first_violation(lock: str) -> Violation:
    plan = Plan(lock=lock, clients=3, time_limit=10.0, faults=tuple(default_specs("client-pause", 2.0)))
    return run(plan).verdicts["mutual-exclusion"].evidence[0]


@pytest.mark.few(1)
@pytest.mark.parametrize("lock", [f"{LOCKS}:TokenLock", LIBRARY])
def test_a_sound_lock_is_valid_and_the_same_seed_gives_the_same_bytes(lock: str, tmp_path: Path) -> None:
    results = [run(Plan(lock=lock, clients=3, time_limit=10.0), store=tmp_path) for _ in range(2)]
    assert [result.valid for result in results] == [True, True], results[0].reason
    first, second = (result.folder for result in results)
    assert first is not None
    assert second is not None
    assert (first / HISTORY).read_bytes() == (second / HISTORY).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(0, 100, 20))
def test_redis_py_s_asyncio_lock_is_valid_without_faults(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 20):
        result = run(Plan(lock=LIBRARY, clients=3, time_limit=10.0, seed=seed))
        assert result.valid is True, (seed, result.reason)


@pytest.mark.slow
def test_a_pause_violates_redis_py_s_asyncio_lock_as_it_violates_the_plain_one() -> None:
    asynchronous, plain = first_violation(LIBRARY), first_violation("redis-py-lock")
    causes = [re.sub(r"[\d.]+ s", "... s", violation.cause) for violation in (asynchronous, plain)]
    assert causes == ["c2's lease had ended at ... s"] * 2


def held_beyond_its_ttl(lock: str) -> Result:
    return run(Plan(lock=f"{LOCKS}:{lock}", ttl=1.0, hold=3.0, clients=3, time_limit=20.0))


@pytest.mark.slow
def test_tasks_of_a_lock_go_on_while_its_client_is_in_its_critical_section() -> None:
    assert held_beyond_its_ttl("RenewedLock").verdicts["mutual-exclusion"].valid is True
    assert held_beyond_its_ttl("NeverRenewed").verdicts["mutual-exclusion"].valid is False


@pytest.mark.slow
def test_a_call_that_was_not_answered_is_unknown() -> None:
    faults = tuple(default_specs("lost-reply", 2.0))
    result = run(Plan(lock=f"{LOCKS}:Impatient", clients=3, time_limit=60.0, faults=faults))
    unknown = [call.done for call in result.history.calls("acquire") if call.outcome == "info"]
    assert unknown
    assert all("TimeoutError" in str(done and done.error) for done in unknown)


def test_a_lock_that_raises_cancelled_error_is_unknown() -> None:
    result = run(Plan(lock=f"{LOCKS}:CancelsItself", time_limit=3.0))
    assert result.valid is None
    assert "acquire of the lock raised CancelledError" in result.reason


def test_a_generator_is_refused() -> None:
    with pytest.raises(UsageError, match="acquire is a generator; it must be a method or a coroutine"):
        run(Plan(lock=f"{LOCKS}:Generator"))


@pytest.mark.parametrize("module", ["gevent", "uvloop"])
def test_another_event_loop_is_unknown_and_the_result_names_it(module: str) -> None:
    result = run(Plan(lock=f"{OTHER_LOOPS}.with_{module}:Lock", time_limit=3.0))
    assert result.valid is None
    assert f"called {module}, which the simulator lacks" in result.reason


def test_a_lock_that_lets_gevent_replace_the_standard_library_is_refused() -> None:
    with pytest.raises(UsageError, match="gevent has replaced parts of the standard library"):
        run(Plan(lock=f"{OTHER_LOOPS}.patched:Lock", time_limit=3.0))
