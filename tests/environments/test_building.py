"""Environments that uv builds, from the package index."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.environments import store
from harness.environments.interpreters import interpreter_for
from harness.errors import EnvironmentLacking, UsageError

pytestmark = pytest.mark.slow
SIMULATED = """
import sys
from importlib import metadata
from harness.clusters.sim.cluster import SimCluster
from harness.plan import Plan
from harness.run.runner import Runner
from harness.worker import client_program
from harness.worker.resource import Resource

lock, kind, nodes, library = sys.argv[1:]
plan = Plan(lock=lock, kind=kind, nodes=int(nodes), cluster="sim", time_limit=5.0).check()
cluster = SimCluster(kind=kind, nodes=int(nodes), clients=plan.clients, seed=0, options={}, shuffle=False,
                     resource=Resource(plan.fencing, {}).answer, program=client_program.run)
runner = Runner(plan, cluster, writer=None, progress=None)
runner.run()
acquired = sum(op.f == "acquire" and op.type == "ok" for op in runner.recorder.history)
print(metadata.version(library), acquired, "numpy" in sys.modules)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "cache"))


def simulate_in(interpreter: Path, *arguments: str) -> list[str]:
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [interpreter, "-c", SIMULATED, *arguments], cwd=interpreter.parent, capture_output=True, text=True, check=False,
        env=outside,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("lock", "kind", "nodes", "release", "python"),
    [
        ("redlock", "redis-independent", "5", "redis==5.2.1", ""),
        ("redlock", "redis-independent", "5", "redis==5.2.1", "3.13"),
        ("redis.lock:Lock", "redis-single", "1", "redis==3.5.3", ""),
        ("redis.lock:Lock", "redis-single", "1", "redis==2.10.6", ""),
        ("kazoo-lock", "zookeeper", "3", "kazoo==2.10.0", ""),
    ],
)
def test_a_lock_runs_with_the_requested_release(lock: str, kind: str, nodes: str, release: str, python: str) -> None:
    library, _, version = release.partition("==")
    found = interpreter_for(lock, [release], python)
    seen, acquired, has_numpy = simulate_in(found.path, lock, kind, nodes, library)
    assert (seen, has_numpy) == (version, "False")
    assert int(acquired) > 20


def test_an_environment_is_used_again_without_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    first = interpreter_for("redlock", ["redis==5.2.1"])
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", "/nonexistent")
    assert interpreter_for("redlock", ["redis==5.2.1"]) == first


def test_a_release_that_does_not_exist_is_one_line() -> None:
    with pytest.raises(UsageError, match="no version of redis==99") as caught:
        interpreter_for("redlock", ["redis==99"])
    assert "\n" not in str(caught.value)


def test_a_python_that_does_not_exist_is_one_line() -> None:
    with pytest.raises(EnvironmentLacking, match=r"there is no Python 3\.99 for the lock") as caught:
        interpreter_for("redlock", python="3.99")
    assert "\n" not in str(caught.value)
