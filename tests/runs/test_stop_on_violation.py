"""A run that ends at its first violation: the history up to there, and the verdict of the whole run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.faults.catalogue import default_specs
from harness.history import Op
from harness.plan import Plan, decode, dump
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from tests.cli.commands import harness

JUMPS: tuple[str, str, dict[str, Any]] = ("redlock", "clock-jump", {})
RUNS: list[tuple[str, str, dict[str, Any]]] = [
    JUMPS,
    ("redis-token", "client-pause", {}),
    ("redis-setnx", "client-crash", {}),
    ("kazoo-read-write-lock", "client-pause", {"workload": "readers-writers"}),
    ("zookeeper-sequential", "none", {}),
    ("mysql-reentrant", "none", {"workload": "reentrant"}),
]


def both(lock: str, nemesis: str, more: dict[str, Any], seed: int) -> tuple[Result, Result]:
    """Return the result of a run that ends at its first violation, and of the whole run."""
    plan = Plan(lock=lock, seed=seed, time_limit=15.0, **more)
    plan = msgspec.structs.replace(plan, faults=tuple(default_specs(nemesis, plan.ttl)))
    return run(msgspec.structs.replace(plan, stop_on_violation=True)), run(plan)


def reason(result: Result) -> str:
    return str(result.history.nemesis("stop")[-1].value["reason"])


def check(lock: str, nemesis: str, more: dict[str, Any], seed: int) -> bool:
    """Check that a run is stopped if and only if it has two holders; return whether it has."""
    stopped, whole = both(lock, nemesis, more, seed)
    violated = whole.verdicts["mutual-exclusion"].valid is False
    assert (reason(stopped) == "violation") == violated, (lock, nemesis, seed)
    entries: list[Op] = list(stopped.history)
    if not violated:
        assert entries == list(whole.history)
        assert stopped.valid == whole.valid
        return False
    assert entries[:-1] == list(whole.history)[: len(entries) - 1], "it is the beginning of the whole run"
    (first, *_), (same, *_) = (one.verdicts["mutual-exclusion"].evidence for one in (stopped, whole))
    assert (first.key, first.from_ns) == (same.key, same.from_ns)
    assert stopped.valid is False
    return True


@pytest.mark.slow
def test_a_run_is_stopped_at_its_first_violation() -> None:
    assert check(*JUMPS, seed=0)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize(("lock", "nemesis", "more"), RUNS)
def test_a_run_is_stopped_if_and_only_if_it_has_two_holders(
    lock: str, nemesis: str, more: dict[str, Any], seed: int
) -> None:
    check(lock, nemesis, more, seed)


@pytest.mark.slow
def test_the_option_is_part_of_the_plan_and_of_its_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert harness("run", "redlock", "--nemesis", "clock-jump", "--stop-on-violation", "--quiet") == 1
    (folder,) = (path for path in Path("store/redlock").iterdir() if not path.is_symlink())
    assert "stop_on_violation = true" in (folder / "plan.toml").read_text()
    assert harness("replay", str(folder), "--quiet") == 1
    histories = [path.read_bytes() for path in Path("store/redlock").glob("*/history.jsonl")]
    assert len(histories) >= 2
    assert len(set(histories)) == 1
    plan = Plan(lock="redlock", stop_on_violation=True)
    assert decode(msgspec.to_builtins(plan)) == plan
    assert "stop_on_violation" not in dump(Plan(lock="redlock"))


@pytest.mark.docker
def test_a_run_on_containers_is_stopped_at_its_first_violation(tmp_path: Path) -> None:
    """Holds outlast their lease, so two clients soon hold the lock."""
    held = Plan(lock="redis-token", cluster="docker", clients=2, ttl=1.0, hold=1.5, time_limit=60.0)
    result = run(msgspec.structs.replace(held, stop_on_violation=True), store=tmp_path)
    assert (result.valid, reason(result)) == (False, "violation")
    assert result.verdicts["mutual-exclusion"].valid is False
    assert max(result.history.time) - result.history.origin < 50e9
    assert "frozen" not in result.document["cluster"]
