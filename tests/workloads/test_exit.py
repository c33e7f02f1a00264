"""The workload ``exit``: processes that end while they hold the lock."""

from __future__ import annotations

import re

import pytest

from harness.history import History
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from harness.search.request import HuntRequest
from harness.search.stories.story import story_of
from harness.search.trials import run_trial
from harness.worker.endings import ENDINGS

LOCKS = "tests.workloads.exit_locks"
STAYS = "The process of c"
FOUND = [
    ("RenewsForEver", "exit", "it waited for the thread renewer"),
    ("RenewsForEver", "liveness", "had ended while it held it"),
    ("RenewsInPool", "exit", STAYS),
    ("WaitsForRenewer", "exit", STAYS),
    ("ReleasesOnlyAtExit", "deadlock", "had ended while it held it"),
    ("AsyncIgnoresCancellation", "exit", STAYS),
]
RIGHT = ("RenewedLock", "StopsWithMainThread", "ReleasesAtExit", "AsyncRenewed")
SOUND = ("redis-token", "redis-py-lock", "redis-py-asyncio-lock", "zookeeper-ephemeral")
MORE_SOUND = (
    "etcd-mutex", "etcd3-lock", "python-redis-lock", "pottery-redlock", "redlock", "aioredlock", "coredis-lock",
    "huey-lock-task", "django-redis-lock", "sherlock-redis", "memcached-token", "mysql-get-lock", "kazoo-semaphore",
)  # fmt: skip


def run_exit(lock: str, cluster: str = "sim", faults: tuple[FaultSpec, ...] = (), seed: int = 0) -> Result:
    return run(Plan(lock=lock, workload="exit", time_limit=20.0, cluster=cluster, faults=faults, seed=seed))


@pytest.mark.few(1)
@pytest.mark.parametrize(("lock", "checker", "words"), FOUND)
def test_a_lock_that_keeps_its_process_or_its_key_is_found(lock: str, checker: str, words: str) -> None:
    result = run_exit(f"{LOCKS}:{lock}")
    assert result.valid is False
    assert result.verdicts[checker].valid is False, result.verdicts[checker].explanation
    assert words in result.verdicts[checker].explanation


@pytest.mark.slow
@pytest.mark.parametrize("lock", sorted({lock for lock, _, _ in FOUND}))
def test_the_usual_workload_does_not_find_it(lock: str) -> None:
    result = run(Plan(lock=f"{LOCKS}:{lock}", time_limit=10.0))
    assert result.valid is True, result.document["summary"]


@pytest.mark.slow
@pytest.mark.parametrize("lock", [*(f"{LOCKS}:{name}" for name in RIGHT), *SOUND])
def test_a_right_lock_is_valid(lock: str) -> None:
    result = run_exit(lock)
    assert result.valid is True, result.document["summary"]
    assert len(ways_of(result.history)) >= len(ENDINGS) - 1
    assert result.verdicts["exit"].stats["gone"] >= len(ENDINGS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lock", [*SOUND, *MORE_SOUND])
def test_a_sound_lock_is_valid(lock: str, seed: int) -> None:
    result = run_exit(lock, seed=seed)
    assert result.valid is True, result.document["summary"]


def ways_of(history: History) -> set[str]:
    return {op.value["by"] for op in history.nemesis("exit")}


def test_processes_that_exit_are_started_again() -> None:
    history = run_exit("redis-token").history
    exited = [(op.time, op.node) for op in history.nemesis("exited")]
    assert len(exited) > 5
    for time, host in exited[:-5]:
        assert any(op.time >= time and op.node == host and op.f == "acquire" for op in history)


def test_crashes_meanwhile_are_left_to_their_fault() -> None:
    crash = FaultSpec("client-crash", on="acquire", nth=2, times=20, every=1.0, for_=1.0, params={"restart": True})
    result = run_exit("redis-token", faults=(crash,))
    assert result.valid is True, result.document["summary"]
    assert {op.f for op in result.history.nemesis("exit", "exited", "crash")} == {"exit", "exited", "crash"}


@pytest.mark.slow
def test_a_run_is_the_same_twice() -> None:
    for lock in ("AsyncRenewed", "RenewsInPool"):
        one, two = (run_exit(f"{LOCKS}:{lock}") for _ in range(2))
        assert list(one.history) == list(two.history)


def test_a_hunt_chooses_it_for_every_lock() -> None:
    assert "exit" in HuntRequest(lock="redis-token").completed().workloads


@pytest.mark.docker
@pytest.mark.parametrize(
    ("lock", "valid"),
    [("redis-py-lock", True), ("etcd-mutex", True), ("redis-py-asyncio-lock", True), (f"{LOCKS}:RenewsForEver", False)],
)
def test_processes_in_containers_exit(lock: str, valid: bool) -> None:
    result = run_exit(lock, cluster="docker")
    assert result.valid is valid, result.document["summary"]
    if valid:
        assert len(ways_of(result.history)) >= 2  # a slow machine starts few processes in the time
        assert result.verdicts["exit"].stats["gone"] >= 2
    else:
        assert result.verdicts["exit"].valid is False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lock", "options", "release", "valid"),
    [
        ("python-redis-lock", {"auto_renewal": True}, "python-redis-lock==4.0.0", False),
        ("python-redis-lock", {"auto_renewal": True}, "python-redis-lock==4.0.1", True),
        ("portalocker-redis-lock", {}, "portalocker==3.2.0", False),
        ("portalocker-redis-lock", {}, "portalocker==4.4.2", True),
    ],
)
def test_releases_whose_renewer_keeps_a_dead_process(
    lock: str, options: dict[str, bool], release: str, valid: bool
) -> None:
    """ionelmc/python-redis-lock#116; portalocker 4.0.0 made its thread a daemon."""
    plan = Plan(lock=lock, workload="exit", time_limit=20.0, requires=(release,), lock_options=options)
    result = run(plan)
    assert result.valid is valid, result.document["summary"]
    if not valid:
        assert {"exit", "liveness"} <= {name for name, one in result.verdicts.items() if one.valid is False}


@pytest.mark.slow
def test_a_story_tells_how_the_process_ended() -> None:
    trial = run_trial(Plan(lock=f"{LOCKS}:RenewsForEver", workload="exit", clients=2, time_limit=10.0))
    one, two, end = story_of(trial, "liveness").story.lines()
    assert re.fullmatch(r"1\. At .* .* acquires k0 .* main thread ends by .*, and renewer goes on\.", one)
    assert "keeps requesting k0" in two
    assert end.startswith("Nobody holds k0")
