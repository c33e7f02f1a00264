"""Workloads that exercise the lock itself, each with a lock that keeps the promise and one that does not."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
import pytest

from harness.checkers.holds import holds
from harness.errors import UsageError
from harness.plan import FaultSpec, Plan, load
from harness.run.plans.completion import complete
from harness.run.runs import run
from harness.run.store import PLAN
from harness.run.verdicts.judging import Result
from harness.search.request import HuntRequest
from harness.worker.resource import STALE, Request, Resource
from harness.worker.workloads.mutex import MutexWorkload
from tests.runs.verdicts import explanations

OPEN_TX = "harness.scenarios.locks.mysql_open_tx:OpenTransaction"
APART = "harness.scenarios.locks.zookeeper_readers:ReadersApart"
ALL_SHARE = "harness.scenarios.locks.zookeeper_readers:AllShare"
UNCOUNTED = "harness.scenarios.locks.mysql:UncountedReentry"
SAFETY = ("mutual-exclusion", "fencing", "resource", "ownership", "faults")
AVAILABLE = ("deadlock", "liveness")

FOUND = [
    ("reentrant", "redis-token", "reentrancy", "requested it again", (*SAFETY, *AVAILABLE)),
    ("reentrant", UNCOUNTED, "reentrancy", "nested release freed", AVAILABLE),
    ("try-lock", OPEN_TX, "try-lock", "a try-lock must not wait", (*SAFETY, *AVAILABLE)),
    ("queue", "zookeeper-herd", "fairness", "before c", (*SAFETY, *AVAILABLE)),
    ("crash", "redis-setnx", "deadlock", "had crashed while it held it", SAFETY),
    ("readers-writers", APART, "mutual-exclusion", "(shared)", AVAILABLE),
    ("readers-writers", APART, "resource", "changed during one critical section", AVAILABLE),
    ("readers-writers", ALL_SHARE, "resource", "is lost", AVAILABLE),
]
KEPT = [
    ("reentrant", "redis-reentrant"),
    ("reentrant", "mysql-reentrant"),
    ("try-lock", "mysql-unique"),
    ("queue", "zookeeper-sequential"),
    ("crash", "redis-token"),
    ("readers-writers", "kazoo-read-write-lock"),
]
DOCKER = pytest.param("docker", marks=pytest.mark.long)


def run_workload(workload: str, lock: str, cluster: str = "sim", **more: Any) -> Result:
    plan = Plan(lock=lock, workload=workload, cluster=cluster, **{"time_limit": 12.0, **more})
    return run(plan)


@pytest.mark.few(1)
@pytest.mark.parametrize("cluster", ["sim", DOCKER])
@pytest.mark.parametrize(("workload", "lock", "checker", "words", "valid"), FOUND)
def test_a_broken_promise_is_found(
    workload: str, lock: str, checker: str, words: str, valid: tuple[str, ...], cluster: str
) -> None:
    result = run_workload(workload, lock, cluster)
    assert result.verdicts[checker].valid is False, explanations(result)
    assert words in result.verdicts[checker].explanation
    for other in valid:
        assert result.verdicts[other].valid is True, explanations(result)


@pytest.mark.few(1)
@pytest.mark.parametrize("cluster", ["sim", DOCKER])
@pytest.mark.parametrize(("workload", "lock"), KEPT)
def test_a_lock_that_keeps_its_promise_is_valid(workload: str, lock: str, cluster: str) -> None:
    result = run_workload(workload, lock, cluster)
    assert result.valid is True, explanations(result)


def test_the_summary_reports_a_violation_of_a_promise() -> None:
    result = run_workload("queue", "zookeeper-herd")
    assert "before c" in result.document["summary"]
    assert "No violation" not in result.document["summary"]


@pytest.mark.few(1)
@pytest.mark.parametrize("lock", ["kazoo-lock", "zookeeper-sequential", "etcd-mutex"])
@pytest.mark.parametrize("fault", ["client-pause", "partition-clients"])
def test_a_client_that_lost_its_place_by_a_fault_is_not_overtaken(lock: str, fault: str) -> None:
    spec = FaultSpec(fault, at=4.0, for_=3.0)
    result = run_workload("queue", lock, time_limit=25.0, faults=(spec,))
    assert result.verdicts["fairness"].valid is True, explanations(result)
    assert result.verdicts["fairness"].stats["asked_behind_others"] > 10


# Behaviour of each workload.


@pytest.mark.slow
def test_readers_share_the_lock_and_a_fencing_resource_accepts_them() -> None:
    result = run_workload("readers-writers", "kazoo-read-write-lock", fencing="on")
    assert result.valid is True, explanations(result)
    assert result.verdicts["resource"].stats["rejected"] == 0
    held = list(holds(result.history))
    assert {hold.client for hold in held if hold.shared} == {"c1", "c2", "c4"}
    assert {hold.client for hold in held if not hold.shared} == {"c0", "c3"}
    together = [(one, two) for one, two in pairwise(held) if two.start_ns < one.end_ns]
    assert together
    assert all(one.shared and two.shared for one, two in together)


def test_stale_writers_and_readers_are_refused() -> None:
    resource = Resource("on", {})

    def asked(op: Literal["read", "write"], fence: int, *, shared: bool = False) -> str | None:
        return resource.apply(Request(op, "k0", fence, 1, shared=shared)).error

    assert asked("write", 5) is None
    assert asked("read", 7, shared=True) is None
    assert asked("read", 6, shared=True) is None, "readers come in any order"
    assert asked("write", 6) == STALE
    assert asked("read", 4, shared=True) == STALE
    assert asked("write", 8) is None
    assert asked("read", 7, shared=True) == STALE


@pytest.mark.parametrize("lock", ["kazoo-lock", "redis.lock:Lock"])
def test_readers_writers_refuses_a_lock_that_cannot_be_shared(lock: str) -> None:
    with pytest.raises(UsageError, match=r"readers-writers.* can be held by several at once, and .* no acquire_shared"):
        complete(Plan(lock=lock, workload="readers-writers"))
    with pytest.raises(UsageError, match="acquire_shared"):
        HuntRequest(lock=lock, workloads=("mutex", "readers-writers")).completed()


def test_a_hunt_includes_readers_only_for_shareable_locks() -> None:
    assert "readers-writers" in HuntRequest(lock="kazoo-read-write-lock").completed().workloads
    assert "readers-writers" not in HuntRequest(lock="kazoo-lock").completed().workloads


def test_tries_have_a_timeout_of_zero() -> None:
    asked = [call.invoke.value["timeout"] for call in run_workload("try-lock", "redis-token").history.calls("acquire")]
    assert set(asked) == {0.0}


@pytest.mark.slow
def test_queued_clients_do_not_give_up_before_the_end() -> None:
    history = run_workload("queue", "redis-token").history
    failed = [call for call in history.calls("acquire") if call.outcome == "fail"]
    assert all(call.done is not None and call.done.time - history.origin >= 12e9 for call in failed)


def test_nested_acquires_are_granted_and_end_before_the_outer_hold() -> None:
    found = run_workload("reentrant", "redis-reentrant").verdicts["reentrancy"].stats
    assert found["nested"] == found["granted"] > 50


# Faults that a workload adds.


def test_a_crash_is_added_once_and_stored(tmp_path: Path) -> None:
    result = run(Plan(lock="redis-token", workload="crash", time_limit=12.0), store=tmp_path)
    assert result.folder is not None
    stored = load(result.folder / PLAN)
    assert [spec.fault for spec in stored.faults] == ["client-crash"]
    assert complete(stored) == stored
    assert len(result.history.nemesis("crash")) >= 2


def test_a_plan_with_its_own_crash_gets_no_second_one() -> None:
    own = FaultSpec("client-crash", on="acquire", nth=3)
    plan = Plan(lock="redis-token", workload="crash", faults=(own,))
    assert complete(plan).faults == (own,)
    other = FaultSpec("client-pause", at=1.0, for_=1.0)
    assert [spec.fault for spec in complete(msgspec.structs.replace(plan, faults=(other,))).faults] == [
        "client-pause",
        "client-crash",
    ]


class Overlapping(MutexWorkload):
    """A user's workload whose fault would strike again while it lasts."""

    name: ClassVar = "overlapping"
    schedule: ClassVar = ({"fault": "partition-clients", "every": "1 ttl", "for": "2 ttl"},)


class Misspelt(MutexWorkload):
    """A workload whose schedule has a field that faults do not have."""

    name: ClassVar = "misspelt"
    schedule: ClassVar = ({"fault": "client-crash", "evry": 2.0},)


@pytest.mark.parametrize(("name", "words"), [("Overlapping", "strike again"), ("Misspelt", "schedule of workload")])
def test_an_invalid_schedule_of_a_workload_is_refused(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        complete(Plan(lock="redis-token", workload=f"{__name__}:{name}"))
