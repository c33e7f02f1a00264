"""Whole runs on real containers, started like a user's."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from docker.errors import DockerException

from harness.clusters.client_host import ClientError
from harness.clusters.docker.containers.engine import OWNER, Deployment, connect
from harness.clusters.docker.images import base_image
from harness.clusters.docker.images.images import quiet
from harness.errors import EnvironmentLacking
from harness.faults.catalogue import default_specs
from harness.history import History
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from harness.run.store import HISTORY
from harness.run.verdicts.judging import Result
from harness.trace.reading import load_trace

pytestmark = pytest.mark.docker


def on_docker(lock: str, nemesis: str = "none", *, store: Path | None = None, **settings: Any) -> Result:
    given: dict[str, Any] = {"time_limit": 10.0, **settings}
    plan = Plan(lock=lock, cluster="docker", **given)
    faults = plan.faults or tuple(default_specs(nemesis, plan.ttl))
    return run(msgspec.structs.replace(plan, faults=faults), store=store)


def resources_of(process: subprocess.Popen[bytes]) -> list[str]:
    """Return containers, networks and volumes of this run only: other runs may be active beside the tests."""
    client = connect()
    wanted: Any = {"label": OWNER}
    things: list[Any] = [
        *client.containers.list(all=True, filters=wanted, ignore_removed=True),
        *client.networks.list(filters=wanted),
        *client.volumes.list(filters=wanted),
    ]
    labels = {thing.name: thing.attrs.get("Labels") or thing.attrs["Config"]["Labels"] for thing in things}
    return [name for name, about in labels.items() if about[OWNER].startswith(f"{process.pid}:")]


def test_redlock_without_faults_is_valid() -> None:
    result = on_docker("redlock")
    assert result.valid is True, result.document["summary"]
    assert result.document["stats"]["acquires_ok"] > 30


def test_a_clock_jump_breaks_redlock_without_changing_the_machines_clock(tmp_path: Path) -> None:
    before = time.time() - time.monotonic()
    result = on_docker(
        "redlock", "clock-jump", hold=0.5, store=tmp_path
    )  # with holds of 0.1 s all others may be waiting for their next try
    after = time.time() - time.monotonic()
    assert result.valid is False, result.document["summary"]
    assert result.verdicts["mutual-exclusion"].valid is False
    # How the sentence goes on depends on whether the second holder read the value before the first one wrote it.
    assert re.search(r"Two clients held k0 at the same time for (\d+ ms|[\d.]+ s)[:;]", result.document["summary"])
    [clocks] = [op.value["observed"]["clock_ns"] for op in result.history.nemesis("inject") if op.type == "ok"]
    assert sorted(clocks) == ["n1", "n2", "n3", "n4", "n5"]
    jumped = [ns for ns in clocks.values() if abs(ns - 3e9) < 10_000_000]
    true = [ns for ns in clocks.values() if abs(ns) < 10_000_000]
    assert (len(jumped), len(true)) == (3, 2), clocks
    assert abs(after - before) < 0.05
    assert result.folder is not None
    trace = load_trace(result.folder)
    assert trace is not None
    first = result.verdicts["mutual-exclusion"].evidence[0]
    grants = [
        one for one in trace.messages
        if one.name == "SET" and one.reply == "+OK" and abs((one.executed or 0) - first.from_ns) < 1_000_000_000
    ]  # fmt: skip
    assert {one.server for one in grants} >= {"n1", "n2", "n3"}
    assert all(one.sent and one.call is not None and one.line for one in grants)


def test_a_user_lock_and_a_user_workload_run_in_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n"
        "    def __init__(self, redis, key, ttl):\n"
        "        self.redis, self.key, self.ttl = redis, key, ttl\n"
        "    def acquire(self):\n"
        "        print('a lock that prints')\n"
        "        return self.redis.set(self.key, 'me', nx=True, px=int(self.ttl * 1000))\n"
        "    def release(self):\n"
        "        self.redis.delete(self.key)\n"
    )
    monkeypatch.chdir(tmp_path)
    result = on_docker("mine:Mine", time_limit=6.0)
    assert result.valid is True, result.document["summary"]


def test_a_slow_import_delays_no_client_beyond_its_stagger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_on_c0.py").write_text(
        "import socket, time\n"
        "from redis.lock import Lock as Slow\n"
        "if socket.gethostname().endswith('c0'):\n"
        "    time.sleep(3.0)\n"
    )
    monkeypatch.chdir(tmp_path)
    pause = FaultSpec("server-pause", at=0.0, for_=0.2)
    history = on_docker("slow_on_c0:Slow", clients=2, stagger=1.0, sections=1, time_limit=6.0, faults=(pause,)).history
    begun = [(op.f, op.node) for op in history if op.type == "invoke" and op.f in ("inject", "acquire")]
    assert begun == [("inject", None), ("acquire", "c0"), ("acquire", "c1")]


@pytest.mark.parametrize("lock", ["redis_lock:Lock", "redis.lock:Lock"])
def test_a_lock_of_an_installed_library_is_valid_without_faults(lock: str) -> None:
    result = on_docker(lock, time_limit=6.0)
    assert result.valid is True, result.document["summary"]


def test_a_crashed_client_restarts_as_a_new_process() -> None:
    crash = FaultSpec("client-crash", at=1.0, for_=1.0, params={"target": "c0", "restart": True})
    history = on_docker("redis-token", faults=(crash,)).history
    back = [op for op in history if op.node == "c0" and op.process >= 1_000_000 and op.type == "ok"]
    assert back
    assert history.time[0] == min(history.time), "in the order of time"


def test_a_fault_on_an_event_strikes_before_the_next_step() -> None:
    """The client is killed after its acquire has succeeded, and before it reads."""
    crash = FaultSpec("client-crash", on="acquire", client=1, nth=3)
    history = on_docker("redis-token", faults=(crash,)).history
    assert [(op.type, op.f) for op in history if op.node == "c1" and op.process >= 0][-1] == ("ok", "acquire")


def test_the_error_that_ends_a_client_program_is_reported() -> None:
    with pytest.raises(ClientError, match=r"the client program on c\d failed: (?s:.)*broken on purpose"):
        on_docker("redis-token", workload="tests.runs.broken_workload:Broken", time_limit=2.0)


@contextmanager
def running_command(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a run in a process of its own, and wait until it has some history."""
    command = [sys.executable, "-m", "harness", "run", "redlock", "--cluster", "docker", "--out", str(tmp_path)]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not any(path.read_bytes().count(b"\n") > 100 for path in tmp_path.glob(f"*/*/{HISTORY}")):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.1)
        try:
            yield process
        finally:
            process.kill()


