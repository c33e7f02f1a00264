"""The workload ``handoff``: locks that are acquired in one thread or task and released in another."""

from __future__ import annotations

import pytest

from harness.plan import Plan
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from harness.search.request import HuntRequest

LOCKS = "tests.workloads.handoff_locks"
RIGHT = "tests.workloads.context_locks"
FOUND = [
    ("SaysNothing", "release", "had released it"),
    ("AsyncSaysNothing", "release", "had released it"),
    ("ForgetsItsToken", "release", "release"),
    ("WaitsForItsThread", "answers", "was not answered"),
]
ALLOW = (f"{RIGHT}:Lock", f"{RIGHT}:AsyncLock", "redis-token", "zookeeper-ephemeral")
REFUSE = (f"{LOCKS}:Bound", f"{LOCKS}:AsyncBound", "redis-py-lock")


def run_handoff(lock: str, cluster: str = "sim") -> Result:
    return run(Plan(lock=lock, workload="handoff", time_limit=12.0, clients=3, cluster=cluster))


@pytest.mark.few(1)
@pytest.mark.parametrize(("lock", "checker", "words"), FOUND)
def test_a_wrong_release_in_another_thread_is_found(lock: str, checker: str, words: str) -> None:
    result = run_handoff(f"{LOCKS}:{lock}")
    assert result.valid is False
    assert result.verdicts[checker].valid is False, result.verdicts[checker].explanation
    assert words in result.verdicts[checker].explanation


@pytest.mark.slow
@pytest.mark.parametrize("lock", [lock for lock, _, _ in FOUND])
def test_the_usual_workload_does_not_find_it(lock: str) -> None:
    result = run(Plan(lock=f"{LOCKS}:{lock}", time_limit=8.0, clients=3))
    assert result.valid is True, result.document["summary"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lock", "cluster"),
    [
        *((lock, "sim") for lock in (*ALLOW, *REFUSE)),
        pytest.param("redis-py-asyncio-lock", "docker", marks=pytest.mark.docker),
        pytest.param("etcd-mutex", "docker", marks=pytest.mark.docker),
    ],
)
def test_a_right_lock_is_valid(lock: str, cluster: str) -> None:
    result = run_handoff(lock, cluster)
    assert result.valid is True, result.document["summary"]
    handed = [call for call in result.history.calls("release") if (call.invoke.value or {}).get("elsewhere")]
    answers = {bool((call.done.value or {}).get("refused")) for call in handed if call.done}
    assert answers == {lock in REFUSE}


@pytest.mark.slow
def test_a_run_is_the_same_twice() -> None:
    one, two = (run_handoff(f"{LOCKS}:AsyncBound") for _ in range(2))
    assert list(one.history) == list(two.history)


def test_a_hunt_chooses_it_for_every_lock() -> None:
    assert "handoff" in HuntRequest(lock="redis-token").completed().workloads
