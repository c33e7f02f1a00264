"""A run that freezes its containers at the first violation and leaves them for inspection."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.containers.engine import HOST, RUN, connect, remove
from harness.plan import Plan, decode, dump
from tests.cli.commands import harness

ENOUGH = ["--nemesis", "none", "--ttl", "1s", "--hold", "1.5s", "--clients", "2", "--time-limit", "60s"]
"""Holds outlast their lease, so two clients soon hold the lock."""


def test_a_simulated_run_cannot_be_held(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "redlock", "--hold-on-violation") == 2
    said = capsys.readouterr().err
    assert "hold_on_violation leaves containers for inspection: use --cluster docker" in said
    assert len(said.strip().splitlines()) == 1


def test_only_a_single_run_can_be_held(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "redlock", "--cluster", "docker", "--hold-on-violation", "--runs", "2") == 2
    assert "--hold-on-violation is for one run" in capsys.readouterr().err


def test_the_option_is_part_of_the_plan() -> None:
    plan = Plan(lock="redlock", hold_on_violation=True)
    assert decode(msgspec.to_builtins(plan)) == plan
    assert "hold_on_violation = true" in dump(plan)
    assert "hold_on_violation" not in dump(Plan(lock="redlock"))


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments], capture_output=True, text=True, check=False, timeout=400
    )


def containers(cluster: str) -> dict[str, str]:
    """Return the state of each container of a cluster, by host."""
    found = connect().api.containers(all=True, filters={"label": f"{RUN}={cluster}"})
    return {one["Labels"][HOST]: one["State"] for one in found}


def shell(line: str) -> str:
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, (line, done.stderr)
    return done.stdout


@pytest.mark.docker
def test_a_held_run_leaves_frozen_containers_that_clean_removes(tmp_path: Path) -> None:
    ran = command("run", "redis-token", *ENOUGH, "--cluster", "docker", "--hold-on-violation", "--out", str(tmp_path))
    assert ran.returncode == 1, ran.stderr
    said = dict(line.split(": ", 1) for line in ran.stdout.splitlines() if ": " in line)
    [folder] = (path for path in (tmp_path / "redis-token").iterdir() if not path.is_symlink())
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    frozen = results["cluster"]["frozen"]
    try:
        assert results["valid"] is False
        assert '"reason":"violation"' in (folder / "history.jsonl").read_text().replace(" ", "").splitlines()[-1]
        assert (folder / "report.html").exists()
        assert sorted(frozen["hosts"]) == ["c0", "c1", "n1", "resource"]
        states = containers(frozen["id"])
        assert {host: states[host] for host in frozen["hosts"]} == dict.fromkeys(frozen["hosts"], "paused")
        assert "redis-server" in shell(said["processes, while frozen"])
        assert "appendonly" in shell(said["files, while frozen"].removeprefix("sudo "))
        server = frozen["hosts"]["n1"]["container"]
        assert shell(said["what n1 stores"]).splitlines() in ([server], [server, "k0"])
        assert containers(frozen["id"])["n1"] == "running"
        shell(f"docker pause {server}; {said['let the servers go on']}; {frozen['hosts']['n1']['look']}")
        assert containers(frozen["id"])["c0"] == "paused"
    finally:
        cleaned = command("cluster", "clean")
    assert cleaned.returncode == 0, cleaned.stderr
    assert frozen["hosts"]["n1"]["container"] in cleaned.stdout
    assert containers(frozen["id"]) == {}


@pytest.mark.docker
def test_a_run_without_a_violation_leaves_nothing(tmp_path: Path) -> None:
    ran = command(
        "run", "redis-token", "--cluster", "docker", "--hold-on-violation", "--clients", "2", "--time-limit", "5s",
        "--out", str(tmp_path), "--json",
    )  # fmt: skip
    result = json.loads(ran.stdout)["runs"][0]["results"]
    assert result["valid"] is not False
    assert "frozen" not in result["cluster"]
    assert "left_behind" not in result["cluster"]


@pytest.mark.docker
@pytest.mark.parametrize("kind", ["redis-sentinel", "etcd", "mysql-single", "postgres"])
def test_the_command_that_shows_what_a_server_stores_works(kind: str) -> None:
    cluster = DockerCluster(
        kind=kind, nodes=0, clients=Clients(0), seed=0, resource="", options={}, needs=frozenset(), by_hand=True
    )
    try:
        cluster.start_all()
        for host in cluster.hosts:
            look = cluster.servers.look(host.name)
            container = f"lock-harness-{cluster.deployment.id}-{host.name}"
            shell(shlex.join(["docker", "exec", container, *look]))
    finally:
        cluster.stop_all()
        remove(connect(), [cluster.deployment.id])
