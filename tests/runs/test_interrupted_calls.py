"""Interrupted threads of clients: outcomes, verdicts, and the same bytes for the same seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import run
from harness.clusters.abilities.hosts import SECTION
from harness.errors import UsageError
from harness.history import History
from harness.plan import FaultSpec, Plan
from harness.run.plans.completion import complete
from harness.run.store import HISTORY
from harness.run.verdicts.judging import Result
from harness.search.stories.story import story_of
from harness.search.trials import run_trial

FAULT = "thread-interrupt"
LOCKS = f"{__package__}.interrupted_locks"
SOUND = f"{LOCKS}:TokenLock"
IN_SECTION: dict[str, Any] = {"on": "acquire", "params": {"where": "section"}}
BY_ALARM: dict[str, Any] = {"on": "request:SET", "params": {"by": "alarm"}}
WRONG = [
    ("GrantsWhenInterrupted", "mutex", {"on": "request:SET"}, "mutual-exclusion"),
    ("DeletesWhenInterrupted", "mutex", {"on": "request:SET"}, "keys"),
    ("ForgetsItsToken", "reuse", {"on": "release:invoke"}, "keys"),
    ("StaysWhenInterrupted", "context", IN_SECTION, "release"),
]


def plan_of(lock: str, workload: str = "mutex", **schedule: Any) -> Plan:
    spec = FaultSpec(FAULT, **{"nth": 3, "times": 10, "every": 0.5, **schedule})
    return Plan(lock=lock, workload=workload, clients=3, ttl=8.0, time_limit=15.0, faults=(spec,))


def interrupted(lock: str, workload: str = "mutex", store: Path | None = None, **schedule: Any) -> Result:
    return run(plan_of(lock, workload, **schedule), store=store)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("workload", "schedule"),
    [
        ("mutex", {"on": "acquire:invoke"}),
        ("reuse", {"on": "release:invoke"}),
        ("context", IN_SECTION),
        pytest.param("mutex", {"on": "reply:SET"}, marks=pytest.mark.slow),
        pytest.param("mutex", IN_SECTION, marks=pytest.mark.slow),
        pytest.param("mutex", BY_ALARM, marks=pytest.mark.slow),
        pytest.param("reuse", BY_ALARM, marks=pytest.mark.slow),
        pytest.param("context", {"on": "request:SET"}, marks=pytest.mark.slow),
        pytest.param("context", {"on": "release:invoke"}, marks=pytest.mark.slow),
    ],
)
def test_a_sound_lock_breaks_no_property_when_it_is_interrupted(workload: str, schedule: dict[str, Any]) -> None:
    result = interrupted(SOUND, workload, **schedule)
    assert [name for name, verdict in result.verdicts.items() if verdict.valid is False] == []
    assert result.verdicts["faults"].valid is True, result.verdicts["faults"].explanation


@pytest.mark.few(1)
@pytest.mark.parametrize(("lock", "workload", "schedule", "checker"), WRONG)
def test_a_lock_that_is_wrong_when_it_is_interrupted_breaks_a_property(
    lock: str, workload: str, schedule: dict[str, Any], checker: str, tmp_path: Path
) -> None:
    result = interrupted(f"{LOCKS}:{lock}", workload, tmp_path, **schedule)
    assert result.verdicts[checker].valid is False, result.reason


@pytest.mark.parametrize(
    ("lock", "workload"), [WRONG[-1][:2], *(pytest.param(*case[:2], marks=pytest.mark.slow) for case in WRONG[:-1])]
)
def test_without_the_fault_it_breaks_none(lock: str, workload: str) -> None:
    result = run(Plan(lock=f"{LOCKS}:{lock}", workload=workload, clients=3, ttl=8.0, time_limit=8.0))
    assert [name for name, verdict in result.verdicts.items() if verdict.valid is False] == []


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("schedule", "error"), [({"on": "request:SET"}, "ThreadInterrupted"), (BY_ALARM, "AlarmRaised")]
)
def test_an_interrupted_call_has_an_unknown_outcome_and_the_same_seed_gives_the_same_bytes(
    schedule: dict[str, Any], error: str, tmp_path: Path
) -> None:
    folders = [interrupted(SOUND, store=tmp_path, **schedule).folder for _ in range(2)]
    first, second = ((folder or tmp_path) / HISTORY for folder in folders)
    assert first.read_bytes() == second.read_bytes()
    unknown = [op for op in History.load(first) if op.type == "info" and error in (op.error or "")]
    assert unknown
    assert {op.f for op in unknown} == {"acquire"}


@pytest.mark.slow
def test_an_interrupted_section_releases_the_lock_at_once() -> None:
    result = interrupted(SOUND, **IN_SECTION)
    struck = [op for op in result.history.nemesis("inject") if op.type == "ok"]
    assert struck
    for op in struck:
        [(client, call)] = op.value["observed"]["calls"].items()
        assert call["method"] == SECTION
        mine = [it for it in result.history if it.node == client and it.type == "invoke" and it.time >= call["at_ns"]]
        assert (mine[0].f, mine[0].time) == ("release", call["at_ns"])


@pytest.mark.slow
def test_a_story_says_in_which_call_the_thread_was_interrupted() -> None:
    plan = plan_of(f"{LOCKS}:DeletesWhenInterrupted", on="request:SET", client=1, nth=1, times=1)
    steps = story_of(run_trial(plan), "keys").story.steps
    assert "c1's acquire is interrupted after its SET was sent" in [step.text for step in steps]


def test_a_lock_with_coroutines_is_refused() -> None:
    with pytest.raises(UsageError, match="methods are no coroutines, and those of redis-py-asyncio-lock are"):
        interrupted("redis-py-asyncio-lock", on="acquire:invoke")


def test_containers_are_refused() -> None:
    plan = Plan(lock="redis-token", cluster="docker", faults=(FaultSpec(FAULT, on="acquire:invoke"),))
    with pytest.raises(UsageError, match="interrupt"):
        complete(plan)
