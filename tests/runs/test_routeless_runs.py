"""Runs on containers whose harness reaches the engine's socket, and none of the containers' addresses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.docker.containers.engine import OWNER, ROLE, connect
from harness.clusters.docker.containers.relay import COMMAND
from harness.errors import MISSING, VALID, VIOLATION
from tests.containers.routeless import LOOPBACK_ONLY, without_a_route

pytestmark = pytest.mark.docker

GENEROUS_S = 120.0
LOCK = """
class Mine:
    def __init__(self, redis, key, ttl):
        self.redis, self.key, self.ttl = redis, key, ttl

    def acquire(self):
        return self.redis.set(self.key, "me", nx=True, px=int(self.ttl * 1000))

    def release(self):
        self.redis.delete(self.key)
"""


def results_of(folder: Path, lock: str) -> dict[str, Any]:
    (found,) = (folder / "store" / lock).glob("2*/results.json")
    results: dict[str, Any] = json.loads(found.read_text())
    assert results["cluster"]["control"] == "engine"
    return results


@pytest.mark.parametrize(
    ("lock", "nemesis", "status"),
    [
        ("redis-token", "latency", VALID),
        ("redis-token", "client-pause", VIOLATION),
        ("etcd-mutex", "partition-majority", VALID),
        ("mysql-get-lock", "kill", VALID),
        ("postgres-advisory", "connection-reset", VIOLATION),
    ],
)
def test_a_fault_is_injected_and_observed_without_a_route(tmp_path: Path, lock: str, nemesis: str, status: int) -> None:
    options = ("--cluster", "docker", "--nemesis", nemesis, "--time-limit", "20s")
    done = without_a_route("run", lock, *options, cwd=tmp_path)
    assert done.returncode == status, f"{done.stdout}{done.stderr}"
    results = results_of(tmp_path, lock)
    assert results["faults"]
    assert all(fault["seen"] for fault in results["faults"]), results["faults"]
    assert results["cluster"]["server"], "the servers told their version"


def test_the_keys_of_servers_are_polled_without_a_route(tmp_path: Path) -> None:
    done = without_a_route("run", "redis-token", "--cluster", "docker", "--time-limit", "6s", cwd=tmp_path)
    assert done.returncode == VALID, f"{done.stdout}{done.stderr}"
    (found,) = (tmp_path / "store" / "redis-token").glob("2*/keys.jsonl")
    states = [json.loads(line) for line in found.read_text().splitlines()]
    assert len({state["owner"] for state in states if "owner" in state}) > 5
    assert all(state.get("answers", True) for state in states)


@pytest.mark.parametrize("there", ["nothing", "other files"])
def test_a_users_lock_is_copied_where_the_engine_has_other_files(tmp_path: Path, there: str) -> None:
    """The lock is in a file system that only the harness sees, as that of a container is."""
    modules = tmp_path / "modules"
    place = modules if there == "other files" else modules / "mine"
    modules.mkdir()
    (tmp_path / "mine.py").write_text(LOCK)
    script = f'mount -t tmpfs none {modules} && mkdir -p {place} && cp mine.py {place} && cd {place} && exec "$@"'
    options = ("--cluster", "docker", "--time-limit", "6s", "--out", str(tmp_path / "store"))
    harness = [sys.executable, "-m", "harness", "run", "mine:Mine", *options]
    command = ["unshare", "--mount", *LOOPBACK_ONLY, "sh", "-c", script, "sh", *harness]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == VALID, f"{done.stdout}{done.stderr}"


def relay_of(process: int) -> int:
    """Return the id of the relay program of a run's helper; wait until it is there."""
    engine = connect()
    deadline = time.monotonic() + GENEROUS_S
    while time.monotonic() < deadline:
        for found in engine.api.containers(filters={"label": f"{ROLE}=helper"}):
            if found["Labels"][OWNER].startswith(f"{process}:"):
                for each in engine.api.inspect_container(found["Id"])["ExecIDs"] or ():
                    about = engine.api.exec_inspect(each)
                    if about["Pid"] and about["ProcessConfig"]["arguments"] == COMMAND[1:]:
                        return int(about["Pid"])
        time.sleep(0.1)
    raise AssertionError("the run has no relay")


def test_a_run_whose_relay_dies_ends_with_one_error_and_no_verdict(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "run", "redis-token", "--cluster", "docker", "--time-limit", "15s"]
    with subprocess.Popen(
        [*LOOPBACK_ONLY, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path
    ) as process:
        relay = relay_of(process.pid)
        assert process.stdout is not None
        time.sleep(5)
        os.kill(relay, signal.SIGKILL)
        said = process.stdout.read()
    assert process.returncode == MISSING, said
    assert "the relay in the helper container ended during the run" in said
    assert "Traceback" not in said
    assert "VIOLATION" not in said
    assert not list((tmp_path / "store").glob("*/2*/results.json"))
