"""Faults of a user's servers by commands of the user: plans, the commands themselves, and runs on real servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import FaultSpec, Plan, run
from harness.cli.main import main
from harness.cli.run import faults_named
from harness.clusters.servers.hooks import HookCommands, HookRunner, run_command
from harness.errors import MISSING, UNKNOWN, USAGE, VIOLATION, UsageError
from harness.plan import Hook, code_in, decode, dump, load, refuse_untrusted
from harness.plan.project import project_hooks
from harness.run.plans.completion import complete
from harness.run.verdicts.judging import Result

from .own_redis import DaemonRedis, daemon_redis, wait_for

ONE = ("redis://127.0.0.1:6379",)
HOOK = Hook(command="true", observe="date", heal="true")


def servers_plan(**more: Any) -> Plan:
    return Plan(**{"lock": "redis-token", "cluster": "servers", "servers": ONE, **more}).check()


# Plans.


def test_a_fault_with_a_hook_is_possible() -> None:
    spec = FaultSpec("failover", at=1.0, for_=1.0)
    plan = complete(servers_plan(faults=(spec,), hooks={"failover": HOOK}))
    assert plan.hooks == {"failover": HOOK}
    with pytest.raises(UsageError, match=r"\[tool.harness.hooks.failover\] in pyproject.toml, with command = "):
        complete(servers_plan(faults=(spec,)))
    with pytest.raises(UsageError, match=r"possible are black-hole, .*, kill, .*; or let commands of yours do it"):
        complete(servers_plan(faults=(spec,), hooks={"kill": HOOK}))


def test_a_moved_clock_has_no_hook() -> None:
    with pytest.raises(UsageError) as refused:
        complete(servers_plan(faults=(FaultSpec("clock-jump", at=1.0),)))
    assert "hooks" not in str(refused.value)


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        ({"client-pause": HOOK}, "hooks.client-pause: a hook is for a fault of servers"),
        ({"clock-jump": HOOK}, "hooks.clock-jump: a hook is for a fault of servers, and not of their clocks"),
        ({"failovr": HOOK}, "did you mean failover"),
    ],
)
def test_a_hook_of_another_fault_is_refused(hooks: dict[str, Hook], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        complete(servers_plan(hooks=hooks))


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ({"command": "true"}, "hooks.kill: Object missing required field observe"),
        ({"command": " ", "observe": "date"}, "hooks.kill.command must be a shell command"),
        ({"command": "true", "observe": "date", "heel": "true"}, "unknown key in hooks.kill .heel.: did you mean heal"),
        ({"command": "true", "observe": "date", "heal_within": 0}, "hooks.kill.heal_within must be more than 0"),
        ({"command": "true", "observe": "date", "heal_within": "1 week"}, "heal_within: expected a duration"),
    ],
)  # fmt: skip
def test_a_wrong_hook_is_refused(hook: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        decode({"lock": "redis-token", "cluster": "servers", "servers": list(ONE), "hooks": {"kill": hook}})


def test_hooks_need_servers_of_the_user() -> None:
    with pytest.raises(UsageError, match="hooks go with cluster = 'servers'"):
        Plan(lock="redis-token", hooks={"kill": HOOK}).check()


def test_a_plan_keeps_its_hooks(tmp_path: Path) -> None:
    plan = servers_plan(hooks={"kill": msgspec.structs.replace(HOOK, heal_within=2.5)})
    (tmp_path / "plan.toml").write_text(dump(plan))
    assert load(tmp_path / "plan.toml") == plan


def test_commands_of_a_stored_plan_need_permission() -> None:
    plan = servers_plan(hooks={"kill": Hook(command="rm -rf /srv", observe="ls", heal="")})
    assert code_in(plan) == {"rm -rf /srv": "hook command", "ls": "hook command"}
    with pytest.raises(UsageError, match=r"hook command rm -rf /srv, .*--allow 'rm -rf /srv' --allow ls"):
        refuse_untrusted(plan, "plan.toml", ())
    refuse_untrusted(plan, "plan.toml", ("rm -rf /srv", "ls"))
    refuse_untrusted(plan, "plan.toml", (), hooks=True)
    with pytest.raises(UsageError, match="hook command ls"):
        refuse_untrusted(plan, "plan.toml", ("rm -rf /srv",))


def test_a_hook_replaces_the_faults_that_its_fault_brings_along() -> None:
    names = [spec.fault for spec in faults_named("failover,latency", 2.0, {"failover": HOOK})]
    assert names == ["failover", "latency"]
    both = {"failover": HOOK, "partition-replicas": HOOK}
    assert [spec.fault for spec in faults_named("failover", 2.0, both)] == ["failover", "partition-replicas"]
    assert [spec.fault for spec in faults_named("failover", 2.0)] == ["failover", "partition-replicas"]


# Commands.


def commands(command: str, observe: str, heal: str = "", within: float = 20.0) -> HookCommands:
    return HookCommands(
        command=command, observe=observe, heal=heal,
        command_within=within, observe_within=min(within, 1.0), heal_within=within,
    )  # fmt: skip


def runner(hook: HookCommands) -> HookRunner:
    found = HookRunner({"kill": hook}, ["n1", "n2"], {"n1": "127.0.0.1:7001", "n2": "127.0.0.1:7002"}.__getitem__)
    found.prepare()
    return found


def strike(hook: HookCommands) -> tuple[str, dict[str, Any]]:
    return runner(hook).strike("kill", ["n1", "n2"], {}).observe(threading.Event())


def test_a_state_that_changes_confirms_the_fault(tmp_path: Path) -> None:
    problem, facts = strike(commands(f"echo down >{tmp_path}/state; echo done", f"cat {tmp_path}/state || true"))
    assert problem == ""
    assert facts["command"] == {"status": 0, "output": "done", "seconds": facts["command"]["seconds"]}
    assert facts["after"]["output"] == "down"


def test_a_command_without_effect_confirms_nothing() -> None:
    problem, facts = strike(commands("true", "echo up"))
    assert problem == "another output or exit status of the observation within 1 s"
    assert (facts["before"]["output"], facts["after"]["output"]) == ("up", "up")


def test_observations_of_other_servers_are_not_compared_with_those_at_the_start(tmp_path: Path) -> None:
    hooks = runner(commands(f"touch {tmp_path}/down", f"echo $HARNESS_HOSTS $HARNESS_ADDRESSES; ls {tmp_path}"))
    problem, facts = hooks.strike("kill", ["n2"], {}).observe(threading.Event())
    assert problem == ""
    assert facts["before"]["output"] == "n2 127.0.0.1:7002"


def test_an_exit_status_is_a_part_of_the_state(tmp_path: Path) -> None:
    assert strike(commands(f"touch {tmp_path}/down", f"test ! -e {tmp_path}/down"))[0] == ""


@pytest.mark.slow
@pytest.mark.parametrize("failure", ["exit 127", "sleep 600"])
def test_an_observation_that_fails_after_the_command_confirms_nothing(tmp_path: Path, failure: str) -> None:
    problem, facts = strike(commands(f"touch {tmp_path}/down", f"test ! -e {tmp_path}/down || {failure}; echo up"))
    assert problem == "another output or exit status of the observation within 1 s"
    assert facts["after"]["status"] in (127, None)


def fails_at(look: int, tmp_path: Path) -> str:
    """Return an observation whose given repetition cannot run."""
    return f"cd {tmp_path}; echo >>looks; test $(wc -l <looks) != {look} || exit 127; ls | grep down || echo up"


def test_an_observation_that_fails_before_the_command_confirms_nothing(tmp_path: Path) -> None:
    problem, facts = strike(replace(commands("true", fails_at(2, tmp_path)), observe_within=60.0))
    assert problem == "an observation before the command that can run within 60 s"
    assert facts["before"]["status"] == 127


def test_an_observation_that_fails_after_the_command_is_repeated(tmp_path: Path) -> None:
    hook = commands(f"touch {tmp_path}/down", fails_at(3, tmp_path))
    problem, facts = strike(replace(hook, observe_within=60.0))
    assert problem == ""
    assert facts["after"]["output"] == "down"


def test_an_observation_that_changes_by_itself_confirms_nothing() -> None:
    assert strike(commands("true", "date +%N"))[0] == "an observation that stays the same until the fault strikes"


def test_a_command_that_fails_confirms_nothing(tmp_path: Path) -> None:
    problem, facts = strike(commands(f"touch {tmp_path}/down; echo no such host >&2; exit 3", f"ls {tmp_path}"))
    assert problem == "the command to exit with 0 within 20 s"
    assert facts["command"]["status"] == 3
    assert facts["command"]["output"] == "no such host"


def test_a_command_is_killed_with_its_children_at_its_time_limit(tmp_path: Path) -> None:
    found = run_command(f"(sleep 600 & echo $! >{tmp_path}/child; wait)", 1.0, {})
    assert found.status is None
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 60
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_program_in_the_background_does_not_delay_a_command() -> None:
    found = run_command("sleep 600 & echo $!", 60.0, {})
    os.kill(int(found.output), 9)
    assert found.seconds < 60.0
    assert found.status == 0


def test_commands_know_the_servers_to_strike(tmp_path: Path) -> None:
    hooks = runner(commands(f'echo "$HARNESS_FAULT $HARNESS_HOSTS $HARNESS_ADDRESSES" >{tmp_path}/x', f"ls {tmp_path}"))
    hooks.strike("kill", ["n1", "n2"], {}).observe(threading.Event())
    assert (tmp_path / "x").read_text() == "kill n1 n2 127.0.0.1:7001 127.0.0.1:7002\n"


def test_an_observation_that_cannot_run_is_refused() -> None:
    with pytest.raises(UsageError, match=r"hooks\.kill\.observe ends with 127 before the fault: .*not found"):
        runner(commands("true", "no-such-program-of-ours"))


def test_a_fault_is_healed_once_also_if_the_run_is_cut_short(tmp_path: Path) -> None:
    hooks = runner(commands("true", "true", f"echo healed >>{tmp_path}/log"))
    first, second = (hooks.strike("kill", ["n1"], {}) for _ in range(2))
    first.heal()
    first.heal()
    assert hooks.finish() == []
    assert second.healed()[1]["heal"]["status"] == 0
    assert (tmp_path / "log").read_text() == "healed\n" * 2


def test_a_heal_that_fails_is_named() -> None:
    hooks = runner(commands("true", "true", "echo gone; exit 5"))
    hooks.strike("kill", ["n1"], {})
    assert hooks.finish() == ["expected the heal command to exit with 0 within 20 s, got 5: gone"]


# Runs.


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[DaemonRedis]:
    (tmp_path / "data").mkdir()
    with daemon_redis(tmp_path / "data") as server:
        yield server


RESTART = FaultSpec("kill-amnesia", on="acquire", for_=1.0)


def run_with_hook(redis: DaemonRedis, tmp_path: Path, hook: Hook, **more: Any) -> Result:
    """Run a lock on a server that is restarted at the first acquire. The holds are longer than a restart takes on a
    busy machine: else the holder would have released the lock before another client can acquire it."""
    plan = Plan(
        lock="redis-token", cluster="servers", servers=(redis.url,), clients=3, ttl=10.0, hold=6.0, time_limit=8.0,
        faults=(RESTART,), hooks={"kill-amnesia": hook}, **more,
    )  # fmt: skip
    return run(plan, store=tmp_path)


@pytest.mark.slow
def test_a_restart_without_data_loses_the_lock(redis: DaemonRedis, tmp_path: Path) -> None:
    result = run_with_hook(redis, tmp_path, Hook(command=redis.restart, observe=redis.run_id))
    assert result.verdicts["faults"].valid is True, result.verdicts["faults"].explanation
    assert result.verdicts["mutual-exclusion"].valid is False, result.document["summary"]
    (injected,) = [op for op in result.history.nemesis("inject") if op.type == "ok"]
    assert injected.value["observed"]["command"]["status"] == 0
    assert injected.value["observed"]["before"]["output"].startswith("run_id:")
    assert injected.value["observed"]["after"]["output"] != injected.value["observed"]["before"]["output"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "hook",
    [
        Hook(command="true", observe="echo up"),
        Hook(command="false", observe="date"),
        Hook(command="true", observe="date"),
    ],
)
def test_a_hook_without_effect_proves_nothing(redis: DaemonRedis, tmp_path: Path, hook: Hook) -> None:
    result = run_with_hook(redis, tmp_path, hook)
    assert result.verdicts["faults"].valid is None
    assert result.exit_status == UNKNOWN
    assert "kill-amnesia" in result.verdicts["faults"].explanation


@pytest.mark.slow
def test_hooks_of_a_project_are_stored_and_replayed_with_permission(
    redis: DaemonRedis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = f'[tool.harness.hooks.kill-amnesia]\ncommand = """{redis.restart}"""\nobserve = "{redis.run_id}"\n'
    Path("pyproject.toml").write_text(table)
    assert set(project_hooks()) == {"kill-amnesia"}
    options = ["--nemesis", "kill-amnesia", "--ttl", "2s", "--hold", "800ms", "--clients", "3"]
    assert status("run", "redis-token", "--servers", redis.url, *options) == VIOLATION
    shown = capsys.readouterr()
    assert "--allow" in shown.out
    assert status("replay", "store/latest") == USAGE
    assert "names code that would run: hook command" in capsys.readouterr().err
    assert status("replay", "store/latest", "--allow-hooks") == VIOLATION


def status(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_wrong_hook_of_a_project_is_named_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text('[tool.harness.hooks.kill]\ncommand = "true"\nobserv = "date"\n')
    assert status("run", "redis-token", "--servers", ONE[0], "--nemesis", "kill") == USAGE
    assert "pyproject.toml: unknown key in tool.harness.hooks.kill 'observ'" in capsys.readouterr().err


COUNTEREXAMPLE = """
lock = "redis-token"
clients = 2
hold = "500ms"
stagger = "300ms"
time_limit = "5s"
[[faults]]
fault = "kill-amnesia"
at = "200ms"
for = 0
params = {target = "n1"}
[expect]
safe = false
invalid = ["mutual-exclusion"]
"""


@pytest.mark.slow
def test_hooks_of_a_project_do_the_faults_of_a_counterexample_with_permission(
    redis: DaemonRedis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("counterexample.toml").write_text(COUNTEREXAMPLE)
    table = f'[tool.harness.hooks.kill-amnesia]\ncommand = """{redis.restart}"""\nobserve = "{redis.run_id}"\n'
    Path("pyproject.toml").write_text(table)
    assert status("replay", "counterexample.toml", "--servers", redis.url) == USAGE
    assert "not possible on servers of your own" in capsys.readouterr().err
    assert status("replay", "counterexample.toml", "--servers", redis.url, "--allow-hooks") == VIOLATION


def paused_by_a_run(redis: DaemonRedis, tmp_path: Path) -> subprocess.Popen[bytes]:
    """Start a run whose hook pauses the server while a client holds the lock; return when the pause is confirmed."""
    plan = Plan(
        lock="redis-token", cluster="servers", servers=(redis.url,), ttl=100.0, hold=50.0, time_limit=60.0,
        faults=(FaultSpec("server-pause", at=0.5),),
        hooks={"server-pause": Hook(
            command=f"kill -STOP $(cat {redis.pid_file})", observe=f"timeout 1 {redis.ask} ping", heal=redis.resume,
        )},
    )  # fmt: skip
    (tmp_path / "plan.toml").write_text(dump(plan))
    command = [sys.executable, "-m", "harness", "replay", str(tmp_path / "plan.toml"), "--trust"]
    process = subprocess.Popen([*command, "--out", str(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not any(b'"after"' in path.read_bytes() for path in tmp_path.glob("*/*/history.jsonl")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    return process


@pytest.mark.slow
def test_an_interrupted_run_heals(redis: DaemonRedis, tmp_path: Path) -> None:
    process = paused_by_a_run(redis, tmp_path)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert subprocess.run(f"{redis.ask} ping", shell=True, capture_output=True, check=True).stdout == b"PONG\n"


@pytest.mark.slow
def test_a_killed_run_leaves_its_fault_and_removes_its_keys_after_the_heal_of_the_user(
    redis: DaemonRedis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = paused_by_a_run(redis, tmp_path)
    process.kill()
    process.wait()
    (history,) = tmp_path.glob("*/*/history.jsonl")
    entries = [msgspec.json.decode(line) for line in history.read_bytes().splitlines()]
    assert {entry["f"] for entry in entries} & {"inject", "heal"} == {"inject"}
    assert [entry for entry in entries if (entry["f"], entry["type"]) == ("acquire", "ok")]
    assert status("run", "redis-token", "--servers", redis.url) == MISSING
    assert f"the Redis at 127.0.0.1:{redis.port}: Timeout" in capsys.readouterr().err
    pid = int(redis.pid_file.read_text())
    assert "T" in Path(f"/proc/{pid}/stat").read_text().split()

    subprocess.run(redis.resume, shell=True, check=True)
    # The keys last for longer than this test, so only the cleaner removes them.
    wait_for(f"test -z \"$({redis.ask} keys 'harness:*')\" && echo none", "none")
    again = Plan(lock="redis-token", cluster="servers", servers=(redis.url,), clients=2, ttl=1.0, time_limit=3.0)
    assert run(again, store=tmp_path / "again").document["stats"]["acquires_ok"] > 0
