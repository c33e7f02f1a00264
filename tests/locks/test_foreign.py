"""A user's lock class is opened and called as documented, or refused with one clear message. Needs no server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, ClassVar, Self

import pytest

from harness.errors import MissingLibrary
from harness.lock_impls import foreign
from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.constructor_arguments import UserLockError
from harness.lock_impls.redis_client import RedisClient

SINGLE = Endpoints("redis-single", (("10.0.0.1", 7001),))
THREE = Endpoints("redis-independent", (("10.0.0.1", 7001), ("10.0.0.2", 7002), ("10.0.0.3", 7003)))


class LockNotOwnedError(Exception):
    """redis-py's name for this error."""


class ConfigurableLock:
    """A usable lock without its own constructor; subclasses differ in their constructor's parameters."""

    made: ClassVar[list[Any]] = []
    answer: Any = True
    error: Exception | None = None

    def acquire(self, timeout: float) -> Any:
        self.waited = timeout
        if self.error:
            raise self.error
        return self.answer

    def release(self) -> None:
        if self.error:
            raise self.error


class ByClient(ConfigurableLock):
    def __init__(self, client: RedisClient, name: str, timeout: float | None = None, sleep: float = 0.1) -> None:
        self.made[:] = [client, name, timeout, sleep]


class TwoTtls(ConfigurableLock):
    def __init__(self, conn: RedisClient, resource: str, timeout: float = 99, ttl: float = 99) -> None:
        self.made[:] = [conn, resource, timeout, ttl]


class ByNodes(ConfigurableLock):
    def __init__(self, *, key: str, masters: list[RedisClient], auto_release_time: float = 10) -> None:
        self.made[:] = [key, masters, auto_release_time]


class ByAddresses(ConfigurableLock):
    def __init__(self, servers: list[tuple[str, int]], lock_name: str) -> None:
        self.made[:] = [servers, lock_name]


class ByConnectionList(ConfigurableLock):
    def __init__(self, connection_list: list[dict[str, Any]]) -> None:
        self.made[:] = [connection_list]


class UnknownParameters(ConfigurableLock):
    def __init__(self, client: RedisClient, key: str, zookeeper: Any, colour: str) -> None: ...


class NoRelease:
    def acquire(self) -> bool:
        return True


class SucceedsOnThirdTry:
    """A lock that cannot wait: it refuses twice, then succeeds."""

    tries = 0

    def acquire(self) -> bool:
        SucceedsOnThirdTry.tries += 1
        return SucceedsOnThirdTry.tries > 2

    def release(self) -> None: ...


class Blocking:
    calls: ClassVar[list[dict[str, Any]]] = []

    def acquire(self, blocking: bool = True, blocking_timeout: float | None = None) -> bool:
        self.calls.append({"blocking": blocking, "blocking_timeout": blocking_timeout})
        return False

    def release(self) -> None: ...


class OpensItself:
    kinds = ("etcd",)

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        return cls()

    def acquire(self, timeout: float) -> Grant:
        return Grant(fence=7, valid_for=1.5)

    def release(self) -> None: ...

    def still_valid(self) -> bool:
        return False


def open_lock(cls: type, endpoints: Endpoints = SINGLE) -> Any:
    return foreign.load(f"{__name__}:{cls.__name__}").open(endpoints, "orders", 2.5)


def address(client: RedisClient) -> tuple[str, int]:
    options = client.connection_pool.connection_kwargs
    return options["host"], options["port"]


def test_client_key_and_ttl_are_filled_in_and_defaults_kept() -> None:
    open_lock(ByClient)
    client, *rest = ConfigurableLock.made
    assert isinstance(client, RedisClient)
    assert address(client) == ("10.0.0.1", 7001)
    assert rest == ["orders", 2.5, 0.1]


def test_only_the_first_name_of_a_group_is_filled_in() -> None:
    open_lock(TwoTtls)
    assert ConfigurableLock.made[1:] == ["orders", 99, 2.5]


def test_nodes_get_one_client_each() -> None:
    open_lock(ByNodes, THREE)
    key, masters, ttl = ConfigurableLock.made
    assert (key, ttl) == ("orders", 2.5)
    assert [address(client) for client in masters] == list(THREE.addresses)


