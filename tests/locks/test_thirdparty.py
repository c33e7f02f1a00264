"""Third-party locks: they run unmodified in the pinned version, and after lost answers their results count as
unknown."""

from __future__ import annotations

import hashlib
import re
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import redis

from harness.clusters.docker.images import wheelhouse
from harness.lock_impls import catalogue
from harness.lock_impls.base import Indeterminate, LockError, LockInfo
from harness.lock_impls.redis_client import RedisClient
from harness.lock_impls.thirdparty import redlock_ng
from harness.lock_impls.thirdparty.pottery_redlock import PotteryRedlock
from harness.lock_impls.thirdparty.python_redis_lock import PythonRedisLock
from harness.lock_impls.thirdparty.redis_py_lock import RedisPyLock
from harness.lock_impls.thirdparty.redlock_ng import RedlockNg
from harness.lock_impls.thirdparty.redlock_py import RedlockPy
from harness.lock_impls.thirdparty.sherlock_redis import SherlockRedis

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OWN_ENVIRONMENT = {"apscheduler-lease", "kubernetes-leader"}
"""Locks whose library cannot be installed beside those of the others."""
OF_LIBRARIES = [info for info in catalogue.infos() if info.library and info.language == "Python"]


@pytest.mark.parametrize("info", OF_LIBRARIES, ids=lambda info: info.name)
def test_installed_library_has_the_tested_and_pinned_version(info: LockInfo) -> None:
    assert info.promises
    assert info.library in info.source
    name, version = info.library.split(" ")
    if name == "redlock-ng":  # it cannot be installed beside redlock-py
        assert redlock_ng.WHEEL.name == f"redlock_ng-{version}-py3-none-any.whl"
        return
    if info.name not in OWN_ENVIRONMENT:
        assert metadata.version(name) == version
    optional = (one for extra in PROJECT["optional-dependencies"].values() for one in extra)
    pinned = {one.partition(";")[0] for one in (*PROJECT["dependencies"], *optional)}
    assert f"{name}=={version}" in pinned


def test_adapted_libraries_are_named() -> None:
    around = {
        name
        for name in catalogue.names()
        if catalogue.find(name).__module__.startswith("harness.lock_impls.thirdparty")
    }
    assert around <= {info.name for info in catalogue.infos() if info.library}


# redlock-ng


def test_wheel_of_redlock_ng_is_the_published_one() -> None:
    """pip reports this SHA-256: ``pip install --dry-run --no-deps -I --report - redlock-ng==2.0.4``."""
    assert hashlib.sha256(redlock_ng.WHEEL.read_bytes()).hexdigest() == redlock_ng.SHA256


def test_redlock_ng_and_redlock_py_are_both_unmodified() -> None:
    import redlock

    assert not hasattr(redlock, "RedlockConfig")
    assert Path(redlock.__file__).parent.name == "redlock"
    with zipfile.ZipFile(redlock_ng.WHEEL) as wheel:
        source = wheel.read("redlock/lock.py").decode()
    loaded = redlock_ng.redlock_ng
    assert re.findall(r"^class (\w+)", source, re.MULTILINE) == [
        name for name, value in vars(loaded).items() if getattr(value, "__module__", "") == loaded.__name__
    ]


def test_the_client_image_gets_the_wheel() -> None:
    packed = wheelhouse.sources()
    assert packed[f"harness/lock_impls/thirdparty/wheels/{redlock_ng.WHEEL.name}"] == redlock_ng.WHEEL.read_bytes()


# Lost answers


class OneAnswerLost(RedisClient):
    """Answers each SET (and each script) that another client has the lock.

    ``lost``: the request had been sent before, and that answer was lost.
    """

    lost = True

    def execute_command(self, *args: Any, **options: Any) -> Any:
        self.unanswered += self.lost
        return {"SET": None, "GET": None}.get(args[0], 0)


def locks(lost: bool) -> list[Any]:
    def client() -> OneAnswerLost:
        made = OneAnswerLost()
        made.lost = lost
        return made

    ng = RedlockNg((("localhost", 1),), "k", 1.0)
    ng._clients = (client(),)
    ng._manager.client.instances = list(ng._clients)
    return [
        RedisPyLock(client(), "k", 1.0),
        PythonRedisLock(client(), "k", 1.0),
        SherlockRedis(client(), "k", 1.0),
        PotteryRedlock((client(),), "k", 1.0),
        RedlockPy((client(),), "k", 1.0),
        ng,
    ]


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.mark.usefixtures("_at_once")
def test_busy_after_a_lost_answer_is_unknown() -> None:
    for lock in locks(lost=True):
        with pytest.raises(Indeterminate, match="held by this very client"):
            lock.acquire(0)
    assert [lock.acquire(0) for lock in locks(lost=False)] == [None] * 6


def test_a_refused_release_after_a_lost_answer_is_unknown() -> None:
    for lost, error in ((True, Indeterminate), (False, LockError)):
        lock = RedisPyLock(client := OneAnswerLost(), "k", 1.0)
        lock._lock.local.token = b"mine"
        client.lost = lost
        with pytest.raises(error):
            lock.release()


def test_an_error_before_anything_was_sent_is_known_not_to_have_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise redis.ConnectionError("Connection refused")

    monkeypatch.setattr(OneAnswerLost, "execute_command", refused)
    for lock in (RedisPyLock(OneAnswerLost(), "k", 1.0), SherlockRedis(OneAnswerLost(), "k", 1.0)):
        with pytest.raises(LockError, match="Connection refused"):
            lock.acquire(0)


def test_failed_script_of_sherlock_may_have_set_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(*_: Any, **__: Any) -> Any:
        raise redis.ResponseError("value is not an integer or out of range")

    monkeypatch.setattr(OneAnswerLost, "execute_command", failed)
    with pytest.raises(Indeterminate, match="the script failed"):
        SherlockRedis(OneAnswerLost(), "k", 1.0).acquire(0)


@pytest.mark.parametrize(("lost", "error"), [(True, Indeterminate), (False, LockError)])
def test_error_of_redlock_py_about_some_servers_is_not_a_hold(lost: bool, error: type[Exception]) -> None:
    class Votes(OneAnswerLost):
        refuses = False

        def execute_command(self, *args: Any, **options: Any) -> Any:
            if self.refuses:
                self.unanswered += lost
                raise redis.ConnectionError("Connection refused")
            return True

    servers = (Votes(), Votes(), Votes())
    servers[2].refuses = True
    with pytest.raises(error, match="Connection refused"):
        RedlockPy(servers, "k", 1.0).acquire(0)
