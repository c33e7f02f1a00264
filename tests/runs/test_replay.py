"""``harness replay``: output, exit statuses, and when it replays by triggers.

The simulator stands for the containers here; :mod:`tests.runs.test_replay_docker` uses real ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.cli import replay as replay_cli
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from tests.cli.commands import harness

FILE = """
lock = "redis-token"
clients = 2
hold = "500ms"
stagger = "300ms"
time_limit = "5s"
[[faults]]
fault = "client-pause"
at = "200ms"
for = "3s"
params = {target = "c0"}
"""
SIMULATED = 'workload = "reuse"\n' + FILE.replace("client-pause", "thread-interrupt").replace('for = "3s"\n', "")
"""A thread can be interrupted on the simulator only."""
UNSAFE = '[expect]\nsafe = false\ninvalid = ["mutual-exclusion"]\n'
NOTE = "by triggers: client-pause strikes 0.198 s after c0's read, not at 0.2 s"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("counterexample.toml").write_text(FILE + UNSAFE)


class Containers:
    """Runs on the simulator, without a report, what docker would run. Each try uses the given faults in place of
    the plan's."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.faults: list[tuple[FaultSpec, ...]] = []
        self.reasons: list[str] = []

    def __call__(self, plan: Plan, out: Path, command: str, reason: str, **_: Any) -> Result:
        self.reasons.append(reason)
        if plan.cluster == "docker":
            self.plans.append(plan)
            faults = self.faults.pop(0) if self.faults else plan.faults
            plan = msgspec.structs.replace(plan, cluster="sim", faults=faults)
        return run(plan, store=out, command=command, reason=reason)


@pytest.fixture(autouse=True)
def containers(monkeypatch: pytest.MonkeyPatch) -> Containers:
    executed = Containers()
    monkeypatch.setattr(replay_cli, "run_and_print", executed)
    return executed


# On the simulator.


