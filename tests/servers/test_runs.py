"""Runs on servers that the user runs: verdicts, the servers' other keys, and what a killed harness leaves."""

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

from harness import FaultSpec, Plan, run
from harness.clusters.servers import cleaner
from harness.clusters.servers.adapter import PATIENCE_S as PATIENCE_OF_AN_ANSWER_S
from harness.clusters.servers.addresses import parse_server
from harness.clusters.servers.services.redis import RedisServer
from harness.errors import EnvironmentLacking, UsageError
from harness.fidelity.processes import ServerProcess

from .own_redis import asking, keys, url

PATIENCE_S = 120.0
"""A slow machine must not miss it."""
FOREIGN = {b"user:1": b"Ada", b"k0": b"not a lock", b"my-harness:k0": b"x", b"k0:fence": b"7"}


def plan(server: ServerProcess, lock: str = "redis-token", **more: Any) -> Plan:
    fields = {"ttl": 0.5, "hold": 0.05, "time_limit": 4.0, "clients": 3, **more}
    return Plan(lock=lock, cluster="servers", servers=(url(server),), **fields)


PAUSE = FaultSpec("client-pause", on="acquire", nth=3, for_=1.0)


@pytest.mark.slow
def test_a_pause_makes_an_unfenced_lock_fail_and_other_keys_stay(redis_server: ServerProcess, tmp_path: Path) -> None:
    with asking(redis_server) as ask:
        for key, value in FOREIGN.items():
            ask("SET", key, value)
    result = run(plan(redis_server, faults=(PAUSE,)), store=tmp_path)
    assert result.valid is False
    assert "mutual-exclusion" in {name for name, verdict in result.verdicts.items() if verdict.valid is False}
    assert result.verdicts["faults"].valid is True, result.verdicts["faults"].explanation
    with asking(redis_server) as ask:
        assert {key: ask("GET", key) for key in FOREIGN} == FOREIGN
    assert keys(redis_server) == set(FOREIGN)
    cluster = result.document["cluster"]
    assert cluster["server"].startswith(("redis ", "valkey "))
    assert cluster["addresses"] == [url(redis_server)]
    assert "one monotonic clock" in cluster["clock"]
    assert result.document["versions"]["redis"]


@pytest.mark.slow
def test_a_fenced_lock_stays_valid_and_its_counter_is_removed(redis_server: ServerProcess) -> None:
    result = run(plan(redis_server, "redis-fenced", fencing="on", faults=(PAUSE,)))
    assert result.valid is True, result.document["summary"]
    assert result.document["cluster"]["keys_removed"] >= 1
    assert not [key for key in keys(redis_server) if key.startswith(b"harness:")]


@pytest.mark.slow
def test_the_history_names_locks_without_the_prefix(redis_server: ServerProcess, tmp_path: Path) -> None:
    result = run(plan(redis_server, time_limit=2.0), store=tmp_path)
    assert {op.key for op in result.history if op.f == "acquire"} == {"k0"}
    assert result.folder is not None
    seen = [json.loads(line) for line in (result.folder / "keys.jsonl").read_text().splitlines()]
    assert {state.get("key") for state in seen} == {"k0"}


def harness(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "harness", *arguments]


