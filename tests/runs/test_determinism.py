"""The same seed gives the same history, byte for byte, in another process with another hash seed, and after
other runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.faults.catalogue import default_specs
from harness.plan import Plan
from harness.run.runs import run

PROGRAM = """
import sys
from pathlib import Path
from harness.faults.catalogue import default_specs
from harness.plan import Plan
from harness.run.runs import run
lock, nemesis, kind, seed, store = sys.argv[1:]
faults = tuple(default_specs(nemesis, 2.0))
result = run(Plan(lock=lock, kind=kind, seed=int(seed), time_limit=8.0, faults=faults), store=Path(store))
print(result.folder / "history.jsonl")
"""
CASES = [
    ("redlock", "clock-skew", "redis-independent"),
]
MORE = [
    ("redis-wait", "failover", "redis-sentinel"),
    ("zookeeper-sequential", "leader-loss", "zookeeper"),
    ("mysql-ttl", "failover", "mysql-replicated"),
    ("memcached-token", "eviction", "memcached"),
    ("etcd-mutex", "leader-loss", "etcd"),
    ("redis_lock:Lock", "kill", "redis-single"),
    ("redis.lock:Lock", "client-crash", "redis-single"),
    ("redis-reentrant", "connection-reset", "redis-single"),
    ("redis-watchdog", "client-pause", "redis-single"),
    ("redlock", "packet-loss", "redis-independent"),
    ("tests.runs.parallel_redlock:ParallelRedlock", "client-pause", "redis-independent"),
    ("kazoo-lock", "connection-reset", "zookeeper"),
    ("etcd3-lock", "client-pause", "etcd"),
    ("chubby-etcd", "latency", "etcd"),
    ("chubby", "leader-loss", "chubby"),
]


def in_another_process(case: tuple[str, str, str], hash_seed: str, store: Path, seed: int = 3) -> bytes:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-c", PROGRAM, *case, str(seed), str(store)]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip()).read_bytes()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{case[0]}-{case[1]}", marks=[pytest.mark.slow] if case in MORE else [])
        for case in (*CASES, *MORE)
    ],
)
def test_two_processes_record_the_same_bytes(case: tuple[str, str, str], tmp_path: Path) -> None:
    first = in_another_process(case, "1", tmp_path / "a")
    assert first == in_another_process(case, "2", tmp_path / "b")
    assert first.count(b"\n") > 100


@pytest.mark.slow
def test_another_seed_gives_another_history(tmp_path: Path) -> None:
    first = in_another_process(CASES[0], "1", tmp_path / "a")
    assert first != in_another_process(CASES[0], "1", tmp_path / "b", seed=4)


@pytest.mark.slow
def test_earlier_runs_do_not_change_the_history(tmp_path: Path) -> None:
    plan = Plan(lock="redlock", time_limit=5.0, seed=9, faults=tuple(default_specs("clock-skew", 2.0)))
    first = run(plan).history
    run(Plan(lock="redis-watchdog", time_limit=3.0, seed=1))
    assert list(first) == list(run(plan).history)
