"""The workloads that exercise the lock itself, with a lock that keeps the promise and one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from harness.completion import complete
from harness.errors import UsageError
from harness.plan import FaultSpec, Plan, load
from harness.runs import Result, run
from harness.store import PLAN
from harness.workloads.mutex import Mutex

OPEN_TX = "lock_impls.mistakes.mysql_open_tx:OpenTransaction"
UNCOUNTED = "lock_impls.mistakes.mysql:UncountedReentry"
SAFETY = ("mutual-exclusion", "fencing", "resource", "ownership", "faults")
AVAILABLE = ("deadlock", "liveness")

FOUND = [
    ("reentrant", "redis-token", "reentrancy", "asked for it again", (*SAFETY, *AVAILABLE)),
    ("reentrant", UNCOUNTED, "reentrancy", "the nested release at", AVAILABLE),
    ("try-lock", OPEN_TX, "try-lock", "a try-lock that waits", (*SAFETY, *AVAILABLE)),
    ("queue", "zookeeper-herd", "fairness", "before c", (*SAFETY, *AVAILABLE)),
    ("crash", "redis-setnx", "deadlock", "had crashed while it held it", SAFETY),
]
KEPT = [
    ("reentrant", "redis-reentrant"),
    ("reentrant", "mysql-reentrant"),
    ("try-lock", "mysql-unique"),
    ("queue", "zookeeper-sequential"),
    ("crash", "redis-token"),
]
DOCKER = pytest.param("docker", marks=pytest.mark.long)


def played(workload: str, lock: str, cluster: str = "sim", **more: Any) -> Result:
    plan = Plan(lock=lock, workload=workload, cluster=cluster, **{"time_limit": 12.0, **more})
    return run(plan)


def explained(result: Result) -> str:
    return "\n".join(f"{name}: {verdict.valid} {verdict.explanation}" for name, verdict in result.verdicts.items())


@pytest.mark.parametrize("cluster", ["sim", DOCKER])
@pytest.mark.parametrize(("workload", "lock", "checker", "words", "valid"), FOUND)
def test_a_broken_promise_is_found(
    workload: str, lock: str, checker: str, words: str, valid: tuple[str, ...], cluster: str
) -> None:
    result = played(workload, lock, cluster)
    assert result.verdicts[checker].valid is False, explained(result)
    assert words in result.verdicts[checker].explanation
    for other in valid:
        assert result.verdicts[other].valid is True, explained(result)


@pytest.mark.parametrize("cluster", ["sim", DOCKER])
@pytest.mark.parametrize(("workload", "lock"), KEPT)
def test_a_kept_promise_is_valid(workload: str, lock: str, cluster: str) -> None:
    result = played(workload, lock, cluster)
    assert result.valid is True, explained(result)


def test_the_summary_tells_what_only_a_checker_of_promises_found() -> None:
    result = played("queue", "zookeeper-herd")
    assert "before c" in result.document["summary"]
    assert "No violation" not in result.document["summary"]


@pytest.mark.parametrize("lock", ["kazoo-lock", "zookeeper-sequential", "etcd-mutex"])
@pytest.mark.parametrize("fault", ["client-pause", "partition-clients"])
def test_who_loses_his_place_by_a_fault_is_not_overtaken(lock: str, fault: str) -> None:
    spec = FaultSpec(fault, at=4.0, for_=3.0)
    result = played("queue", lock, time_limit=25.0, faults=(spec,))
    assert result.verdicts["fairness"].valid is True, explained(result)
    assert result.verdicts["fairness"].stats["asked_behind_others"] > 10


# What each workload does.


def test_a_try_never_waits() -> None:
    asked = [call.invoke.value["timeout"] for call in played("try-lock", "redis-token").history.calls("acquire")]
    assert set(asked) == {0.0}


def test_who_queues_does_not_give_up_before_the_end() -> None:
    history = played("queue", "redis-token").history
    failed = [call for call in history.calls("acquire") if call.outcome == "fail"]
    assert all(call.done is not None and call.done.time - history.origin >= 12e9 for call in failed)


def test_a_nested_section_is_over_before_the_outer_one() -> None:
    found = played("reentrant", "redis-reentrant").verdicts["reentrancy"].stats
    assert found["nested"] == found["granted"] > 50


# Faults that a workload brings along.


def test_a_crash_is_added_once_and_stored(tmp_path: Path) -> None:
    result = run(Plan(lock="redis-token", workload="crash", time_limit=12.0), store=tmp_path)
    assert result.folder is not None
    stored = load(result.folder / PLAN)
    assert [spec.fault for spec in stored.faults] == ["client-crash"]
    assert complete(stored) == stored
    assert len(result.history.nemesis("crash")) >= 2


def test_a_plan_with_a_crash_of_its_own_gets_no_other() -> None:
    own = FaultSpec("client-crash", on="acquire", nth=3)
    plan = Plan(lock="redis-token", workload="crash", faults=(own,))
    assert complete(plan).faults == (own,)
    other = FaultSpec("client-pause", at=1.0, for_=1.0)
    assert [spec.fault for spec in complete(msgspec.structs.replace(plan, faults=(other,))).faults] == [
        "client-pause",
        "client-crash",
    ]


class Overlapping(Mutex):
    """A workload of somebody's own, whose fault would strike again while it lasts."""

    name: ClassVar = "overlapping"
    schedule: ClassVar = ({"fault": "partition-clients", "every": "1 ttl", "for": "2 ttl"},)


class Misspelt(Mutex):
    """A workload whose schedule has a field that no fault has."""

    name: ClassVar = "misspelt"
    schedule: ClassVar = ({"fault": "client-crash", "evry": 2.0},)


@pytest.mark.parametrize(("name", "words"), [("Overlapping", "strike again"), ("Misspelt", "schedule of workload")])
def test_a_schedule_that_makes_no_sense_is_refused(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        complete(Plan(lock="redis-token", workload=f"{__name__}:{name}"))