def children(*, of: int) -> list[int]:
    """Ids of the harness's programs that have this harness as their first argument, in /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(b"harness.") for word in words) and str(of).encode() in words:
            found.append(int(folder.name))
    return found


def wait_until(what: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("lock", ["redis-fenced", pytest.param("redis-setnx", marks=pytest.mark.slow)])
def test_a_killed_harness_leaves_no_process_and_no_key(redis_server: ServerProcess, tmp_path: Path, lock: str) -> None:
    """redis-setnx's key has no expiry, nor has the counter of redis-fenced."""
    before = keys(redis_server)
    command = harness("run", lock, "--servers", url(redis_server), "--out", str(tmp_path), "--nemesis", "client-pause")
    process = subprocess.Popen([*command, "--time-limit", "60s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: any(b'"inject"' in path.read_bytes() for path in tmp_path.glob("*/*/history.jsonl")))
    assert [key for key in keys(redis_server) if key.startswith(b"harness:")]
    started = children(of=process.pid)
    assert len(started) > 5 * 2, "clients and their relays, proxy, resource and cleaner"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not children(of=process.pid))
    assert keys(redis_server) == before


@pytest.mark.slow
def test_an_interrupted_run_leaves_a_history_and_no_key(redis_server: ServerProcess, tmp_path: Path) -> None:
    before = keys(redis_server)
    command = harness("run", "redis-token", "--servers", url(redis_server), "--out", str(tmp_path))
    process = subprocess.Popen([*command, "--time-limit", "60s"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_until(lambda: any(b'"acquire"' in path.read_bytes() for path in tmp_path.glob("*/*/history.jsonl")))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3
    assert keys(redis_server) == before
    assert not children(of=process.pid)
    (results,) = tmp_path.glob("*/*/results.json")
    assert json.loads(results.read_text())["valid"] is None


def test_no_docker_library_is_loaded() -> None:
    """A user without an engine has not installed them."""
    modules = "harness.clusters.servers.cluster, harness.clusters.servers.services.redis, harness.run.plans.servers"
    libraries = ("docker", "toxiproxy", "requests")
    check = f"import sys, {modules}; print([name for name in {libraries} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_keys_of_another_run_are_refused(redis_server: ServerProcess) -> None:
    with asking(redis_server) as ask:
        ask("SET", "harness:0000:k0", "x")
        try:
            with pytest.raises(UsageError, match="has keys that begin with 'harness:', such as harness:0000:k0"):
                run(plan(redis_server))
        finally:
            ask("DEL", "harness:0000:k0")


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(EnvironmentLacking, match=r"the Redis at 127\.0\.0\.1:1: .*refused"):
        run(Plan(lock="redis-token", cluster="servers", servers=("redis://127.0.0.1:1",)))


def test_the_cleaner_gives_up_after_about_40_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 40 <= cleaner.ROUNDS * (PATIENCE_OF_AN_ANSWER_S + cleaner.PAUSE_S) <= 50
    monkeypatch.setattr(cleaner, "PAUSE_S", 0.0)
    removed, failures = cleaner.clean([RedisServer(parse_server("redis://127.0.0.1:1"))], "harness:0000")
    assert removed == 0
    assert "refused" in failures[0]


def test_one_server_under_two_names_is_refused(redis_server: ServerProcess) -> None:
    port = redis_server.place.address[1]
    twice = Plan(lock="redlock", cluster="servers", servers=(f"redis://127.0.0.1:{port}", f"redis://localhost:{port}"))
    with pytest.raises(UsageError, match="is the same server as n1"):
        run(twice)


def test_servers_on_other_machines_need_permission() -> None:
    with pytest.raises(UsageError, match=r"redis://192\.0\.2\.1:6379 is not on this machine.*--yes"):
        run(Plan(lock="redis-token", cluster="servers", servers=("redis://192.0.2.1:6379",)))


@pytest.mark.slow
def test_waits_for_a_processor_are_recorded(redis_server: ServerProcess, tmp_path: Path) -> None:
    """The run shares one processor with programs that are always busy."""
    on_one = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    busy = [subprocess.Popen([*on_one, sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        command = harness("run", "redis-token", "--servers", url(redis_server), "--out", str(tmp_path))
        subprocess.run([*on_one, *command, "--time-limit", "6s"], check=False, timeout=PATIENCE_S)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    (history,) = tmp_path.glob("*/*/history.jsonl")
    stop = json.loads(history.read_text().splitlines()[-1])
    assert stop["f"] == "stop"
    assert sum(wait for _, wait in stop["value"]["processor_waits"]) > 10**8
