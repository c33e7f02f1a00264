"""Cancelled calls of asyncio locks: outcomes, verdicts, and the same bytes for the same seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import run
from harness.clusters.abilities.hosts import SECTION
from harness.errors import UsageError
from harness.history import History
from harness.plan import FaultSpec, Plan
from harness.run.store import HISTORY
from harness.run.verdicts.judging import Result

FAULT = "task-cancel"
SOUND = f"{__package__}.asyncio_locks:TokenLock"
MUTANTS = f"{__package__}.cancelled_locks"


def cancelled(lock: str, on: str, store: Path | None = None, **schedule: Any) -> Result:
    spec = FaultSpec(FAULT, on=on, **{"nth": 3, "times": 4, "every": 1.0, **schedule})
    return run(Plan(lock=lock, clients=3, time_limit=15.0, faults=(spec,)), store=store)


@pytest.mark.few(1)
@pytest.mark.parametrize("on", ["acquire:invoke", "request:SET", "reply:SET", "release:invoke", "acquire"])
def test_a_sound_lock_breaks_no_property_when_its_calls_are_cancelled(on: str) -> None:
    result = cancelled(SOUND, on)
    assert [name for name, verdict in result.verdicts.items() if verdict.valid is False] == []
    assert result.verdicts["faults"].valid is True, result.verdicts["faults"].explanation


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("on", "call"), [("request:SET", "acquire"), ("reply:SET", "acquire"), ("request:EVAL", "release")]
)
def test_a_cancelled_call_has_an_unknown_outcome_and_the_same_seed_gives_the_same_bytes(
    on: str, call: str, tmp_path: Path
) -> None:
    folders = [cancelled(SOUND, on, tmp_path).folder for _ in range(2)]
    first, second = ((folder or tmp_path) / HISTORY for folder in folders)
    assert first.read_bytes() == second.read_bytes()
    unknown = [op for op in History.load(first) if op.type == "info" and "CallCancelled" in (op.error or "")]
    assert unknown
    assert {op.f for op in unknown} == {call}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("lock", "on"),
    [
        ("WithoutLease", "request:SET"),
        ("GrantsWhenCancelled", "acquire:invoke"),
        ("DeletesWhenCancelled", "request:SET"),
    ],
)
def test_a_lock_that_is_wrong_under_cancellation_breaks_a_property(lock: str, on: str) -> None:
    result = cancelled(f"{MUTANTS}:{lock}", on, times=10, every=0.5)
    assert result.valid is False, result.reason


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["WithoutLease", "GrantsWhenCancelled", "DeletesWhenCancelled"])
def test_without_the_fault_it_breaks_none(lock: str) -> None:
    result = run(Plan(lock=f"{MUTANTS}:{lock}", clients=3, time_limit=15.0))
    assert [name for name, verdict in result.verdicts.items() if verdict.valid is False] == []


def test_a_lock_with_plain_methods_is_refused() -> None:
    with pytest.raises(UsageError, match="methods are coroutines, and those of redis-token are not"):
        cancelled("redis-token", "acquire:invoke")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "call"),
    [
        ({"at": 0.0, "client": None}, "acquire"),
        ({"on": "acquire", "client": 1}, "release"),
    ],
    ids=["before the lock is opened", "long critical section"],
)
def test_a_cancellation_waits_for_the_next_call(schedule: dict[str, Any], call: str) -> None:
    client = 1 if "on" in schedule else None
    spec = FaultSpec(FAULT, **{**schedule, "client": client}, params={"target": "c1"})
    result = run(Plan(lock=SOUND, clients=2, ttl=8.0, hold=6.0, time_limit=40.0, faults=(spec,)))
    assert result.verdicts["faults"].valid is True, result.verdicts["faults"].explanation
    [confirmed] = [op for op in result.history.nemesis("inject") if op.type == "ok"]
    struck = confirmed.value["observed"]["calls"]["c1"]
    assert struck["method"] == call
    [began] = [op.time for op in result.history if op.f == call and op.type == "invoke" and op.node == "c1"][:1]
    ended = next(op.time for op in result.history if op.f == call and op.type != "invoke" and op.node == "c1")
    assert began <= struck["at_ns"] <= ended


@pytest.mark.slow
def test_the_verdict_on_keys_is_the_same_for_a_run_that_is_not_stored(tmp_path: Path) -> None:
    spec = FaultSpec(FAULT, on="request:SET", client=1)
    plan = Plan(lock=f"{MUTANTS}:DeletesWhenCancelled", clients=2, ttl=8.0, hold=1.0, time_limit=12.0, faults=(spec,))
    stored, unstored = run(plan, store=tmp_path), run(plan)
    assert stored.verdicts["keys"].valid is False, stored.verdicts["keys"].explanation
    assert unstored.verdicts["keys"] == stored.verdicts["keys"]


def in_sections(lock: str, workload: str) -> Result:
    spec = FaultSpec(FAULT, on="acquire", nth=3, times=4, every=1.0, params={"where": "section"})
    return run(Plan(lock=lock, workload=workload, clients=3, time_limit=15.0, faults=(spec,)))


@pytest.mark.slow
@pytest.mark.parametrize(("lock", "workload"), [(SOUND, "mutex"), (f"{MUTANTS}:ContextLock", "context")])
def test_a_sound_lock_breaks_no_property_when_critical_sections_are_cancelled(lock: str, workload: str) -> None:
    result = in_sections(lock, workload)
    assert result.valid is True, result.reason
    confirmed = [op for op in result.history.nemesis("inject") if op.type == "ok"]
    assert {call["method"] for op in confirmed for call in op.value["observed"]["calls"].values()} == {SECTION}


def test_a_cancelled_section_makes_no_further_access_and_releases_the_lock() -> None:
    result = in_sections(SOUND, "mutex")
    struck = [op for op in result.history.nemesis("inject") if op.type == "ok"]
    for op in struck:
        [(client, call)] = op.value["observed"]["calls"].items()
        mine = [it for it in result.history if it.node == client and it.type == "invoke" and it.time >= call["at_ns"]]
        assert (mine[0].f, mine[0].time) == ("release", call["at_ns"])


@pytest.mark.slow
def test_a_body_that_keeps_the_lock_when_it_is_cancelled_is_found() -> None:
    result = in_sections(f"{MUTANTS}:StaysWhenCancelled", "context")
    assert result.verdicts["release"].valid is False, result.reason
    without = run(Plan(lock=f"{MUTANTS}:StaysWhenCancelled", workload="context", clients=3, time_limit=15.0))
    assert without.verdicts["release"].valid is not False
