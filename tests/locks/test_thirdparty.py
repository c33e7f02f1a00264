"""Locks of libraries: that they are run as published, in the version that is pinned, and what their answers are worth
when one was lost."""

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

from harness.containers import wheelhouse
from lock_impls import catalogue
from lock_impls.base import Indeterminate, LockError, LockInfo
from lock_impls.redis_client import Client
from lock_impls.thirdparty import redlock_ng
from lock_impls.thirdparty.pottery_redlock import PotteryRedlock
from lock_impls.thirdparty.python_redis_lock import PythonRedisLock
from lock_impls.thirdparty.redis_py_lock import RedisPyLock
from lock_impls.thirdparty.redlock_ng import RedlockNg
from lock_impls.thirdparty.redlock_py import RedlockPy
from lock_impls.thirdparty.sherlock_redis import SherlockRedis

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OF_LIBRARIES = [info for info in catalogue.infos() if info.library and info.language == "Python"]


@pytest.mark.parametrize("info", OF_LIBRARIES, ids=lambda info: info.name)
def test_the_library_is_the_version_that_was_tested_and_pinned(info: LockInfo) -> None:
    assert info.promises
    assert info.library in info.source
    name, version = info.library.split(" ")
    if name == "redlock-ng":  # it cannot be installed beside redlock-py
        assert redlock_ng.WHEEL.name == f"redlock_ng-{version}-py3-none-any.whl"
        return
    assert metadata.version(name) == version
    optional = (one for extra in PROJECT["optional-dependencies"].values() for one in extra)
    assert f"{name}=={version}" in {*PROJECT["dependencies"], *optional}


def test_the_libraries_that_locks_are_around_are_named() -> None:
    around = {name for name in catalogue.names() if catalogue.find(name).__module__.startswith("lock_impls.thirdparty")}
    assert around <= {info.name for info in catalogue.infos() if info.library}


# redlock-ng


def test_the_wheel_of_redlock_ng_is_the_published_one() -> None:
    """The SHA-256 is what pip is told: ``pip install --dry-run --no-deps -I --report - redlock-ng==2.0.4``."""
    assert hashlib.sha256(redlock_ng.WHEEL.read_bytes()).hexdigest() == redlock_ng.SHA256


def test_redlock_ng_and_redlock_py_are_both_as_they_are_published() -> None:
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
    assert packed[f"lock_impls/thirdparty/wheels/{redlock_ng.WHEEL.name}"] == redlock_ng.WHEEL.read_bytes()


# Lost answers


class OneAnswerLost(Client):
    """Says to each SET (and to each script) that another one has the lock; ``lost`` is whether it had been sent before,
    and that answer lost."""

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
def test_taken_after_a_lost_answer_is_unknown() -> None:
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


def test_a_script_of_sherlock_s_that_failed_may_have_set_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(*_: Any, **__: Any) -> Any:
        raise redis.ResponseError("value is not an integer or out of range")

    monkeypatch.setattr(OneAnswerLost, "execute_command", failed)
    with pytest.raises(Indeterminate, match="the script failed"):
        SherlockRedis(OneAnswerLost(), "k", 1.0).acquire(0)


@pytest.mark.parametrize(("lost", "error"), [(True, Indeterminate), (False, LockError)])
def test_redlock_py_s_error_of_some_servers_is_no_hold(lost: bool, error: type[Exception]) -> None:
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
