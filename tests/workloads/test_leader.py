"""The workload ``leader``: one leader acts at a time."""

from __future__ import annotations

import msgspec
import pytest

from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from harness.search.request import HuntRequest

LOCKS = "tests.workloads.leader_locks"
FOUND = ("HidesTheLoss", "ExtendsAnyKey", "TakesTheKeyBack", "ProlongsNothing")
RIGHT = (f"{LOCKS}:Extends", "redis-token", "redis-set-ex", "zookeeper-ephemeral", "redis-py-asyncio-lock")
PAUSE = FaultSpec("client-pause", on="write:invoke", nth=5, times=20, every=4.0, for_=3.5)


def run_leader(lock: str, cluster: str = "sim", faults: tuple[FaultSpec, ...] = (), fencing: str = "off") -> Result:
    plan = Plan(lock=lock, workload="leader", time_limit=25.0, clients=3, cluster=cluster, faults=faults)
    return run(msgspec.structs.replace(plan, fencing=fencing))


@pytest.mark.few(1)
@pytest.mark.parametrize("lock", FOUND)
def test_a_lock_with_two_leaders_is_found(lock: str) -> None:
    result = run_leader(f"{LOCKS}:{lock}")
    assert result.valid is False
    verdict = result.verdicts["leadership"]
    assert verdict.valid is False, verdict.explanation
    assert verdict.evidence[0].blame == "service"
    assert "acted as the leader of k0 although c" in verdict.explanation
    assert verdict.stats["by_former_leaders"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("lock", FOUND)
def test_the_usual_workload_does_not_find_it(lock: str) -> None:
    result = run(Plan(lock=f"{LOCKS}:{lock}", time_limit=8.0, clients=3))
    assert result.valid is True, result.document["summary"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("lock", "cluster"),
    [
        *((lock, "sim") for lock in RIGHT),
        pytest.param("redis-token", "docker", marks=pytest.mark.docker),
        pytest.param("etcd-mutex", "docker", marks=pytest.mark.docker),
    ],
)
def test_a_right_lock_has_one_leader(lock: str, cluster: str) -> None:
    result = run_leader(lock, cluster)
    assert result.valid is True, result.document["summary"]
    assert result.verdicts["leadership"].stats["acts"] > 20


def test_a_paused_leader_acts_when_it_goes_on() -> None:
    result = run_leader("redis-token", faults=(PAUSE,))
    verdict = result.verdicts["leadership"]
    assert result.valid is False
    assert verdict.valid is False, verdict.explanation
    assert {violation.blame for violation in verdict.evidence} == {"client"}
    assert result.document["checkers"]["leadership"]["state"] == "known-limit"


def test_a_resource_that_checks_tokens_refuses_the_acts_of_former_leaders() -> None:
    result = run_leader("redis-fenced", faults=(PAUSE,), fencing="on")
    assert result.valid is True, result.document["summary"]
    assert result.verdicts["leadership"].valid is True
    assert any(call.outcome == "fail" for call in result.history.calls("write"))


@pytest.mark.slow
def test_a_run_is_the_same_twice() -> None:
    one, two = (run_leader(f"{LOCKS}:Extends") for _ in range(2))
    assert list(one.history) == list(two.history)


def test_a_hunt_chooses_it_for_every_lock() -> None:
    assert "leader" in HuntRequest(lock="redis-set-ex").completed().workloads
