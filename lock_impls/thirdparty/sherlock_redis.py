"""sherlock's ``RedisLock``, unmodified; tested with sherlock 0.4.1 beside redis 8.1.0 (its extra "redis" requires 4.x).

Its documentation promises "easy-to-use distributed inter-process locks" with a choice of back ends, and an ``expire``
that is a float, or ``None`` for "will not expire". Neither works on Redis: see sherlock-float and sherlock-forever. So
this adapter passes whole seconds, rounded up. sherlock's waiting counts tries, not time: it ends up to one interval of
0.1 s early, and later by the time that the answers take. :meth:`extend` is ``renew()``. Its ``locked()`` tells whether
any client has the lock, so it does not answer "do I still hold it?".

Requests: ``EVALSHA`` of "SETNX; if it was set then EXPIRE", every 0.1 s · release: ``EVALSHA`` of "if GET is mine then
DEL". Garbage collection of the object is a release too (``__del__``).
Source: sherlock/lock.py.

Safe for: cutting duplicate work. It has no fence.

Known failures: sherlock-forever, sherlock-float, ttl-pause-write, ttl-overrun, redis-clock-fwd, redis-restart-empty,
redis-async-failover, redis-evict, lost-reply-acquire.
"""

from __future__ import annotations

import math
from typing import ClassVar

import redis
import sherlock

from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.contexts import Context
from harness.lock_impls.redis_client import ANSWER_TIMEOUT, RedisClient, known_grant, known_outcome, open_client
from harness.lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, SINGLE_KEY_KINDS, expiring, overrun


class SherlockRedis:
    info: ClassVar = LockInfo(
        name="sherlock-redis",
        title="sherlock's RedisLock, unmodified",
        algorithm="Lua: if setnx(key, owner) then expire(key, s); Lua: if get(key) == owner then del(key).",
        source="sherlock 0.4.1, sherlock/lock.py",
        safety="E",
        kinds=SINGLE_KEY_KINDS,
        answer_timeout=ANSWER_TIMEOUT,
        requires=("sherlock==0.4.1", "redis==8.1.0"),
        library="sherlock 0.4.1",
        lease="ttl",
        promises="'Easy-to-use distributed inter-process locks'; expire is 'lock expiry time. If explicitly set to "
        "None, lock will not expire.'",
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        overtime=1.0,
        failures=(*expiring("sherlock-redis"), overrun("sherlock-redis")),
    )

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        self._client = client
        self._lock = sherlock.RedisLock(key, client=client, expire=max(1, math.ceil(ttl)), retry_interval=0.1)

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> SherlockRedis:
        return cls(open_client(endpoints), key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        self._lock.timeout = timeout
        return known_grant(self._wait, self._client)

    def _wait(self) -> Grant | None:
        try:
            self._lock.acquire()
        except sherlock.LockTimeoutException:
            return None
        except redis.ResponseError as error:  # Redis does not undo what a script did before its error
            raise Indeterminate(f"the script failed: {error}") from error
        return Grant()

    def release(self) -> None:
        with known_outcome(self._client, refusals=(sherlock.LockException,)):
            self._lock.release()

    def context(self, timeout: float) -> Context:
        self._lock.timeout = timeout
        refusals = (sherlock.LockException, sherlock.LockTimeoutException)
        return Context(self._lock, lambda: known_outcome(self._client, refusals=refusals), timeout)

    def extend(self) -> bool:
        try:
            with known_outcome(self._client, refusals=(sherlock.LockException,)):
                return bool(self._lock.renew())
        except LockError:
            return False