def test_addresses_and_connection_list() -> None:
    open_lock(ByAddresses, THREE)
    assert ConfigurableLock.made == [list(THREE.addresses), "orders"]
    open_lock(ByConnectionList, SINGLE)
    assert ConfigurableLock.made == [[{"host": "10.0.0.1", "port": 7001, "db": 0}]]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("no.such.module:Lock", ["no module 'no'"]),
        (f"{__name__}:ByClint", ["no class called 'ByClint'", "ByClient"]),
        (f"{__name__}:NoRelease", ["no method release"]),
        (f"{__name__}:SINGLE", ["not a class"]),
        (f"{__name__}:UnknownParameters", ["zookeeper, colour", "auto_release_time", "classmethod open"]),
        ("redis.lock", ["package.module:Class"]),
        ("redis.lock:", ["package.module:Class"]),
    ],
)
def test_class_that_is_not_a_lock_is_refused_with_one_message(spec: str, words: list[str]) -> None:
    with pytest.raises((UserLockError, MissingLibrary)) as caught:
        foreign.load(spec)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_module_that_fails_to_import_is_named(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_lock.py").write_text("1/0")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserLockError, match="importing broken_lock failed: ZeroDivisionError"):
        foreign.load("broken_lock:Lock")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"kinds": ()}, "mine: kinds must name"), ({"safety": "S"}, "mine: safety must be one of E, F, F?, X, got 'S'")],
)
def test_invalid_lock_info_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        LockInfo(
            **{"name": "mine", "title": "", "algorithm": "", "source": "", "safety": "E", "kinds": ("etcd",)} | wrong
        )


@pytest.mark.parametrize("spec", ["redis.lock:Lock", "redis_lock:Lock", "pottery:Redlock"])
def test_libraries_can_be_opened(spec: str) -> None:
    loaded = foreign.load(spec)
    assert loaded.info.name == spec
    assert loaded.info.kinds[0] == ("redis-independent" if "Redlock" in spec else "redis-single")


def test_results_of_acquire_become_grants() -> None:
    lock = open_lock(ByClient)
    assert lock.acquire(1) == Grant()
    ConfigurableLock.answer = Grant(fence=3)
    assert lock.acquire(1) == Grant(fence=3)
    ConfigurableLock.answer = None
    assert lock.acquire(1) is None


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ConfigurableLock.answer, ConfigurableLock.error, SucceedsOnThirdTry.tries = True, None, 0
    Blocking.calls.clear()


@pytest.mark.parametrize(
    ("raised", "on_acquire", "on_release"),
    [
        (LockError("ours"), LockError, LockError),
        (Indeterminate("ours"), Indeterminate, Indeterminate),
        (LockNotOwnedError("theirs"), Indeterminate, LockError),
        (ConnectionError("lost"), Indeterminate, Indeterminate),
    ],
)
def test_errors_become_outcomes(raised: Exception, on_acquire: type[Exception], on_release: type[Exception]) -> None:
    lock = open_lock(ByClient)
    ConfigurableLock.error = raised
    with pytest.raises(on_acquire):
        lock.acquire(1)
    with pytest.raises(on_release):
        lock.release()


@pytest.mark.parametrize("step", [lambda lock: lock.acquire(1), lambda lock: lock.release()])
def test_result_after_a_lost_answer_is_indeterminate(step: Callable[[Any], Any]) -> None:
    """redis-py repeats requests by itself; "busy" or "not yours" may then be an effect of the first request."""

    class Forgetful(ByClient):
        def acquire(self, timeout: float) -> bool:
            self.made[0].unanswered += 1
            return False

        def release(self) -> None:
            self.made[0].unanswered += 1
            raise LockNotOwnedError

    globals()["Forgetful"] = Forgetful
    with pytest.raises(Indeterminate):
        step(open_lock(Forgetful))


def test_acquire_that_cannot_wait_is_repeated_until_the_timeout() -> None:
    assert open_lock(SucceedsOnThirdTry).acquire(5) == Grant()
    assert SucceedsOnThirdTry.tries == 3
    SucceedsOnThirdTry.tries = -1000
    began = time.monotonic()
    assert open_lock(SucceedsOnThirdTry).acquire(0.2) is None
    assert time.monotonic() - began >= 0.2


def test_blocking_is_passed_where_it_exists() -> None:
    lock = open_lock(Blocking)
    lock.acquire(3)
    lock.acquire(0)
    assert Blocking.calls == [
        {"blocking": True, "blocking_timeout": 3},
        {"blocking": False, "blocking_timeout": None},
    ]


def test_class_with_open_keeps_its_optional_methods() -> None:
    loaded = foreign.load(f"{__name__}:OpensItself")
    assert loaded.info.kinds == ("etcd",)
    lock: Any = loaded.open(SINGLE, "orders", 2.5)
    assert lock.acquire(1) == Grant(fence=7, valid_for=1.5)
    assert lock.still_valid() is False
    assert not hasattr(lock, "extend")
    assert not hasattr(open_lock(ByClient), "still_valid")