def harness(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_clean_removes_all_of_a_killed_run_whose_history_stays_readable(tmp_path: Path) -> None:
    with running_command(tmp_path, "--nemesis", "partition-halves,latency") as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert len(resources_of(process)) >= 12, "this is what is to be cleaned up"
    assert "a run that is gone" in harness("cluster", "ps").stdout
    assert harness("cluster", "clean").returncode == 0
    assert resources_of(process) == []
    [folder] = tmp_path.glob("redlock/*-0")
    history, _ = History.salvage(folder / HISTORY)
    assert len(history) > 90
    report = harness("report", str(folder))
    assert report.returncode == 3, report.stderr
    assert (folder / "report.html").exists()


def test_ctrl_c_ends_a_run_with_a_report_and_removes_its_containers(tmp_path: Path) -> None:
    with running_command(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 3
    assert resources_of(process) == []
    [folder] = tmp_path.glob("redlock/*-0")
    assert (folder / "report.html").exists()
    assert '"interrupted"' in (folder / HISTORY).read_text()


def test_a_second_ctrl_c_also_leaves_no_containers(tmp_path: Path) -> None:
    with running_command(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 3
    assert resources_of(process) == []
    [folder] = tmp_path.glob("redlock/*-0")
    assert (folder / "report.html").exists()


def test_clean_keeps_the_containers_of_an_active_run(tmp_path: Path) -> None:
    with running_command(tmp_path) as process:
        before = resources_of(process)
        assert harness("cluster", "clean").returncode == 0
        [name] = {name.split("-")[2] for name in before}
        refused = harness("cluster", "down", name)
        assert refused.returncode == 2
        assert f"cluster {name} belongs to a run in progress" in refused.stderr
        assert resources_of(process) == before
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def test_a_cluster_started_by_command_stays_until_it_is_taken_down() -> None:
    up = harness("cluster", "up", "redis-sentinel")
    assert up.returncode == 0, up.stderr
    assert [line.split()[0] for line in up.stdout.splitlines()] == ["n1", "n2", "n3", "s1", "s2", "s3"]
    name = up.stderr.split()[-1]
    assert harness("cluster", "clean").returncode == 0
    listed = harness("cluster", "ps").stdout
    assert name in listed
    assert "redis-sentinel" in listed
    assert harness("cluster", "down", name).returncode == 0
    assert name not in harness("cluster", "ps").stdout
    assert harness("cluster", "down", name).returncode == 2


def test_the_doctor_finds_nothing_missing() -> None:
    said = harness("doctor")
    assert said.returncode == 0, said.stdout


def test_a_finished_run_is_judged_if_the_removal_of_its_cluster_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[Deployment] = []

    def fails(deployment: Deployment) -> None:
        removed.append(deployment)
        raise DockerException("the engine is away")

    close = Deployment.close
    monkeypatch.setattr(Deployment, "close", fails)
    try:
        result = on_docker("redis-token", time_limit=5.0)
    finally:
        for deployment in removed:
            close(deployment)
    assert result.valid is True
    assert "the engine is away" in result.document["cluster"]["left_behind"]


# Faults that strike at an exact moment


def moments(result: Result, f: str, type_: str, node: str | None = None) -> list[int]:
    """Return the places in the history of these entries."""
    return [
        place for place, op in enumerate(result.history) if (op.f, op.type) == (f, type_) and node in (None, op.node)
    ]


def test_clients_start_when_the_faults_of_time_0_are_in_effect() -> None:
    cut = FaultSpec("partition-clients", at=0.0, params={"clients": "c0", "servers": "n4,n5"})
    result = on_docker("redlock", faults=(cut,), time_limit=6.0)
    (seen,) = moments(result, "inject", "ok")
    assert seen < moments(result, "acquire", "invoke")[0]


def test_a_fault_on_a_reply_strikes_before_the_client_has_it() -> None:
    pause = FaultSpec("client-pause", on="reply:GET", client=0, for_=2.0)
    result = on_docker("redis-token-getdel", faults=(pause,), clients=2)
    (struck,) = moments(result, "inject", "invoke")
    asked, answered = moments(result, "release", "invoke", "c0")[0], moments(result, "release", "ok", "c0")[0]
    assert asked < struck < answered
    assert result.history[answered].time - result.history[struck].time >= 1_900_000_000


def test_a_request_is_not_sent_if_its_client_is_killed_before_it() -> None:
    kill = FaultSpec("client-crash", on="request:EXPIRE", client=0)
    result = on_docker("redis-setnx-expire", faults=(kill,), clients=3, stagger=0.5)
    (dead,) = moments(result, "crash", "info")
    assert moments(result, "acquire", "fail")[-1] > dead, "the others have asked"
    assert [place for place in moments(result, "acquire", "ok") if place > dead] == [], "the key has no expiry"


def test_a_server_that_does_not_start_says_why_in_its_log_and_in_the_error(tmp_path: Path) -> None:
    image = base_image.base(connect(), quiet)  # it has no redis-server
    with pytest.raises(EnvironmentLacking, match=r"not ready within 20 s: n1; .*redis-server: not found"):
        run(Plan(lock="redis-token", cluster="docker", image=image), store=tmp_path)
    (log,) = tmp_path.rglob("n1.log")
    assert "redis-server: not found" in log.read_text()
