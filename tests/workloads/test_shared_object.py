"""The workload ``shared-object``: one object of a lock in several threads or tasks."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.plan import FaultSpec, Plan
from harness.run.plans.completion import complete
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from harness.search.request import HuntRequest

LOCKS = "tests.workloads.shared_object_locks"
THREADS = "Two threads of c"
FOUND = [
    ("NewTokenForEachTry", "release", "release"),
    ("EntersIfHeld", "mutual-exclusion", THREADS),
    ("ReleasesAfterTimeout", "mutual-exclusion", "at the same time"),
    ("AsyncEntersIfHeld", "mutual-exclusion", THREADS),
]
RIGHT = (f"{LOCKS}:OneToken", f"{LOCKS}:ThreadTokens", f"{LOCKS}:AsyncOneToken", f"{LOCKS}:KazooLock", "redis-py-lock")


def run_shared(lock: str, cluster: str = "sim", faults: tuple[FaultSpec, ...] = ()) -> Result:
    plan = Plan(
        lock=lock, workload="shared-object", time_limit=12.0, clients=2, cluster=cluster, faults=faults, wait=0.2
    )
    return run(plan)


@pytest.mark.slow
@pytest.mark.parametrize(("lock", "checker", "words"), FOUND)
def test_an_object_that_must_not_be_shared_is_found(lock: str, checker: str, words: str) -> None:
    result = run_shared(f"{LOCKS}:{lock}")
    assert result.valid is False
    assert result.verdicts[checker].valid is False, result.verdicts[checker].explanation
    assert any(words in one.sentence or words in one.harm for one in result.verdicts[checker].evidence)


@pytest.mark.slow
@pytest.mark.parametrize("lock", [lock for lock, _, _ in FOUND])
def test_the_usual_workload_does_not_find_it(lock: str) -> None:
    result = run(Plan(lock=f"{LOCKS}:{lock}", time_limit=8.0, clients=3))
    assert result.valid is True, result.document["summary"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lock", "cluster"),
    [
        *((lock, "sim") for lock in RIGHT),
        pytest.param("redis-py-lock", "docker", marks=pytest.mark.docker),
        pytest.param(f"{LOCKS}:KazooLock", "docker", marks=pytest.mark.docker),
    ],
)
def test_a_right_object_is_valid(lock: str, cluster: str) -> None:
    result = run_shared(lock, cluster)
    assert result.valid is True, result.document["summary"]
    granted = {
        (call.invoke.node, call.invoke.process) for call in result.history.calls("acquire") if call.outcome == "ok"
    }
    assert len(granted) == 4, "two threads of each of two clients hold the lock"


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        FaultSpec("client-pause", on="acquire", nth=2, times=5, every=3.0, for_=1.0),
        FaultSpec("client-crash", on="acquire", nth=2, times=5, every=3.0, for_=1.0, params={"restart": True}),
        FaultSpec("thread-interrupt", on="acquire:invoke", nth=2, times=20, every=1.0),
    ],
    ids=lambda fault: fault.fault,
)
def test_faults_strike_clients_with_several_threads(fault: FaultSpec) -> None:
    result = run_shared(f"{LOCKS}:OneToken", faults=(fault,))
    assert result.valid is True, result.document["summary"]
    assert result.verdicts["faults"].valid is True


@pytest.mark.slow
def test_a_run_is_the_same_twice() -> None:
    one, two = (run_shared(f"{LOCKS}:AsyncOneToken") for _ in range(2))
    assert list(one.history) == list(two.history)


def test_it_is_refused_for_a_lock_whose_objects_may_not_be_shared() -> None:
    with pytest.raises(UsageError, match=r"needs a lock whose objects threads may share; redis-token does not state"):
        complete(Plan(lock="redis-token", workload="shared-object"))


@pytest.mark.parametrize(
    ("lock", "chosen"), [(f"{LOCKS}:OneToken", True), ("redis-py-lock", True), ("redis-token", False)]
)
def test_a_hunt_chooses_it_for_a_lock_that_may_be_shared(lock: str, chosen: bool) -> None:
    assert ("shared-object" in HuntRequest(lock=lock).completed().workloads) is chosen
