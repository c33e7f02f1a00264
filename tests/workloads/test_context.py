"""The workload ``context``: critical sections in ``with lock:`` and ``async with lock:``."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.plan import Plan
from harness.run.plans.completion import complete
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from harness.search.request import HuntRequest
from harness.search.space import weighted

LOCKS = "tests.workloads.context_locks"
BODY_RAN = "The body of `with` ran although the lock was not acquired"
FOUND = [
    ("EntersAnyway", "mutual-exclusion", BODY_RAN),
    ("EntersAnyway", "resource", "is lost"),
    ("EntersAfterTimeout", "mutual-exclusion", BODY_RAN),
    ("StaysAfterError", "release", "had released it"),
]
GIVE_UP = (
    f"{LOCKS}:Lock", f"{LOCKS}:AsyncLock", "redis.lock:Lock", "redis-py-lock", "redis-py-asyncio-lock",
    "pottery-redlock", "sherlock-redis", "sherlock-memcached", "sherlock-etcd",
)  # fmt: skip
"""Locks whose ``__enter__`` gives up where it is given a limit."""
WAIT = ("kazoo-lock", "kazoo-semaphore", "kazoo-read-write-lock", "tooz-memcached", "etcd3-lock", "python-redis-lock")
"""Locks whose ``__enter__`` waits for ever, or for longer than these tests."""
BY_DEFAULT = (f"{LOCKS}:Lock", f"{LOCKS}:AsyncLock", "redis.lock:Lock", "sherlock-etcd", "kazoo-lock")


def run_context(lock: str, cluster: str = "sim") -> Result:
    return run(Plan(lock=lock, workload="context", time_limit=12.0, cluster=cluster))


@pytest.mark.few(1)
@pytest.mark.parametrize("asynchronous", ["Async", pytest.param("", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("lock", "checker", "words"), FOUND)
def test_a_wrong_context_manager_is_found(lock: str, checker: str, words: str, asynchronous: str) -> None:
    result = run_context(f"{LOCKS}:{asynchronous}{lock}")
    assert result.valid is False
    assert result.verdicts[checker].valid is False, result.verdicts[checker].explanation
    assert words in result.verdicts[checker].explanation


@pytest.mark.slow
def test_the_harm_and_the_cause_are_in_the_summary() -> None:
    summary = run_context(f"{LOCKS}:EntersAnyway").document["summary"]
    assert summary.startswith(BODY_RAN)
    assert "__enter__ returned although the acquire in it had failed" in summary


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lock", "cluster"),
    [
        *((lock, "sim") for lock in BY_DEFAULT),
        *(pytest.param(lock, "sim", marks=pytest.mark.slow) for lock in (*GIVE_UP, *WAIT) if lock not in BY_DEFAULT),
        pytest.param("redis-py-asyncio-lock", "docker", marks=pytest.mark.docker),
        pytest.param("kazoo-lock", "docker", marks=pytest.mark.docker),
    ],
)
def test_a_right_context_manager_is_valid(lock: str, cluster: str) -> None:
    result = run_context(lock, cluster=cluster)
    assert result.valid is True, result.document["summary"]
    acquires = result.history.calls("acquire")
    assert {call.outcome for call in acquires} == ({"ok", "fail"} if lock in GIVE_UP else {"ok"})
    assert all(call.invoke.value["context"] for call in acquires)


def test_etcd3_ignores_that_its_acquire_gave_up() -> None:
    """kragniz/python-etcd3#599: ``__enter__`` ignores that ``acquire()`` returns False after 10 s."""
    result = run(Plan(lock="etcd3-lock", workload="context", hold=4.0, ttl=20.0, time_limit=20.0))
    assert result.verdicts["mutual-exclusion"].valid is False
    assert result.document["summary"].startswith(BODY_RAN)


@pytest.mark.slow
@pytest.mark.parametrize(("release", "valid"), [("redis==2.10.6", False), ("redis==3.0.0", True)])
def test_a_release_of_redis_py_whose_body_ran_without_the_lock(release: str, valid: bool) -> None:
    """redis/redis-py#621."""
    result = run(Plan(lock="redis-py-lock", workload="context", time_limit=12.0, requires=(release,)))
    assert result.valid is valid, result.document["summary"]
    if not valid:
        assert result.document["summary"].startswith(BODY_RAN)


@pytest.mark.slow
def test_a_run_is_the_same_twice() -> None:
    one, two = (run_context(f"{LOCKS}:AsyncLock") for _ in range(2))
    assert list(one.history) == list(two.history)


def test_it_is_refused_for_a_lock_without_a_context_manager() -> None:
    with pytest.raises(UsageError, match=r"workload 'context' needs a lock that can be used in 'with'.* redis-token"):
        complete(Plan(lock="redis-token", workload="context"))


@pytest.mark.parametrize(
    ("lock", "chosen"),
    [("redis-py-lock", True), ("redis.lock:Lock", True), (f"{LOCKS}:AsyncLock", True), ("redis-token", False)],
)
def test_a_hunt_chooses_it_for_a_lock_with_a_context_manager(lock: str, chosen: bool) -> None:
    assert ("context" in HuntRequest(lock=lock).completed().workloads) is chosen


def test_a_hunt_draws_it_less_often_than_the_usual_workload() -> None:
    assert weighted(("mutex", "context")) == ("mutex",) * 4 + ("context",)
    assert weighted(("mutex", "context", "extend")) == ("mutex",) * 8 + ("context", "extend")
    assert weighted(("mutex", "queue")) == ("mutex", "queue")
    assert weighted(("context",)) == ("context",)
