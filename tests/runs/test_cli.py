"""The command line: exit statuses, one message for each mistake, and the files that an interrupted run leaves."""

from __future__ import annotations

import builtins
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.__main__ import main as harness_command
from harness.cli.main import COMMANDS, main
from harness.errors import EnvironmentLacking
from harness.history import History
from harness.run import completion

MYLOCK = """
import redis

class MyLock:
    def __init__(self, redis: redis.Redis, key: str, ttl: float) -> None:
        self.redis, self.key, self.ttl = redis, key, ttl

    def acquire(self) -> bool:
        return bool(self.redis.set(self.key, "me", nx=True, px=int(self.ttl * 1000)))

    def release(self) -> None:
        self.redis.delete(self.key)

class NoAcquire:
    def release(self) -> None: ...

class Raises(MyLock):
    def acquire(self, timeout: float) -> bool:
        raise RuntimeError("out of order")

class Exits(MyLock):
    def acquire(self, timeout: float) -> bool:
        raise SystemExit(0)

class Hangs(MyLock):
    def acquire(self, timeout: float) -> bool:
        import threading
        threading.Event().wait()

class Prints(MyLock):
    def acquire(self) -> bool:
        print("hello")
        return super().acquire()

class Yields(MyLock):
    def acquire(self, timeout: float):
        yield True

class OddGrant(MyLock):
    def acquire(self, timeout: float):
        from harness.lock_impls.base import Grant
        return Grant(fence=1.5, valid_for=float("nan"))
"""


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    (tmp_path / "mylock_cli.py").write_text(MYLOCK)
    yield tmp_path
    sys.modules.pop("mylock_cli", None)


def harness(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def results_in(printed: str) -> Any:
    """Return the results of the one run of a printed document."""
    (run,) = json.loads(printed)["runs"]
    return run["results"]


def test_a_violation_exits_with_1_and_the_report_names_holders_and_clocks(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "redlock", "--nemesis", "clock-skew", "--cluster", "sim") == 1
    said = capsys.readouterr()
    assert "VIOLATION: redlock" in said.out
    assert "cluster: sim, redis-independent, 5 nodes" in said.err
    page = Path("store/latest/report.html").read_text()
    results = json.loads(Path("store/latest/results.json").read_text())
    holders = [hold["client"] for hold in results["checkers"]["mutual-exclusion"]["evidence"][0]["involved"]]
    assert len(set(holders)) == 2
    for holder in holders:
        assert holder in results["summary"]
    assert "wall clocks jumped at" in results["summary"]
    assert results["summary"][:40] in page.replace("&#39;", "'")


def test_a_valid_run_exits_with_0_and_json_is_alone_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "redlock", "--nemesis", "none", "--time-limit", "5s", "--json") == 0
    said = capsys.readouterr()
    (run,) = json.loads(said.out)["runs"]
    document = run["results"]
    assert said.err == ""
    assert (document["schema"], document["valid"], document["seed"]) == (2, True, 0)
    assert json.loads((Path(run["folder"]) / "results.json").read_text()) == document
    assert set(document["checkers"]) >= {"mutual-exclusion", "resource", "fencing", "ownership", "deadlock", "liveness"}
    assert document["versions"]["redis"]


@pytest.mark.slow
def test_the_report_describes_the_setting_in_the_terms_of_the_service(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "mysql-unique", "--topology", "replicated", "--time-limit", "2s", "--clients", "2") in (0, 3)
    capsys.readouterr()
    versions = json.loads(Path("store/latest/results.json").read_text())["versions"]
    assert "PyMySQL" in versions
    assert "redis" not in versions
    setting = Path("store/latest/report.html").read_text().partition('id="setting"')[2]
    assert "manager" in setting
    assert "sentinel" not in setting.partition("Server logs")[0]


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_watcher_of_a_lost_member_leaves_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """python-etcd3 does not stop its watcher when its client is closed."""
    ended: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: ended.append(args.exc_type))
    assert harness("run", "etcd3-lock", "--nemesis", "partition-node", "--time-limit", "15s", "--quiet") == 0
    assert set(ended) == {SystemExit}, "which threading takes for an end like any other"


