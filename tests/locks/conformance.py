"""What every lock must do when there is no fault: one function per property, for any lock on any cluster.

Each function takes the lock and the servers' addresses; ``cases`` pairs the properties with the locks that must have
them. The suite runs in the simulator and against real servers (test_conformance_real.py).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from harness.lock_impls import catalogue
from harness.lock_impls.base import Endpoints, Grant, LockClass, LockError
from harness.lock_impls.opening import opener

TTL_S = 1.0
SLACK_S = 0.4
SHORT_S = 0.3

REDIS = (
    "aioredlock",
    "celery-",
    "coredis",
    "django-redis",
    "dramatiq",
    "huey",
    "portalocker",
    "redis-",
    "redlock",
    "python-redis-lock",
    "pottery-",
    "sherlock-redis",
)
"""Prefixes of the locks that run on Redis."""

EXTRA_LEASE_S = {
    "memcached-add": 1.0,
    "memcached-token": 1.0,
    "sherlock-memcached": 1.0,
    "etcd-mutex-unsafe": 2.0,
    "etcd3-lock": 2.0,
    "sherlock-etcd": 1.0,
}
"""How much longer a lease may last, because the servers count whole seconds, and etcd grants at least 2."""

LONGER_TTL_S = {"tooz-memcached": 3.0}
"""Locks with heartbeats that need a longer ttl than usual. memcached may end an item of 2 s (which 1 s becomes)
after the first second, and tooz's first heartbeat comes only then."""

EARLY_S = {
    "sherlock-redis": 0.1,
    "sherlock-memcached": 0.1,
    "sherlock-etcd": 0.1,
    "redis-py-lock": 0.1,
    "redis-py-asyncio-lock": 0.1,
    "celery-redbeat": 0.2,
    "coredis-lock": 0.1,
    "django-redis-lock": 0.1,
}
"""How much too early a waiting acquire may return, because it skips a try that would come too late."""

Property = Callable[[LockClass, Endpoints], None]

NO_OWNER_CHECK = {
    "redis-setnx",
    "redis-setnx-expire",
    "redis-set-ex",
    "memcached-add",
    "mysql-unique",
    "mysql-unique-cleaner",
    "postgres-unique",
    "huey-lock-task",
    "celery-once",
    "celery-singleton",
    "natspy-lock",
}
"""Locks whose unlock is a plain DEL, which cannot tell whose key it was."""

NO_EXPIRY = {
    "aiozk-lock",
    "redis-setnx",
    "redis-watchdog",
    "portalocker-redis-lock",
    "mysql-unique",
    "mysql-owner",
    "mysql-reentrant",
    "mysql-for-update",
    "mysql-asyncmy",
    "mysql-get-lock",
    "django-pglock",
    "django-pgware-lock",
    "postgres-advisory",
    "postgres-advisory-xact",
    "postgres-psycopg",
    "postgres-row",
    "postgres-skip-locked",
    "postgres-unique",
    "sqlalchemy-dlock",
    "postgres-sqlalchemy-dlock",
    "pals-lock",
    "tooz-memcached",
    "hazelcast-fenced",
    "consul-session",
    "nats-kv-lock",
    "natspy-lock",
    "zookeeper-ephemeral",
    "zookeeper-herd",
    "zookeeper-sequential",
    "chubby",
    "chubby-zookeeper",
    "kazoo-lock",
    "kazoo-read-write-lock",
    "kazoo-semaphore",
    "etcd-mutex",
    "chubby-etcd",
    "redisson-lock",
    "redisson-fenced",
    "redisson-redlock",
    "curator-mutex",
}
"""Locks whose hold ends only by a release (or by the death of the process)."""


ADMITS_HOLDER_AGAIN = {"kazoo-semaphore"}
"""Locks that let their own holder in again without counting; see test_zookeeper_locks.py."""

SILENT_LATE_RELEASE = {
    "celery-redbeat",
    "consul-go-lock",
    "redlock-py",
    "redlock-ng",
    "aioredlock",
    "dramatiq-mutex",
    "shedlock-jdbc",
    "shedlock-redis",
}
"""Locks whose release does not report that the lock was lost."""

NO_VALIDITY = {
    "aioredlock",
    "bsm-redislock",
    "celery-once",
    "celery-redbeat",
    "celery-singleton",
    "consul-go-lock",
    "coredis-lock",
    "django-redis-lock",
    "dramatiq-mutex",
    "huey-lock-task",
    "etcd3-lock",
    "redis-py-lock",
    "redis-py-asyncio-lock",
    "python-redis-lock",
    "sherlock-redis",
    "sherlock-memcached",
    "sherlock-etcd",
    "pottery-redlock",
    "spring-jdbc-lock",
    "spring-redis-lock",
}
"""Locks with a lease that do not say how much of it is left."""


