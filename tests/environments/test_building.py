"""Environments that uv builds, from the package index."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import hunt, run
from harness.environments import store
from harness.environments.interpreters import interpreter_for
from harness.errors import EnvironmentLacking, UsageError
from harness.plan import Plan
from harness.search.executions import repeat
from harness.search.exhaustive import exhaust
from harness.search.replay import simulate
from harness.search.request import HuntRequest
from harness.search.scope import Scope

OLD_CLIENT = """# /// script
# dependencies = ["redis==3.5.3"]
# ///
import redis

assert redis.__version__ == "3.5.3"


class OldClientLock:
    def __init__(self, client, name, ttl):
        self.client, self.name, self.ttl = client, name, ttl

    def acquire(self, timeout):
        return bool(self.client.set(self.name, "taken", nx=True, px=int(self.ttl * 1000)))

    def release(self):
        self.client.delete(self.name)
"""
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("lock", "release", "python"),
    [
        ("redlock", "redis==5.2.1", ""),
        ("redlock", "redis==5.2.1", "3.13"),
        ("redis.lock:Lock", "redis==3.5.3", ""),
        ("redis.lock:Lock", "redis==2.10.6", ""),
        ("kazoo-lock", "kazoo==2.10.0", ""),
    ],
)
def test_a_lock_runs_with_the_requested_release(lock: str, release: str, python: str) -> None:
    """The environment has no numpy and no other library of the harness's own, so the worker needs none."""
    library, _, version = release.partition("==")
    result = run(Plan(lock=lock, requires=(release,), python=python, time_limit=5.0))
    assert result.results.versions[library] == version
    assert (result.results.versions["python"] or "").startswith(python)
    assert result.results.stats.acquires_ok > 20
    assert result.valid is True, result.reason


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


def test_a_hunt_runs_its_schedules_with_the_requested_release() -> None:
    request = HuntRequest(lock="redis-token", faults=("eviction",), requires=("redis==5.2.1",), schedules=10)
    found = hunt(request, rounds=1, stop_at_first=True)
    assert found.results.versions["redis"] == "5.2.1"
    assert found.findings
    assert {one.plan.requires for one in found.findings} == {("redis==5.2.1",)}


def test_an_exhaustive_search_of_a_users_class_uses_the_metadata_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old_client.py").write_text(OLD_CLIENT)
    scope = Scope(lock="old_client:OldClientLock", access=False)
    found = exhaust(scope)
    assert found.violation is not None, "a paused client deletes the key of another one"
    assert repeat(scope, found.violation.steps).broken() == found.violation.broken


def test_a_rehearsal_for_containers_runs_with_the_requested_release() -> None:
    assert simulate(Plan(lock="redis-token", requires=("redis==5.2.1",), time_limit=3.0)).violated() == ()