def test_a_run_without_contention_exits_with_3_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "redis-token", "--clients", "1", "--time-limit", "5s") == 3
    said = capsys.readouterr().out
    assert (
        "Nothing was proved: deadlock, linearizability, liveness, ownership and resource: the run had one client, c0"
        in said
    )
    assert "handover: no key was requested by more than one client (k0 by one)" in said


def test_the_simulator_is_the_default_even_if_an_engine_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "no_engine", lambda: "")
    assert harness("run", "redis-token", "--time-limit", "3s") == 0
    assert "cluster: sim, redis-single, 1 node\n" in capsys.readouterr().err


@pytest.mark.slow
def test_auto_reports_the_chosen_cluster_and_the_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "no_engine", lambda: "no Docker engine here")
    assert harness("run", "redis-token", "--time-limit", "3s", "--cluster", "auto") == 0
    assert "cluster: sim, redis-single, 1 node (no Docker engine here" in capsys.readouterr().err


def test_a_user_lock_can_be_tested(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "mylock_cli:MyLock", "--time-limit", "5s") == 0
    assert harness("run", "mylock_cli:MyLock", "--nemesis", "client-pause", "--time-limit", "15s", "--quiet") == 1
    assert capsys.readouterr().out.endswith("VIOLATION\n")


@pytest.mark.slow
def test_a_lock_that_only_raises_gives_unknown_mutual_exclusion(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "mylock_cli:Raises", "--time-limit", "5s", "--json") in (1, 3)
    document = results_in(capsys.readouterr().out)
    assert document["checkers"]["mutual-exclusion"]["valid"] is None
    history = History.load(Path("store/latest/history.jsonl"))
    assert any("RuntimeError: out of order" in error for error in history.error if error)


def test_a_hanging_lock_is_reported_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "mylock_cli:Hangs", "--cluster", "sim", "--time-limit", "5s", "--json") == 3
    summary = results_in(capsys.readouterr().out)["summary"]
    assert "no server was contacted" in summary
    assert "5 of 5 acquires never returned." in summary


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["Exits", "OddGrant"])
def test_a_lock_cannot_decide_the_exit_status(lock: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", f"mylock_cli:{lock}", "--time-limit", "3s", "--json") in (1, 3)
    document = results_in(capsys.readouterr().out)
    assert document["checkers"]["mutual-exclusion"]["valid"] is None
    assert document["stats"]["acquires_ok"] == 0


def test_output_of_a_lock_goes_to_stderr_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "mylock_cli:Prints", "--time-limit", "3s", "--json") == 0
    said = capsys.readouterr()
    assert results_in(said.out)["valid"] is True
    assert "hello" in said.err


@pytest.mark.slow
@pytest.mark.parametrize("durations", [("2.2", "10.1s"), ("0.7", "10.1s"), ("2", "3.3333333333s")])
def test_fractional_durations_are_accepted(durations: tuple[str, str]) -> None:
    assert harness("run", "redis-token", "--ttl", durations[0], "--time-limit", durations[1], "--quiet") == 0


def test_version_option_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("--version") == 0
    assert capsys.readouterr().out == f"harness {version('lock-harness')}\n"


