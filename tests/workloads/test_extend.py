"""The workload ``extend``: sections that the holder prolongs, some of them too late."""

from __future__ import annotations

import msgspec
import pytest

from harness.errors import UsageError
from harness.plan import FaultSpec, Plan
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import find_facts
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from harness.search.request import HuntRequest

LOCKS = "tests.workloads.extend_locks"
LOST = "An extend was confirmed although the lock was lost"
RIGHT = [f"{LOCKS}:Lock", f"{LOCKS}:AsyncExtends", f"{LOCKS}:WithArguments", "redis.lock:Lock", "redis-token"]
FOUND = [
    ("ExtendsAnyKey", "extend", LOST),
    ("TakesTheKeyBack", "extend", LOST),
    ("SetsAFreeKey", "extend", LOST),
    ("HidesTheLoss", "extend", LOST),
    ("AsyncHidesTheLoss", "extend", LOST),
    ("ProlongsNothing", "mutual-exclusion", "Two clients held k0 at the same time"),
    ("NeverExtends", "extend", "could not extend k0 although it held it"),
]
LIBRARIES = ("redis-py-asyncio-lock", "memcached-token", "pottery-redlock")


PAUSE = FaultSpec("client-pause", on="acquire", times=20, every=6.0, for_=4.0)


def run_extend(
    lock: str, kind: str = "", cluster: str = "sim", clients: int = 5, faults: tuple[FaultSpec, ...] = ()
) -> Result:
    plan = Plan(lock=lock, workload="extend", time_limit=30.0, kind=kind, cluster=cluster, clients=clients)
    return run(msgspec.structs.replace(plan, faults=faults))


@pytest.mark.few(1)
@pytest.mark.parametrize(("lock", "checker", "words"), FOUND)
def test_a_wrong_extend_is_found(lock: str, checker: str, words: str) -> None:
    result = run_extend(f"{LOCKS}:{lock}", clients=2)
    assert result.valid is False
    assert result.verdicts[checker].valid is False, result.verdicts[checker].explanation
    assert words in result.verdicts[checker].explanation


@pytest.mark.slow
def test_the_harm_is_in_the_summary() -> None:
    assert run_extend(f"{LOCKS}:HidesTheLoss").document["summary"].startswith(LOST)


@pytest.mark.slow
@pytest.mark.parametrize(("lock", "faults"), [("aioredlock", ()), ("etcd3-lock", ()), ("tooz-memcached", (PAUSE,))])
def test_libraries_that_extend_a_lock_that_another_client_has_had(lock: str, faults: tuple[FaultSpec, ...]) -> None:
    """aioredlock sets the key if nobody has it; python-etcd3 returns etcd's answer, that the lease is over, without an
    error; tooz prolongs the item of whoever has it."""
    result = run_extend(lock, clients=2, faults=faults)
    assert result.verdicts["extend"].valid is False, result.verdicts["extend"].explanation
    assert LOST in result.verdicts["extend"].explanation


@pytest.mark.slow
@pytest.mark.parametrize("lock", [*RIGHT, *(pytest.param(lock, marks=pytest.mark.slow) for lock in LIBRARIES)])
def test_a_right_extend_is_valid(lock: str) -> None:
    result = run_extend(lock)
    assert result.valid is True, result.document["summary"]
    assert result.document["checkers"]["extend"]["state"] == "kept"
    answers = {call.done and call.done.value["extended"] for call in result.history.calls("extend")}
    assert answers == {True, False}, "some extends come too late"


@pytest.mark.slow
def test_a_run_is_the_same_twice() -> None:
    one, two = (run_extend(f"{LOCKS}:AsyncExtends") for _ in range(2))
    assert list(one.history) == list(two.history)


@pytest.mark.parametrize("lock", ["redis-set-ex", f"{LOCKS}:NeedsMore", "tests.workloads.context_locks:Lock"])
def test_it_is_refused_for_a_lock_without_extend(lock: str) -> None:
    with pytest.raises(UsageError, match=r"workload 'extend' needs a lock that can prolong its lease"):
        complete(Plan(lock=lock, workload="extend"))


@pytest.mark.parametrize("lock", RIGHT)
def test_a_hunt_chooses_it_for_a_lock_with_extend(lock: str) -> None:
    assert "extend" in (find_facts(lock).methods or ())
    assert "extend" in HuntRequest(lock=lock).completed().workloads