@pytest.mark.slow
def test_a_replayed_run_is_reported_to_be_the_same_byte_for_byte(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("replay", "counterexample.toml") == 1
    assert "replay:" not in capsys.readouterr().out, "there is nothing to hold it against"
    stored = Path("store/latest").resolve()
    assert harness("replay", str(stored)) == 1
    assert capsys.readouterr().out.endswith("replay: the same history, byte for byte\n")
    assert harness("replay", str(stored / "plan.toml"), "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["replayed"] == {"same": True, "said": "the same history, byte for byte"}
    assert harness("replay", str(stored), "--quiet") == 1
    assert capsys.readouterr().out == "VIOLATION\n"


@pytest.mark.slow
def test_a_different_history_is_reported_with_the_first_difference(capsys: pytest.CaptureFixture[str]) -> None:
    harness("replay", "counterexample.toml", "--quiet")
    stored = Path("store/latest").resolve()
    lines = (stored / "history.jsonl").read_bytes().splitlines(keepends=True)
    changed = lines[3].replace(b'"c0"', b'"c1"')
    assert changed != lines[3]
    (stored / "history.jsonl").write_bytes(b"".join([*lines[:3], changed, *lines[4:]]))
    capsys.readouterr()
    assert harness("replay", str(stored)) == 1
    assert "replay: differs from the stored history at entry 3: stored: {" in capsys.readouterr().out
    (stored / "history.jsonl").write_bytes(b"".join(lines[:-1]))
    assert harness("replay", str(stored), "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["replayed"]["entry"] == len(lines) - 1
    assert "stored: nothing; now: {" in document["replayed"]["said"]
    (stored / "history.jsonl").write_bytes(b"rubbish\n")
    assert harness("replay", str(stored)) == 1
    assert "replay: the stored history cannot be compared: " in capsys.readouterr().out


@pytest.mark.slow
def test_a_finding_folder_is_replayed_from_its_counterexample(capsys: pytest.CaptureFixture[str]) -> None:
    harness("replay", "counterexample.toml", "--quiet")
    finding = Path("finding")
    finding.mkdir()
    shutil.copy("counterexample.toml", finding)
    shutil.copy("store/latest/history.jsonl", finding)
    for given in (finding, finding / "counterexample.toml"):
        assert harness("replay", str(given)) == 1
        assert "replay: the same history, byte for byte" in capsys.readouterr().out
    capsys.readouterr()
    assert harness("replay", "nowhere") == 2
    assert "cannot read the plan nowhere" in capsys.readouterr().err
    Path("nothing").mkdir()
    assert harness("replay", "nothing") == 2
    message = "nothing: expected the folder of a run, but it has no plan.toml and no counterexample.toml"
    assert message in capsys.readouterr().err


def test_auto_without_an_engine_replays_on_the_simulator(
    containers: Containers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness("replay", "counterexample.toml", "--cluster", "auto") == 1
    assert containers.plans == []
    assert containers.reasons == ["no Docker engine answers"]
    assert "by triggers" not in capsys.readouterr().err


@pytest.mark.slow
def test_auto_with_an_engine_replays_by_triggers_if_docker_supports_the_plan(
    containers: Containers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_cli, "no_engine", lambda: "")
    assert harness("replay", "counterexample.toml", "--cluster", "auto") == 1
    [executed] = containers.plans
    assert executed.faults[0].on == "read"
    Path("simulated.toml").write_text(SIMULATED + UNSAFE)
    harness("replay", "simulated.toml", "--cluster", "auto")
    assert containers.plans == [executed]


# On containers.


def test_a_failure_of_the_simulator_is_reproduced_by_triggers(
    containers: Containers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness("replay", "counterexample.toml", "--cluster", "docker") == 1
    said = capsys.readouterr()
    assert said.err == f"{NOTE}\n"
    assert "VIOLATION: redis-token" in said.out
    assert said.out.endswith("replay: reproduced at try 1: mutual-exclusion violated, as on the simulator\n")
    [executed] = containers.plans
    assert (executed.cluster, executed.faults[0].on, executed.faults[0].at) == ("docker", "read", None)
    assert harness("replay", "counterexample.toml", "--cluster", "docker", "--quiet") == 1
    assert capsys.readouterr().out == "REPRODUCED\n"


@pytest.mark.slow
def test_failed_tries_are_repeated_and_report_where_they_diverged(
    containers: Containers, capsys: pytest.CaptureFixture[str]
) -> None:
    short = FaultSpec("client-pause", on="read", client=1, for_=0.1)
    containers.faults = [(short,)]
    assert harness("replay", "counterexample.toml", "--cluster", "docker", "--json") == 1
    replayed = json.loads(capsys.readouterr().out)["replayed"]
    assert (replayed["reproduced"], replayed["tries"], replayed["parted"]) == (True, 2, None)
    assert replayed["notes"] == [NOTE.removeprefix("by triggers: ")]
    assert replayed["simulated"] == {"violated": ["mutual-exclusion", "resource"], "expected": ["mutual-exclusion"]}
    containers.faults = [(short,), (short,)]
    assert harness("replay", "counterexample.toml", "--cluster", "docker", "--tries", "2") == 0
    said = capsys.readouterr()
    where = "On the simulator client-pause struck c0 at 0.200 s (step 3); here client-pause struck c1 (at "
    assert [line[: len(where) + 7] for line in said.err.splitlines()[1:]] == [f"try {n}: {where}" for n in (1, 2)]
    assert f"replay: not reproduced in 2 tries; it diverged from the simulation: {where}" in said.out
    assert "VALID: redis-token" in said.out


@pytest.mark.slow
def test_tries_whose_fault_never_struck_give_unknown(
    containers: Containers, capsys: pytest.CaptureFixture[str]
) -> None:
    never = FaultSpec("client-pause", on="read", client=0, nth=999)
    containers.faults = [(never,)]
    assert harness("replay", "counterexample.toml", "--cluster", "docker", "--tries", "1", "--json") == 3
    replayed = json.loads(capsys.readouterr().out)["replayed"]
    assert replayed["reproduced"] is None
    expected = "unknown after 1 try: no run was conclusive; the last diverged: On the simulator"
    assert replayed["said"].startswith(expected)
    assert replayed["parted"]["step"] == 3
    containers.faults = [(never,)]
    assert harness("replay", "counterexample.toml", "--cluster", "docker", "--tries", "1", "--quiet") == 3
    assert capsys.readouterr().out == "UNKNOWN\n"


def test_a_stored_violation_is_repeated_by_triggers(containers: Containers, capsys: pytest.CaptureFixture[str]) -> None:
    Path("plan.toml").write_text(FILE)
    assert harness("replay", "plan.toml", "--quiet") == 1
    assert harness("replay", str(Path("store/latest").resolve()), "--cluster", "docker") == 1
    assert "replay: reproduced at try 1: mutual-exclusion, resource violated" in capsys.readouterr().out


@pytest.mark.few(1)
@pytest.mark.parametrize("change", ["no expect", "safe", "on docker", "docker only"])
def test_a_plan_without_an_expected_failure_is_run_unchanged(
    change: str, containers: Containers, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {
        "no expect": FILE,
        "safe": FILE + "[expect]\nsafe = true\n",
        "on docker": 'cluster = "docker"\n' + FILE + UNSAFE,
        "docker only": 'runs_on = ["docker"]\n' + FILE + UNSAFE,
    }
    Path("plan.toml").write_text(texts[change])
    assert harness("replay", "plan.toml", "--cluster", "docker") == 1
    assert "replay:" not in capsys.readouterr().out
    assert [spec.at for spec in containers.plans[0].faults] == [0.2]


def test_a_plan_whose_failure_no_longer_occurs_is_run_unchanged(containers: Containers) -> None:
    Path("plan.toml").write_text(FILE + UNSAFE.replace("mutual-exclusion", "deadlock"))
    assert harness("replay", "plan.toml", "--cluster", "docker") == 1
    assert [spec.at for spec in containers.plans[0].faults] == [0.2]


def test_zero_tries_and_plans_for_the_simulator_alone_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("replay", "counterexample.toml", "--tries", "0") == 2
    assert "tries must be at least 1, got 0" in capsys.readouterr().err
    Path("simulated.toml").write_text(SIMULATED + UNSAFE)
    assert harness("replay", "simulated.toml", "--cluster", "docker") == 2
    assert "redis-single on docker cannot do; --cluster sim can" in capsys.readouterr().err