def test_an_interrupt_during_loading_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str, *arguments: Any) -> Any:
        if name == "harness.cli.main":
            raise KeyboardInterrupt
        return imported(name, *arguments)

    imported = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", interrupted)
    with pytest.raises(SystemExit) as ended:
        harness_command()
    assert ended.value.code == 130


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["redlok"], 2, "no lock is called 'redlok'; did you mean redlock"),
        (["mylock_cli:NoAcquire"], 2, "mylock_cli:NoAcquire is no lock: it has no method acquire"),
        (["mylock_cli:Yields"], 2, "acquire is a generator; it must be a method or a coroutine"),
        (["mylock_cli:MyLok"], 2, "no class called 'MyLok'; did you mean MyLock?"),
        (["nomodule:X"], 2, "there is no module 'nomodule'"),
        (["redlock", "--ttl", "-1s"], 2, "ttl must be more than 0 seconds, got -1"),
        (["redlock", "--ttl", "soon"], 2, "expected a duration such as 2, '2s' or '150ms', got 'soon'"),
        (["redlock", "--nemesis", "clock-skw"], 2, "unknown nemesis 'clock-skw': did you mean clock-skew"),
        (
            ["redlock", "--nemesis", "failover", "--cluster", "sim"],
            2,
            "needs failover, which redis-independent on sim cannot do; redis-sentinel can",
        ),
        (["redlock", "--topology", "sentinel"], 2, "redlock runs on redis-independent, not on 'sentinel' ones"),
        (["redlock", "--workload", "mutx"], 2, "unknown workload 'mutx': did you mean mutex?"),
        (["redlock", "--discipline", "brave"], 2, "discipline must be one of trusting, checking, got 'brave'"),
        (["redlock", "--clients", "0"], 2, "clients must be at least 1, got 0"),
        (["redlock", "--runs", "0"], 2, "runs must be at least 1, got 0"),
        (["redlock", "--out", "/proc/nowhere"], 2, "cannot write to the store /proc/nowhere"),
        (["redlock", "--cluster", "cloud"], 2, "cluster must be one of auto, sim, docker, got 'cloud'"),
        (["redlock", "--bogus"], 2, "no such option: --bogus"),
    ],
)
def test_usage_errors_are_reported_without_a_traceback(
    arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness("run", *arguments) == status
    said = capsys.readouterr()
    assert message in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize("lacking", [["--nemesis", "disk-stall"], ["--image", "redis:7.4"]])
def test_docker_only_options_without_an_engine_name_the_missing_engine(
    lacking: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    assert harness("run", "redis-token", "--cluster", "auto", *lacking) == 4
    said = capsys.readouterr().err
    assert "no Docker engine answers ('harness doctor' says more)" in said
    assert said.rstrip().endswith(("--cluster docker can", "--image goes with --cluster docker"))


def test_a_missing_engine_is_reported_with_address_reason_and_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    for arguments in (["run", "redlock", "--cluster", "docker"], ["cluster", "ps"]):
        assert harness(*arguments) == 4
        said = capsys.readouterr().err
        assert "no Docker engine answers at unix:///nowhere.sock (No such file or directory): apt-get install" in said


@pytest.mark.usefixtures("in_this_process")
def test_a_failed_run_names_the_folder_of_its_history(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        raise EnvironmentLacking("the Docker engine failed: ReadTimeout")

    monkeypatch.setattr("harness.clusters.sim.cluster.SimCluster.run", silent)
    assert harness("run", "redis-token", "--cluster", "sim") == 4
    said = capsys.readouterr().err
    assert (
        "harness: the Docker engine failed: ReadTimeout; the history recorded until then is in store/redis-token/"
        in said
    )
    [folder] = Path("store/redis-token").iterdir()
    assert (folder / "logs").is_dir()


@pytest.mark.parametrize("cluster", ["sim", "docker"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('maxmemroy = "3mb"', "unknown server_options 'maxmemroy': did you mean maxmemory"),
        ('maxmemory = "lots"', "maxmemory must be a size such as '3mb', got 'lots'"),
        ('maxmemory_policy = "fifo"', "maxmemory_policy must be one of volatile-lru, "),
        ('persistence = "sometimes"', "persistence must be one of always, "),
        ('replica_priority = "high"', "replica_priority must be a whole number from 0, got 'high'"),
    ],
)
def test_invalid_server_options_are_one_message(
    cluster: str, options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plan.toml").write_text(f'lock = "redis-token"\nserver_options = {{{options}}}\n')
    assert harness("replay", "plan.toml", "--cluster", cluster) == 2
    said = capsys.readouterr().err
    assert f"harness: {message}" in said or f"harness: server_options: {message}" in said
    assert said.count("\n") == 1


def test_the_simulator_accepts_sizes_with_units() -> None:
    Path("plan.toml").write_text(
        'lock = "redis-token"\ntime_limit = "5s"\nserver_options = {maxmemory = "3mb", persistence = "no"}\n'
    )
    assert harness("replay", "plan.toml", "--cluster", "sim", "--quiet") == 0
    assert "maxmemory = 3145728" in Path("store/latest/plan.toml").read_text()


def test_commands_of_a_protocol_that_is_not_read_are_refused_on_docker(capsys: pytest.CaptureFixture[str]) -> None:
    Path("plan.toml").write_text(
        'lock = "etcd-mutex"\n[[faults]]\nfault = "client-pause"\non = "request:TXN"\nfor = "3s"\n'
    )
    assert harness("replay", "plan.toml", "--cluster", "docker") == 2
    said = capsys.readouterr().err
    assert "on = 'request:TXN': commands are not read from the traffic of etcd in containers; use --cluster sim" in said


def stored_run() -> Path:
    harness("run", "redis-token", "--time-limit", "5s", "--quiet")
    return Path("store/latest").resolve()


@pytest.mark.slow
def test_a_truncated_history_is_reported_up_to_its_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    folder = stored_run()
    path = folder / "history.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    line = data[: len(data) // 2].count(b"\n") + 1
    capsys.readouterr()
    assert harness("report", str(folder)) == 3
    said = capsys.readouterr()
    assert f"history.jsonl: the history is truncated at line {line}; what was recorded before it is shown" in said.err
    assert (folder / "report.html").exists()


def test_a_cut_short_history_with_a_violation_is_reported_as_one() -> None:
    assert harness("run", "redis-token", "--nemesis", "client-pause", "--time-limit", "20s", "--quiet") == 1
    folder = Path("store/latest").resolve()
    (folder / "results.json").unlink()  # as if the command had been killed at its end
    path = folder / "history.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert harness("report", str(folder)) == 1


def test_a_damaged_history_is_refused_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    folder = stored_run()
    path = folder / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:9], b"{}\n", *lines[10:]]))
    capsys.readouterr()
    assert harness("report", str(folder)) == 2
    message = capsys.readouterr().err
    assert "history.jsonl, line 10: expected one history entry as a JSON object, got '{}'" in message


