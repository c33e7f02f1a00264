"""Bad input of commands: one message and the documented exit status."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.errors import EnvironmentLacking, UsageError
from harness.plan import Plan

from .commands import harness


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["redlok"], 2, "no lock is called 'redlok'; did you mean redlock"),
        (["mylock_cli:NoAcquire"], 2, "mylock_cli:NoAcquire is no lock: it has no method acquire"),
        (["mylock_cli:Yields"], 2, "acquire is a generator; it must be a method or a coroutine"),
        (["mylock_cli:MyLok"], 2, "no class called 'MyLok'; did you mean MyLock?"),
        (["mylock_cli.py:MyLock"], 2, "got the path of a file; did you mean mylock_cli:MyLock?"),
        (["mylock_cli"], 2, "no lock is called 'mylock_cli'; the class in mylock_cli.py is given as mylock_cli:Class"),
        (["mylock_cli:MyLock", "--kind", "postgres"], 2, 'says so in its body: kinds = ("postgres",)'),
        (["mylock_cli:MyLock", "--servers", "mysql://127.0.0.1"], 2, 'says so in its body: kinds = ("mysql-single",)'),
        (["mylock_cli:OneKind"], 2, "kinds must be names such as (\"postgres\",), got 'postgres'"),
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('cluster = "moon"', "cluster must be one of auto, sim, docker, got 'moon'"),
        ('workload = "nope"', "unknown workload 'nope'"),
        ('[[faults]]\nfault = "kill"\non = "nope"', "unknown event of fault 'kill' 'nope'"),
        ("clients = -1", "clients must be at least 1, got -1"),
    ],
)
def test_an_error_in_a_plan_names_its_file(
    line: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f'lock = "redis-token"\n{line}\n')
    assert harness("replay", str(plan)) == 2
    assert f"{plan}: {message}" in capsys.readouterr().err
    assert harness("run", str(plan)) == 2
    assert f"a plan is run by 'harness replay {plan}'" in capsys.readouterr().err


@pytest.mark.parametrize("cluster", ["servers", "ssh"])
def test_replay_takes_the_cluster_of_a_plan_for_servers_or_machines(
    cluster: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def complete(plan: Plan, cluster: str) -> tuple[Plan, str]:
        raise UsageError(f"completed for {cluster}")

    monkeypatch.setattr("harness.cli.replay.complete_for", complete)
    plan = tmp_path / "plan.toml"
    plan.write_text('lock = "redis-token"\n')
    assert harness("replay", str(plan), "--cluster", cluster) == 2
    assert f"completed for {cluster}" in capsys.readouterr().err


def test_an_error_in_an_option_of_replay_does_not_name_the_plan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('lock = "redis-token"\n')
    assert harness("replay", str(plan), "--cluster", "moon") == 2
    assert capsys.readouterr().err == "harness: cluster must be one of auto, sim, docker, got 'moon'\n"


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
    assert f"harness: plan.toml: {message}" in said or f"harness: plan.toml: server_options: {message}" in said
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run redis-token --runs x", "invalid value for '--runs'"),
        ("serve --port abc", "invalid value for '--port'"),
        ("serve --prot 1", "no such option: --prot"),
        ("run redis-token --ttl soon", "expected a duration"),
        ("cluster up", "missing argument 'kind'"),
        ("rnu redlock", "unknown command 'rnu': did you mean run?"),
        ("run redis-token --runs", "'--runs' requires an argument"),
        ("check x --model lease-mutex --budget -1", "budget must be more than 0 seconds, got -1"),
        (
            f"check x --model lease-mutex --clock-error {'9' * 400}",
            "clock-error must be at most 1e+08 seconds, got inf",
        ),
        ("check x --model lease-mutex --clock-error -5", "clock-error must not be negative, got -5 seconds"),
        ("check x --model lease-mutex --memory 0", "memory: expected a size such as 512M or 2G, got '0'"),
        (f"check x --model lease-mutex --memory {'9' * 400}", "memory: expected a size such as 512M or 2G, got '9999"),
        ("check x --model lease-mutex --html .", "cannot write .: Is a directory"),
        (
            "check --model lease-mutex --follow tcp:127.0.0.1:99999",
            "expected unix:PATH or tcp:HOST:PORT, got 'tcp:127.0.0.1:99999'",
        ),
        ("bisect x --package x --good 1 --bad 2 --runs 99999999999", "runs must be from 1 to 1,000,000, got 99,999"),
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


def test_a_damaged_history_is_one_message_that_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut, other = tmp_path / "cut.jsonl.gz", tmp_path / "other.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"type": "ok"}\n' * 99)[:-9])
    other.write_bytes(b"not compressed\n")
    for path, why in ((cut, "Compressed file ended before"), (other, "Not a gzipped file")):
        assert harness("check", str(path), "--model", "lease-mutex") == 2
        said = capsys.readouterr().err
        assert said.startswith(f"harness: {path}: cannot read the history: {why}")
        assert said.count("\n") == 1
