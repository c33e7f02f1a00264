"""python-redis-lock's ``redis_lock.Lock``, unmodified; tested with python-redis-lock 4.0.1 beside redis 8.1.0.

Its documentation promises a lock "implemented via redis SET NX EX and BLPOP": a release wakes one waiter, and with
``auto_renewal`` the lock is renewed "so that it doesn't expire for as long as the lock is held". The ttl is its
``expire``, in whole seconds and rounded up. It does not say how much of the lease is left; :meth:`still_valid` asks the
server for the owner, :meth:`extend` is the library's.

Requests: ``GET lock:key`` and ``SET lock:key id NX EX s`` · while another client has it ``BLPOP lock-signal:key`` ·
release: ``EVALSHA`` of "if GET is mine then LPUSH the signal and DEL". The id is drawn once per object.

It waits in whole seconds (a fraction of one would become 0, which means "for ever"), and without ``auto_renewal`` not
longer than the lease; redis-py 8 gives up an answer after 5 s. So this adapter repeatedly lets it wait for as many
whole seconds as these limits allow, and polls for the rest.
Source: redis_lock/__init__.py.

Safe for: cutting duplicate work. It has no fence.

Known failures: ttl-pause-write, ttl-overrun, redis-clock-fwd, redis-restart-empty, redis-async-failover, redis-evict,
prl-late-release, prl-waiter-lease, prl-waiter-asleep, prl-renewer-dead.
"""

from __future__ import annotations

import logging
import math
import time
from functools import partial
from typing import ClassVar, Final

import redis_lock

from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.contexts import Context
from harness.lock_impls.polling import poll
from harness.lock_impls.redis_client import ANSWER_TIMEOUT, RedisClient, known_grant, known_outcome, open_client
from harness.lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, SINGLE_KEY_KINDS, expiring, overrun

LONGEST_S: Final = 4
"""Longest wait in one command; redis-py's socket_timeout is 5 s."""

logging.getLogger("redis_lock.acquire").setLevel(logging.ERROR)  # it logs a warning for each failed try


class PythonRedisLock:
    info: ClassVar = LockInfo(
        name="python-redis-lock",
        title="python-redis-lock's own Lock, unmodified",
        algorithm="SET lock:key id NX EX s; BLPOP lock-signal:key to wait; Lua: if get == id then lpush signal, del.",
        source="python-redis-lock 4.0.1, redis_lock/__init__.py",
        safety="E",
        kinds=SINGLE_KEY_KINDS,
        answer_timeout=ANSWER_TIMEOUT,
        requires=("python-redis-lock==4.0.1", "redis==8.1.0"),
        options={"auto_renewal": False},
        library="python-redis-lock 4.0.1",
        promises=(
            "'Lock context manager implemented via redis SET NX EX and BLPOP': a release wakes a waiter. With "
            "auto_renewal it 'doesn't expire for as long as the lock is held'."
        ),
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        overtime=1.0,
        failures=(*expiring("python-redis-lock"), overrun("python-redis-lock")),
    )

    def __init__(self, client: RedisClient, key: str, ttl: float, auto_renewal: bool = False) -> None:
        self._client = client
        expire = max(1, math.ceil(ttl))
        self._new = partial(redis_lock.Lock, client, key, expire=expire, auto_renewal=auto_renewal)
        self._longest = LONGEST_S if auto_renewal else min(expire, LONGEST_S)
        self._lock = self._new()

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, auto_renewal: bool = False) -> PythonRedisLock:
        return cls(open_client(endpoints), key, ttl, auto_renewal)

    def acquire(self, timeout: float) -> Grant | None:
        until = time.monotonic() + timeout
        return known_grant(lambda: poll(lambda: self._try(until), timeout), self._client)

    def _try(self, until: float) -> Grant | None:
        whole = min(int(until - time.monotonic() + 0.001), self._longest)
        try:
            got = self._lock.acquire(timeout=whole) if whole > 0 else self._lock.acquire(blocking=False)
        except redis_lock.AlreadyAcquired:  # held by this very object; the lock is not reentrant
            return None
        except redis_lock.AlreadyStarted as error:
            raise Indeterminate("the key is set, and its renewal could not be started") from error
        return Grant() if got else None

    def release(self) -> None:
        with known_outcome(self._client, refusals=(redis_lock.NotAcquired,)):
            self._lock.release()

    def context(self, timeout: float) -> Context:  # noqa: ARG002 - the library waits without limit in `with`
        return Context(self._new(), lambda: known_outcome(self._client, refusals=(redis_lock.NotAcquired,)))

    def still_valid(self) -> bool:
        with known_outcome(self._client):
            return bool(self._lock.get_owner_id() == self._lock.id)

    def extend(self) -> bool:
        try:
            with known_outcome(self._client, refusals=(redis_lock.NotAcquired,)):
                self._lock.extend()
        except LockError:
            return False
        return True
