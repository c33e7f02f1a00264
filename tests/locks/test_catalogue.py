"""The catalogue finds all locks of its folder, imports only what it needs, and helps with a wrong name."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

from harness.errors import MISSING
from harness.lock_impls import catalogue
from harness.lock_impls.base import LockLookupError

REDIS_LOCKS = {
    "redis-setnx",
    "redis-setnx-expire",
    "redis-getset",
    "redis-set-ex",
    "redis-token-getdel",
    "redis-token",
    "redis-fenced",
    "redis-watchdog",
    "redis-reentrant",
    "redis-wait",
    "redlock",
}


def test_all_redis_locks_are_found() -> None:
    assert set(catalogue.names()) >= REDIS_LOCKS
    assert catalogue.names() == tuple(sorted(catalogue.names()))


@pytest.mark.parametrize("name", catalogue.names())
def test_each_lock_has_a_complete_description(name: str) -> None:
    lock = catalogue.find(name)
    info = lock.info
    assert info.name == name
    assert info.title
    assert info.algorithm
    assert info.source
    assert info.kinds
    assert info.safety in {"E", "F", "F?", "X"}
    assert sys.modules[lock.__module__].__doc__
    assert lock is catalogue.resolve(name)


def test_finding_a_lock_imports_no_other_lock() -> None:
    code = "import sys; from harness.lock_impls import catalogue; catalogue.find('redlock'); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "harness.lock_impls.redlock" in modules
    assert "harness.lock_impls.redis_token" not in modules


@pytest.mark.parametrize("name", ["redis-tokn", "base", "redis_client", "", "../x", "redis.token", "thirdparty"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(LockLookupError, match="no lock is called"):
        catalogue.find(name)


def test_error_for_an_unknown_name_offers_the_nearest_one() -> None:
    with pytest.raises(catalogue.UnknownLockError, match="did you mean redis-token") as caught:
        catalogue.find("redis-tokn")
    assert "redis-token" in caught.value.nearest


def test_missing_client_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "harness.lock_impls.redlock", raising=False)
    monkeypatch.setitem(sys.modules, "redis.backoff", None)
    monkeypatch.setattr(metadata, "version", not_installed)
    with pytest.raises(catalogue.MissingClientLibraryError, match=r"redlock needs the Python module 'redis.backoff'"):
        catalogue.find("redlock")


def not_installed(name: str) -> str:
    raise metadata.PackageNotFoundError(name)


def test_a_release_that_a_lock_cannot_be_loaded_with_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "harness.lock_impls.zookeeper_ephemeral", raising=False)
    monkeypatch.delitem(sys.modules, "harness.lock_impls.zookeeper_client", raising=False)
    monkeypatch.delattr("kazoo.handlers.threading.KazooTimeoutError")
    monkeypatch.setattr(metadata, "version", lambda _: "1.0")
    expected = r"zookeeper-ephemeral cannot be loaded with kazoo 1\.0: ImportError: .*KazooTimeoutError.*kazoo>=2\.8"
    with pytest.raises(LockLookupError, match=expected):
        catalogue.find("zookeeper-ephemeral")


def test_the_error_for_a_missing_library_says_what_to_install() -> None:
    extra = catalogue.MissingClientLibraryError(catalogue.description("zookeeper-herd"), "kazoo")
    assert "pip install 'lock-harness[zookeeper]'" in str(extra)
    pinned = catalogue.MissingClientLibraryError(catalogue.description("pottery-redlock"), "pottery")
    assert "pip install 'pottery==3.0.1' 'redis==8.1.0'" in str(pinned)
    assert (extra.exit_status, pinned.exit_status) == (MISSING, MISSING)