EXTENDABLE = {
    "redis-token",
    "memcached-token",
    "redis-py-lock",
    "redis-py-asyncio-lock",
    "python-redis-lock",
    "pottery-redlock",
    "nats-kv",
}
"""Locks that can be extended, and can tell whether they are still held."""


def _key() -> str:
    return f"conformance:{uuid.uuid4().hex}"


def _lapse(lock: LockClass) -> None:
    """Wait until a lease that was granted now has ended."""
    time.sleep(TTL_S + SLACK_S + EXTRA_LEASE_S.get(lock.info.name, 0.0))


def _open(lock: LockClass, where: Endpoints, key: str, ttl: float = TTL_S) -> Any:
    return opener(lock).open(where, key, ttl)


def _acquire(lock: Any, timeout: float = 0.0) -> Grant:
    grant = lock.acquire(timeout)
    assert isinstance(grant, Grant), f"expected a grant, got {grant!r}"
    return grant


def one_holder_at_a_time(lock: LockClass, where: Endpoints) -> None:
    key = _key()
    first, second = _open(lock, where, key, 30), _open(lock, where, key, 30)
    _acquire(first)
    assert second.acquire(0) is None
    first.release()
    _acquire(second, 1)
    assert first.acquire(0) is None
    second.release()


def keys_are_independent(lock: LockClass, where: Endpoints) -> None:
    first, second = _open(lock, where, _key(), 30), _open(lock, where, _key(), 30)
    _acquire(first)
    _acquire(second)
    first.release()
    second.release()


def acquires_again_after_release(lock: LockClass, where: Endpoints) -> None:
    mine = _open(lock, where, _key(), 30)
    for _ in range(3):
        _acquire(mine)
        mine.release()


def waits_until_its_timeout(lock: LockClass, where: Endpoints) -> None:
    key = _key()
    holder, waiter = _open(lock, where, key, 30), _open(lock, where, key, 30)
    _acquire(holder)
    began = time.monotonic()
    assert waiter.acquire(SHORT_S) is None
    assert SHORT_S - EARLY_S.get(lock.info.name, 0.0) <= round(time.monotonic() - began, 6) < SHORT_S + 1
    holder.release()


def waiter_gets_it_after_release(lock: LockClass, where: Endpoints) -> None:
    """Each client has its own thread, because a lock may belong to the thread that acquired it."""
    key = _key()
    holder, waiter = _open(lock, where, key, 30), _open(lock, where, key, 30)
    _acquire(holder)
    began = time.monotonic()

    def wait() -> float:
        _acquire(waiter, 5)
        waited = time.monotonic() - began
        waiter.release()
        return waited

    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(wait)
        time.sleep(SHORT_S)
        holder.release()
        assert waiting.result() >= SHORT_S * 0.9


def expires(lock: LockClass, where: Endpoints) -> None:
    key = _key()
    late, other = _open(lock, where, key), _open(lock, where, key)
    _acquire(late)
    assert other.acquire(0) is None
    _lapse(lock)
    _acquire(other)
    other.release()


def never_expires(lock: LockClass, where: Endpoints) -> None:
    key, ttl = _key(), LONGER_TTL_S.get(lock.info.name, TTL_S)
    holder, other = _open(lock, where, key, ttl), _open(lock, where, key, ttl)
    _acquire(holder)
    assert other.acquire(2 * ttl + SLACK_S) is None
    holder.release()
    _acquire(other)
    other.release()


def reports_remaining_lease(lock: LockClass, where: Endpoints) -> None:
    mine = _open(lock, where, _key())
    valid_for = _acquire(mine).valid_for
    assert valid_for is not None
    assert TTL_S / 2 < valid_for < TTL_S + EXTRA_LEASE_S.get(lock.info.name, 0.0)
    mine.release()


def refuses_release_by_another(lock: LockClass, where: Endpoints) -> None:
    key = _key()
    holder, stranger = _open(lock, where, key, 30), _open(lock, where, key, 30)
    _acquire(holder)
    with pytest.raises(LockError):
        stranger.release()
    assert stranger.acquire(0) is None
    holder.release()


def refuses_late_release(lock: LockClass, where: Endpoints) -> None:
    """The first holder overruns its ttl; its release must not free the second holder's lock."""
    key = _key()
    late, other = _open(lock, where, key), _open(lock, where, key, TTL_S)
    _acquire(late)
    assert other.acquire(0) is None
    _lapse(lock)
    _acquire(other)
    with pytest.raises(LockError):
        late.release()
    assert _open(lock, where, key).acquire(0) is None
    other.release()


