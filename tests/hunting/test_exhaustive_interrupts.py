"""Cancelled and interrupted calls in exhaustive search: they strike wherever a client waits in a call of its lock."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.search.executions import repeat
from harness.search.exhaustive import exhaust
from harness.search.interleavings import ExecutionStep, NotReproducible
from harness.search.scope import Scope

PLAIN = "tests.runs.interrupted_locks"
COROUTINES = "tests.runs.cancelled_locks"
SOUND = "tests.runs.asyncio_locks:TokenLock"
C0_HOLDS = ("begin c0", "c0>n1", "n1>c0", "begin c1")


def short(lock: str, fault: str) -> Scope:
    return Scope(lock=lock, families=(fault,), access=False)


def steps(*acts: str) -> tuple[ExecutionStep, ...]:
    return tuple(ExecutionStep(act) for act in acts)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("lock", "strike"),
    [
        (f"{PLAIN}:GrantsWhenInterrupted", "interrupt"),
        (f"{PLAIN}:DeletesWhenInterrupted", "interrupt"),
        (f"{COROUTINES}:GrantsWhenCancelled", "cancel"),
        (f"{COROUTINES}:DeletesWhenCancelled", "cancel"),
    ],
)
def test_a_waiting_call_can_be_struck(lock: str, strike: str) -> None:
    """c1 waits for its answer while c0 holds the lock. Without the strike, that answer is a refusal."""
    scope = Scope(lock=lock, families=("thread-interrupt" if strike == "interrupt" else "task-cancel",))
    trial = repeat(scope, steps(*C0_HOLDS, f"{strike} c1"))
    [struck] = [op for op in trial.history.nemesis("inject") if op.type == "ok"]
    assert struck.value["observed"]["calls"]["c1"]["method"] == "acquire"
    granted = [op.node for op in trial.history if op.f == "acquire" and op.type == "ok"]
    if "Grants" in lock:
        assert trial.verdicts["mutual-exclusion"].valid is False
        assert granted == ["c0", "c1"]
    else:
        assert granted == ["c0"]
        assert [op.type for op in trial.history if op.f == "acquire" and op.node == "c1"] == ["invoke", "info"]
    assert trial.verdicts["faults"].valid is True


@pytest.mark.parametrize("acts", [("interrupt c0",), ("begin c0", "c0>n1", "n1>c0", "interrupt c0")])
def test_a_client_that_is_in_no_call_of_its_lock_is_not_struck(acts: tuple[str, ...]) -> None:
    """Before its first step, and while it reads the resource."""
    scope = Scope(lock=f"{PLAIN}:TokenLock", families=("thread-interrupt",))
    with pytest.raises(NotReproducible):
        repeat(scope, steps(*acts))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lock", "fault"), [("redis-token", "thread-interrupt"), (SOUND, "task-cancel")], ids=["plain", "coroutines"]
)
def test_a_sound_lock_has_no_violation_in_any_interleaving(lock: str, fault: str) -> None:
    found = exhaust(short(lock, fault))
    assert (found.violated, found.blocked, found.truncated) == (0, 0, False), found.sentence()
    assert found.interleavings > exhaust(Scope(lock=lock, faults=0, access=False)).interleavings


def test_the_methods_of_the_lock_must_fit_the_fault() -> None:
    with pytest.raises(UsageError, match="those of redis-token are not"):
        short("redis-token", "task-cancel").plan()
    with pytest.raises(UsageError, match="those of redis-py-asyncio-lock are"):
        short("redis-py-asyncio-lock", "thread-interrupt").plan()
