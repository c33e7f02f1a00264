"""redis-py's asyncio lock, ``redis.asyncio.lock.Lock``, unmodified; tested with redis 8.1.0.

It does what ``redis.lock.Lock`` does (:mod:`.redis_py_lock`), with coroutines. This adapter, too, sets its ``timeout``
to the ttl. :meth:`still_valid` is ``owned()`` and :meth:`extend` is ``reacquire()``: both ask the server.

Requests: ``SET key token NX PX ms``, every 0.1 s while another client has it · ``EVALSHA`` of "if GET is mine then
DEL". redis-py repeats a request whose answer was lost, and relies on the second answer alone.
Source: redis/asyncio/lock.py.

Safe for: cutting duplicate work. It has no fence.

Known failures: ttl-pause-write, ttl-overrun, redis-clock-fwd, redis-restart-empty, redis-async-failover, redis-evict,
lost-reply-acquire.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from redis.asyncio.lock import Lock

from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.contexts import Context
from harness.lock_impls.redis_asyncio_client import AsyncRedisClient, open_client
from harness.lock_impls.redis_client import ANSWER_TIMEOUT, REQUIRES, known_outcome
from harness.lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, SINGLE_KEY_KINDS, expiring, overrun


class RedisPyAsyncioLock:
    info: ClassVar = LockInfo(
        name="redis-py-asyncio-lock",
        title="redis-py's own asyncio Lock, unmodified",
        algorithm="SET key token NX PX ms; Lua: if get(key) == token then del(key).",
        source="redis 8.1.0, redis/asyncio/lock.py",
        safety="E",
        kinds=SINGLE_KEY_KINDS,
        answer_timeout=ANSWER_TIMEOUT,
        requires=REQUIRES,
        library="redis 8.1.0",
        lease="ttl",
        promises="'A shared, distributed Lock. [...] It's left to the user to resolve deadlock issues and make sure "
        "multiple clients play nicely together.'",
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        asynchronous=True,
        failures=(*expiring("redis-py-asyncio-lock"), overrun("redis-py-asyncio-lock")),
    )

    def __init__(self, client: AsyncRedisClient, key: str, ttl: float) -> None:
        self._client = client
        self._new = partial(Lock, client, key, timeout=ttl)
        self._lock = self._new()

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> RedisPyAsyncioLock:
        return cls(open_client(endpoints), key, ttl)

    async def acquire(self, timeout: float) -> Grant | None:
        before = self._client.unanswered
        with known_outcome(self._client):
            granted = await self._lock.acquire(blocking_timeout=timeout)
        if not granted and self._client.unanswered > before:
            raise Indeterminate("not acquired, but an earlier answer was lost: it may be held by this very client")
        return Grant() if granted else None

    async def release(self) -> None:
        with known_outcome(self._client):
            await self._lock.release()

    def context(self, timeout: float) -> Context:
        return Context(self._new(blocking_timeout=timeout), lambda: known_outcome(self._client), timeout)

    async def still_valid(self) -> bool:
        with known_outcome(self._client):
            return bool(await self._lock.owned())

    async def extend(self) -> bool:
        try:
            with known_outcome(self._client):
                return bool(await self._lock.reacquire())
        except LockError:  # it refuses if another client owns the lock by now
            return False
