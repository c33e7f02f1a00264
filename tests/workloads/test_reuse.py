"""The workload ``reuse``: objects of a lock that are released twice, after a failed acquire, and after an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from harness.search.request import HuntRequest

LOCKS = "tests.workloads.reuse_locks"
RIGHT = "tests.workloads.context_locks"
CANCELLED = FaultSpec("task-cancel", on="release:invoke", nth=1, times=20, every=0.5)
FOUND = [
    ("FreesAnybodysKey", "keys", "removed k0 on the server while c"),
    ("FreesAnybodysKey", "mutual-exclusion", "Two clients held k0 at the same time"),
    ("FreesAfterTimeout", "mutual-exclusion", "Two clients held k0 at the same time"),
    ("BreaksAfterRefusal", "liveness", "No client got k0"),
]


def run_reuse(lock: str, faults: tuple[FaultSpec, ...] = (), store: Path | None = None) -> Result:
    plan = Plan(lock=lock, workload="reuse", time_limit=15.0, clients=3, ttl=8.0, faults=faults)
    return run(plan, store=store)


@pytest.mark.few(1)
@pytest.mark.parametrize(("lock", "checker", "words"), FOUND)
def test_a_wrong_use_of_the_object_is_found(lock: str, checker: str, words: str) -> None:
    result = run_reuse(f"{LOCKS}:{lock}")
    assert result.valid is False
    assert result.verdicts[checker].valid is False, result.verdicts[checker].explanation
    assert words in result.verdicts[checker].explanation


@pytest.mark.slow
def test_a_cancelled_release_that_loses_the_token_is_found(tmp_path: Path) -> None:
    result = run_reuse(f"{LOCKS}:AsyncForgetsItsToken", faults=(CANCELLED,), store=tmp_path)
    assert result.valid is False
    assert [violation.kind for violation in result.verdicts["keys"].evidence][:1] == ["token-lost"]
    assert "could not release k0 after a release had failed, and kept it for" in result.document["summary"]


@pytest.mark.slow
def test_a_cancelled_release_that_keeps_the_token_is_valid(tmp_path: Path) -> None:
    result = run_reuse(f"{LOCKS}:AsyncKeepsItsToken", faults=(CANCELLED,), store=tmp_path)
    assert result.verdicts["keys"].applies
    assert result.valid is True, result.document["summary"]
    assert {call.outcome for call in result.history.calls("release")} == {"ok", "fail", "info"}


@pytest.mark.slow
@pytest.mark.parametrize("lock", [f"{RIGHT}:Lock", f"{RIGHT}:AsyncLock", "redis-token", "zookeeper-ephemeral"])
def test_a_right_lock_is_valid(lock: str) -> None:
    result = run_reuse(lock)
    assert result.valid is True, result.document["summary"]
    assert {call.outcome for call in result.history.calls("release")} == {"ok", "fail"}, "some release nothing"


@pytest.mark.slow
def test_a_second_release_may_return_if_it_changes_nothing() -> None:
    result = run_reuse(f"{LOCKS}:ReleasesNothing")
    assert result.valid is True, result.document["summary"]
    idle = [call for call in result.history.calls("release") if (call.invoke.value or {}).get("idle")]
    assert {call.outcome for call in idle} == {"ok"}


@pytest.mark.slow
def test_a_run_is_the_same_twice() -> None:
    one, two = (run_reuse(f"{LOCKS}:AsyncKeepsItsToken", faults=(CANCELLED,)) for _ in range(2))
    assert list(one.history) == list(two.history)


@pytest.mark.parametrize("lock", ["redis-set-ex", f"{RIGHT}:AsyncLock"])
def test_a_hunt_chooses_it_for_every_lock(lock: str) -> None:
    assert "reuse" in HuntRequest(lock=lock).completed().workloads
