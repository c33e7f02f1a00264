"""The command line with ``--servers``: run and replay, exit statuses and messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.cli.run import shortest_time_limit
from harness.errors import MISSING, USAGE, VIOLATION
from harness.faults.catalogue import default_specs
from harness.fidelity.processes import ServerProcess
from harness.plan import Plan, load

from .own_redis import keys, url

COUNTEREXAMPLE = """
lock = "redis-token"
clients = 2
hold = "500ms"
stagger = "300ms"
time_limit = "5s"
[[faults]]
fault = "%s"
at = "200ms"
for = "3s"
params = {target = "%s"}
[expect]
safe = false
invalid = ["mutual-exclusion"]
"""


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def status(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    code = ended.value.code
    assert isinstance(code, int)
    return code


@pytest.mark.slow
def test_a_run_is_recorded_with_its_servers_and_replayed(
    redis_server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--nemesis", "client-pause", "--ttl", "500ms", "--time-limit", "4s", "--clients", "3"]
    assert status("run", "redis-token", "--servers", url(redis_server), *options) == VIOLATION
    stored = load(Path("store/latest/plan.toml"))
    assert (stored.cluster, stored.servers, stored.kind) == ("servers", (url(redis_server),), "redis-single")
    assert "harness replay" in capsys.readouterr().out
    assert status("replay", "store/latest", "--json") == VIOLATION
    document = json.loads(capsys.readouterr().out)
    assert document["cluster"]["backend"] == "servers"
    assert keys(redis_server) == set()
    assert status("replay", "store/latest", "--cluster", "sim") == VIOLATION


@pytest.mark.slow
def test_a_counterexample_of_the_simulator_is_reproduced(
    redis_server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("counterexample.toml").write_text(COUNTEREXAMPLE % ("client-pause", "c0"))
    assert status("replay", "counterexample.toml", "--servers", url(redis_server), "--json") == VIOLATION
    document = json.loads(capsys.readouterr().out)
    assert document["cluster"]["backend"] == "servers"
    assert document["replayed"]["reproduced"] is True


@pytest.mark.slow
def test_a_counterexample_with_a_fault_of_servers_is_refused(
    redis_server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("counterexample.toml").write_text(COUNTEREXAMPLE % ("kill-amnesia", "n1"))
    assert status("replay", "counterexample.toml", "--servers", url(redis_server)) == USAGE
    assert "not possible on servers of your own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected", "message"),
    [
        (("--servers", "redis://127.0.0.1:1"), MISSING, "the Redis at 127.0.0.1:1"),
        (("--servers", "redis://192.0.2.1"), USAGE, "add --yes"),
        (("--servers", "redis://127.0.0.1", "--nemesis", "kill"), USAGE, "possible are black-hole"),
        (("--servers", ""), USAGE, "expected an address such as redis://127.0.0.1:6379"),
        (("--servers", "redis://127.0.0.1", "--cluster", "docker"), USAGE, "leave out --cluster docker"),
        (("--servers", "redis://127.0.0.1", "--nodes", "3"), USAGE, "nodes must be the number of servers"),
        (("--servers", "redis://127.0.0.1", "--image", "redis:7"), USAGE, "an image is for real servers"),
        (("--servers", "redis://127.0.0.1", "--versions", "redis==5.0"), USAGE, "--versions goes with"),
        (("--servers", "redis://127.0.0.1", "--record-wire"), USAGE, "--record-wire needs"),
        (("--cluster", "servers"), USAGE, "cluster must be one of auto, sim, docker"),
    ],
)  # fmt: skip
def test_messages(arguments: tuple[str, ...], expected: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("run", "redis-token", *arguments) == expected
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown


def test_a_run_is_as_long_as_its_faults_need() -> None:
    plan = Plan(lock="redis-token")
    assert shortest_time_limit(plan) == 12.0
    late = Plan(lock="redis-token", faults=tuple(default_specs("latency", 2.0)))
    assert shortest_time_limit(late) == 16.0
