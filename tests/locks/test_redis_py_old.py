"""Stand-ins for methods that old releases of redis-py lack do what the methods of later releases do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import LockError as LibraryError
from redis.lock import Lock

from harness.lock_impls.base import LockError
from harness.lock_impls.thirdparty import redis_py_old
from tests.clusters.bench import make, on

PAIRS = ((Lock.owned, Lock.reacquire), (redis_py_old.owned, redis_py_old.reacquire))


def story(owned: Callable[[Any], Any], reacquire: Callable[[Any], Any]) -> list[Any]:
    """Return what the two methods say of a lock that is free, held, prolonged, expired and taken by another."""
    client = Redis(host="n1", port=6379)
    lock, other = Lock(client, "k", timeout=2), Lock(client, "k", timeout=2)

    def prolonged(one: Lock) -> bool:
        try:
            return bool(reacquire(one))
        except (LockError, LibraryError):
            return False

    found: list[Any] = [bool(owned(lock)), prolonged(lock), lock.acquire(blocking=False), bool(owned(lock))]
    time.sleep(1.5)
    found += [prolonged(lock), 1900 < client.pttl("k") <= 2000]
    time.sleep(1.5)
    found += [bool(owned(lock))]
    time.sleep(1)
    found += [bool(owned(lock)), prolonged(lock), other.acquire(blocking=False), bool(owned(lock)), prolonged(lock)]
    return found


@pytest.mark.parametrize("pair", PAIRS, ids=["library", "stand-in"])
def test_the_stand_ins_say_what_the_library_says(pair: tuple[Callable[[Any], Any], Callable[[Any], Any]]) -> None:
    cluster = make("redis-single")
    assert on(cluster, lambda: story(*pair)) == [
        False, False, True, True, True, True, True, False, False, True, False, False,
    ]  # fmt: skip