def release_by_non_owner_frees_the_lock(lock: LockClass, where: Endpoints) -> None:
    """Documented weakness del-foreign: a release by any client frees the lock, without an error."""
    key = _key()
    holder, stranger = _open(lock, where, key, 30), _open(lock, where, key, 30)
    _acquire(holder)
    stranger.release()
    _acquire(stranger)
    stranger.release()


def refuses_second_release(lock: LockClass, where: Endpoints) -> None:
    mine = _open(lock, where, _key())
    _acquire(mine)
    mine.release()
    with pytest.raises(LockError):
        mine.release()


def is_not_reentrant(lock: LockClass, where: Endpoints) -> None:
    """A second acquire is refused: it returns None, or raises an error that says so."""
    mine = _open(lock, where, _key(), 30)
    _acquire(mine)
    with suppress(LockError):
        assert mine.acquire(SHORT_S) is None
    mine.release()


def refused_second_acquire_loses_the_token(lock: LockClass, where: Endpoints) -> None:
    """Documented weakness pottery-double: after a refused second acquire the first hold can no longer be released."""
    key = _key()
    mine = _open(lock, where, key, 30)
    _acquire(mine)
    assert mine.acquire(0) is None
    with pytest.raises(LockError):
        mine.release()
    assert _open(lock, where, key).acquire(0) is None


def is_reentrant(lock: LockClass, where: Endpoints) -> None:
    key = _key()
    mine, other = _open(lock, where, key, 30), _open(lock, where, key, 30)
    _acquire(mine)
    _acquire(mine)
    mine.release()
    assert other.acquire(0) is None, "the first release of two freed the lock"
    mine.release()
    _acquire(other)
    other.release()


def fences_grow(lock: LockClass, where: Endpoints) -> None:
    key = _key()
    fences: list[Any] = []
    for _ in range(3):
        mine = _open(lock, where, key)
        fences.append(_acquire(mine).fence)
        assert _open(lock, where, key).acquire(0) is None  # a refused try may skip a number, but must not repeat one
        mine.release()
    assert None not in fences
    assert fences == sorted(set(fences)), fences


def extends(lock: LockClass, where: Endpoints) -> None:
    key = _key()
    mine, other = _open(lock, where, key), _open(lock, where, key)
    _acquire(mine)
    for _ in range(3):
        time.sleep(TTL_S / 2)
        assert mine.extend()
        assert mine.still_valid()
    assert other.acquire(0) is None
    _lapse(lock)
    assert not mine.still_valid()
    assert not mine.extend(), "extended a lock that has ended"
    _acquire(other)
    assert not mine.extend(), "extended somebody else's lock"
    other.release()


def detects_lost_key(lock: LockClass, where: Endpoints) -> None:
    """The key is deleted (as by a restart without data): after the next renewal still_valid is False."""
    mine = _open(lock, where, _key())
    assert not mine.still_valid()
    _acquire(mine)
    time.sleep(1.5 * TTL_S)
    assert mine.still_valid()
    mine.client.delete(mine.key)
    time.sleep(TTL_S / 3 + SLACK_S)
    assert not mine.still_valid()
    with pytest.raises(LockError):
        mine.release()
    _acquire(mine)
    mine.release()
    assert not mine.still_valid()


def properties_of(lock: LockClass) -> list[Property]:
    """Return the properties that a catalogue lock must have."""
    name = lock.info.name
    properties: list[Property] = [one_holder_at_a_time, keys_are_independent, acquires_again_after_release]
    properties += [waits_until_its_timeout, waiter_gets_it_after_release]
    properties += [never_expires] if name in NO_EXPIRY else [expires]
    if name not in NO_EXPIRY | NO_VALIDITY:
        properties.append(reports_remaining_lease)
    if lock.info.reentrant:
        properties.append(is_reentrant)
    elif name not in ADMITS_HOLDER_AGAIN:
        properties.append(refused_second_acquire_loses_the_token if name == "pottery-redlock" else is_not_reentrant)
    properties += (
        [release_by_non_owner_frees_the_lock]
        if name in NO_OWNER_CHECK
        else [refuses_release_by_another, refuses_second_release]
    )
    if name not in NO_OWNER_CHECK | NO_EXPIRY | SILENT_LATE_RELEASE:
        properties.append(refuses_late_release)
    if lock.info.fence:
        properties.append(fences_grow)
    if name in EXTENDABLE:
        properties.append(extends)
    if name == "redis-watchdog":
        properties.append(detects_lost_key)
    return properties


def cases(*prefixes: str) -> list[Any]:
    """(lock, property) pairs of the catalogue locks whose names begin with one of the prefixes, as pytest
    parameters."""
    locks = [catalogue.find(name) for name in catalogue.names() if name.startswith(prefixes)]
    return [
        pytest.param(lock, prop, id=f"{lock.info.name}-{prop.__name__}")
        for lock in locks
        for prop in properties_of(lock)
    ]