@pytest.mark.parametrize("what", ["nowhere", "."])
def test_a_report_of_a_missing_run_is_refused(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("report", what) == 2
    assert what in capsys.readouterr().err


def test_replay_repeats_byte_for_byte() -> None:
    assert harness("run", "redlock", "--nemesis", "clock-skew,client-pause", "--time-limit", "8s", "--seed", "5") == 1
    first = Path("store/latest").resolve()
    assert harness("replay", str(first)) == 1
    second = Path("store/latest").resolve()
    assert first != second
    assert (first / "history.jsonl").read_bytes() == (second / "history.jsonl").read_bytes()
    assert (first / "plan.toml").read_bytes() == (second / "plan.toml").read_bytes()


@pytest.mark.slow
def test_many_runs_keep_only_folders_of_runs_that_are_not_valid(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--runs", "3", "--time-limit", "8s", "--hold", "0.5", "--json"]
    assert harness("run", "redis-token", *arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert [run["folder"] for run in document["runs"]] == ["", "", ""]
    assert document["certainty"] == "3 runs, no failure: below 63.2 % of such runs fail, with 95 % confidence"
    assert harness("run", "redis-token", "--nemesis", "client-pause", *arguments) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["planned"], document["status"], document["certainty"]) == (3, 1, "")
    assert [run["results"]["seed"] for run in document["runs"]] == [0, 1, 2]
    for run in document["runs"]:
        assert run["results"]["valid"] is True or (Path(run["folder"]) / "report.html").exists()


def test_list_and_show_print_known_names_and_refuse_others(capsys: pytest.CaptureFixture[str]) -> None:
    for what, name in (("locks", "redlock"), ("nemeses", "clock-skew"), ("workloads", "inventory"),
                       ("checkers", "mutual-exclusion"), ("kinds", "redis-sentinel")):  # fmt: skip
        assert harness("list", what) == 0
        shown = capsys.readouterr().out
        assert name in shown
        assert ("[X] broken without any fault" in shown) is (what == "locks")
    assert harness("show", "redlock") == 0
    shown = capsys.readouterr().out
    assert "efficiency" not in shown
    assert "two holders are possible" in shown
    assert harness("list", "lock") == 2
    assert "did you mean locks" in capsys.readouterr().err


def test_third_party_locks_are_listed_with_language_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("list", "locks", "--json") == 0
    locks = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert locks["redis-token"]["library"] == ""
    published = {(row["language"], row["library"].rpartition(" ")[0]) for row in locks.values() if row["library"]}
    assert published >= {
        ("Python", "redis"), ("Python", "kazoo"), ("Java", "redisson"), ("Java", "curator-recipes"),
        ("Go", "github.com/go-redsync/redsync/v4"), ("JavaScript", "redlock"),
        ("PHP", "symfony/lock"), ("PHP", "malkusch/lock"),
    }  # fmt: skip
    assert harness("show", "redisson-lock") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "in containers only" in shown
    assert "its documentation mutual exclusion, prolonged while its holder's client lives" in shown
    assert "rds-one-replica: " in shown
    assert harness("show", "redlock-py") == 0
    assert "rlpy-one-down: " in capsys.readouterr().out, "also where it is called in the way that shows it"
    assert harness("show", "redis-token") == 0
    assert "mistakes" not in capsys.readouterr().out


@contextmanager
def long_run(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a run that would take hours, in a process of its own. The process is killed after the test."""
    arguments = ["run", "redis-token", "--time-limit", "30000s", "--nemesis", "client-pause", "--out", str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def history_of(process: subprocess.Popen[str], folder: Path, entries: int = 500) -> Path:
    """Return the history file of the run in progress once it has some entries. Only the test's own time limit ends
    the wait, because a busy machine may start slowly."""
    while process.poll() is None:
        for path in folder.glob("*/*/history.jsonl"):
            if path.read_bytes().count(b"\n") > entries:
                return path
        time.sleep(0.05)
    raise AssertionError(f"the run ended with status {process.returncode} instead of going on")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_run_leaves_history_results_and_report(number: signal.Signals, tmp_path: Path) -> None:
    with long_run(tmp_path / "s") as process:
        path = history_of(process, tmp_path / "s")
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode in (1, 3), err
    assert "Traceback" not in err
    assert History.load(path)[-1].value == {"reason": "interrupted"}
    assert json.loads((path.parent / "results.json").read_text())["valid"] is not True
    assert (path.parent / "report.html").exists()
    assert "redis-token" in out


@pytest.mark.slow
def test_a_killed_run_can_be_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with long_run(tmp_path / "s") as process:
        path = history_of(process, tmp_path / "s")
        process.kill()
        process.communicate()
    assert not (path.parent / "results.json").exists()
    status = harness("report", str(path.parent))
    assert (path.parent / "report.html").exists()
    valid = json.loads((path.parent / "results.json").read_text())["valid"]
    assert valid is not True
    assert status in ((0, 1) if valid is False else (0, 3))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run redis-token --runs x", "invalid value for '--runs'"),
        ("serve --port abc", "invalid value for '--port'"),
        ("serve --prot 1", "no such option: --prot"),
        ("run redis-token --ttl soon", "expected a duration"),
        ("cluster up", "missing argument 'kind'"),
        ("nosuch", "no such command 'nosuch'"),
        ("run redis-token --runs", "'--runs' requires an argument"),
    ],
)
def test_invalid_arguments_are_one_line(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    told = capsys.readouterr()
    assert (ended.value.code, told.out) == (2, "")
    assert told.err.startswith("harness: ")
    assert said in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["cluster"]])
def test_help_is_printed_without_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert "Commands:" in "".join(capsys.readouterr())


def test_the_list_of_commands_is_that_of_the_command_modules() -> None:
    """Their modules are loaded on use, so ``harness --help`` could list a command that does not exist, or lack one."""
    folder = Path(cli.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if re.search(r"^app = ", path.read_text(), re.MULTILINE)}
    assert modules - {"main"} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_listed_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert harness(name, "--help") == 0
    assert f"Usage: harness {name} " in capsys.readouterr().out
