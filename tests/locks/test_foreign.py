"""A class that is not ours is opened and used as documented, and refused with one clear message. No server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, ClassVar, Self

import pytest

from lock_impls import foreign
from lock_impls.base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from lock_impls.redis_client import Client

SINGLE = Endpoints("redis-single", (("10.0.0.1", 7001),))
THREE = Endpoints("redis-independent", (("10.0.0.1", 7001), ("10.0.0.2", 7002), ("10.0.0.3", 7003)))


class LockNotOwnedError(Exception):
    """As redis-py calls it."""


class Recorder:
    """A usable lock without a constructor of its own; the subclasses differ in what they ask for."""

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


class ByClient(Recorder):
    def __init__(self, client: Client, name: str, timeout: float | None = None, sleep: float = 0.1) -> None:
        self.made[:] = [client, name, timeout, sleep]


class TwoTtls(Recorder):
    def __init__(self, conn: Client, resource: str, timeout: float = 99, ttl: float = 99) -> None:
        self.made[:] = [conn, resource, timeout, ttl]


class ByNodes(Recorder):
    def __init__(self, *, key: str, masters: list[Client], auto_release_time: float = 10) -> None:
        self.made[:] = [key, masters, auto_release_time]


class ByAddresses(Recorder):
    def __init__(self, servers: list[tuple[str, int]], lock_name: str) -> None:
        self.made[:] = [servers, lock_name]


class ByConnectionList(Recorder):
    def __init__(self, connection_list: list[dict[str, Any]]) -> None:
        self.made[:] = [connection_list]


class Demanding(Recorder):
    def __init__(self, client: Client, key: str, zookeeper: Any, colour: str) -> None: ...


class NoRelease:
    def acquire(self) -> bool:
        return True


class Pooled:
    """Cannot wait: says no twice, then yes."""

    tries = 0

    def acquire(self) -> bool:
        Pooled.tries += 1
        return Pooled.tries > 2

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


def opened(cls: type, endpoints: Endpoints = SINGLE) -> Any:
    return foreign.load(f"{__name__}:{cls.__name__}").open(endpoints, "orders", 2.5)


def address(client: Client) -> tuple[str, int]:
    options = client.connection_pool.connection_kwargs
    return options["host"], options["port"]


def test_client_key_and_ttl_are_filled_in_and_defaults_left_alone() -> None:
    opened(ByClient)
    client, *rest = Recorder.made
    assert isinstance(client, Client)
    assert address(client) == ("10.0.0.1", 7001)
    assert rest == ["orders", 2.5, 0.1]


def test_only_the_first_name_of_a_group_is_filled_in() -> None:
    opened(TwoTtls)
    assert Recorder.made[1:] == ["orders", 99, 2.5]


def test_nodes_get_one_client_each() -> None:
    opened(ByNodes, THREE)
    key, masters, ttl = Recorder.made
    assert (key, ttl) == ("orders", 2.5)
    assert [address(client) for client in masters] == list(THREE.addresses)


def test_addresses_and_connection_list() -> None:
    opened(ByAddresses, THREE)
    assert Recorder.made == [list(THREE.addresses), "orders"]
    opened(ByConnectionList, SINGLE)
    assert Recorder.made == [[{"host": "10.0.0.1", "port": 7001, "db": 0}]]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("no.such.module:Lock", ["no module 'no'"]),
        (f"{__name__}:ByClint", ["no class called 'ByClint'", "ByClient"]),
        (f"{__name__}:NoRelease", ["no method release"]),
        (f"{__name__}:SINGLE", ["not a class"]),
        (f"{__name__}:Demanding", ["zookeeper, colour", "auto_release_time", "classmethod open"]),
        ("redis.lock", ["package.module:Class"]),
        ("redis.lock:", ["package.module:Class"]),
    ],
)
def test_what_is_no_lock_is_refused_with_one_message(spec: str, words: list[str]) -> None:
    with pytest.raises(foreign.UserLockError) as caught:
        foreign.load(spec)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_module_that_fails_to_import_is_named(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_lock.py").write_text("1/0")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(foreign.UserLockError, match="importing broken_lock failed: ZeroDivisionError"):
        foreign.load("broken_lock:Lock")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"kinds": ()}, "mine: kinds must name"), ({"safety": "S"}, "mine: safety must be one of E, F, F?, X, got 'S'")],
)
def test_an_entry_that_says_what_no_lock_can_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        LockInfo(
            **{"name": "mine", "title": "", "algorithm": "", "source": "", "safety": "E", "kinds": ("etcd",)} | wrong
        )


@pytest.mark.parametrize("spec", ["redis.lock:Lock", "redis_lock:Lock", "pottery:Redlock"])
def test_libraries_can_be_opened(spec: str) -> None:
    loaded = foreign.load(spec)
    assert loaded.info.name == spec
    assert loaded.info.kinds[0] == ("redis-independent" if "Redlock" in spec else "redis-single")


def test_answers() -> None:
    lock = opened(ByClient)
    assert lock.acquire(1) == Grant()
    Recorder.answer = Grant(fence=3)
    assert lock.acquire(1) == Grant(fence=3)
    Recorder.answer = None
    assert lock.acquire(1) is None


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Recorder.answer, Recorder.error, Pooled.tries = True, None, 0
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
def test_errors(raised: Exception, on_acquire: type[Exception], on_release: type[Exception]) -> None:
    lock = opened(ByClient)
    Recorder.error = raised
    with pytest.raises(on_acquire):
        lock.acquire(1)
    with pytest.raises(on_release):
        lock.release()


@pytest.mark.parametrize("step", [lambda lock: lock.acquire(1), lambda lock: lock.release()])
def test_an_answer_after_a_lost_one_is_not_believed(step: Callable[[Any], Any]) -> None:
    """redis-py sends again by itself; "busy" or "not yours" may then be about the first request's own effect."""

    class Forgetful(ByClient):
        def acquire(self, timeout: float) -> bool:
            self.made[0].unanswered += 1
            return False

        def release(self) -> None:
            self.made[0].unanswered += 1
            raise LockNotOwnedError

    globals()["Forgetful"] = Forgetful
    with pytest.raises(Indeterminate):
        step(opened(Forgetful))


def test_one_that_cannot_wait_is_called_again_until_the_timeout() -> None:
    assert opened(Pooled).acquire(5) == Grant()
    assert Pooled.tries == 3
    Pooled.tries = -1000
    began = time.monotonic()
    assert opened(Pooled).acquire(0.2) is None
    assert 0.2 <= time.monotonic() - began < 1


def test_blocking_is_passed_where_it_exists() -> None:
    lock = opened(Blocking)
    lock.acquire(3)
    lock.acquire(0)
    assert Blocking.calls == [
        {"blocking": True, "blocking_timeout": 3},
        {"blocking": False, "blocking_timeout": None},
    ]


def test_a_class_with_our_open_keeps_its_extra_powers() -> None:
    loaded = foreign.load(f"{__name__}:OpensItself")
    assert loaded.info.kinds == ("etcd",)
    lock: Any = loaded.open(SINGLE, "orders", 2.5)
    assert lock.acquire(1) == Grant(fence=7, valid_for=1.5)
    assert lock.still_valid() is False
    assert not hasattr(lock, "extend")
    assert not hasattr(opened(ByClient), "still_valid")
