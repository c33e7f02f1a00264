"""A lock that is used in ``with``, and wrong ones, plain and with coroutines."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import Any, Self

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class NotAcquired(Exception):
    pass


class Lock:
    """A right lock: ``__enter__`` raises if the lock was not acquired in time."""

    def __init__(self, redis: Any, key: str, ttl: float, wait: float = 1.0) -> None:
        self.redis, self.key, self.ttl, self.wait = redis, key, ttl, wait
        self.token = os.urandom(8).hex()

    def acquire(self, timeout: float | None = None) -> bool:
        until = time.monotonic() + (self.wait if timeout is None else timeout)
        while not self.redis.set(self.key, self.token, nx=True, px=int(self.ttl * 1000)):
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        return True

    def release(self) -> None:
        if not self.redis.eval(UNLOCK, 1, self.key, self.token):
            raise NotAcquired(self.key)

    def __enter__(self) -> Self:
        if not self.acquire():
            raise NotAcquired(self.key)
        return self

    def __exit__(self, *raised: object) -> None:
        self.release()


class EntersAnyway(Lock):
    """``__enter__`` ignores that the lock was not acquired."""

    def __enter__(self) -> Self:
        self.acquire()
        return self


class EntersAfterTimeout(Lock):
    """``acquire`` raises if the lock was not acquired in time, and ``__enter__`` hides that."""

    def acquire(self, timeout: float | None = None) -> bool:
        if not super().acquire(timeout):
            raise TimeoutError
        return True

    def __enter__(self) -> Self:
        with suppress(TimeoutError):
            self.acquire()
        return self


class StaysAfterError(Lock):
    """``__exit__`` does not release the lock if the body raised."""

    def __exit__(self, *raised: object) -> None:
        if raised[0] is None:
            self.release()


class AsyncLock:
    """A right lock with coroutines."""

    def __init__(self, redis: Any, key: str, ttl: float, wait: float = 1.0) -> None:
        self.redis, self.key, self.ttl, self.wait = redis, key, ttl, wait
        self.token = os.urandom(8).hex()

    async def acquire(self, timeout: float | None = None) -> bool:
        until = time.monotonic() + (self.wait if timeout is None else timeout)
        while not await self.redis.set(self.key, self.token, nx=True, px=int(self.ttl * 1000)):
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(0.02)
        return True

    async def release(self) -> None:
        if not await self.redis.eval(UNLOCK, 1, self.key, self.token):
            raise NotAcquired(self.key)

    async def __aenter__(self) -> Self:
        if not await self.acquire():
            raise NotAcquired(self.key)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.release()


class AsyncEntersAnyway(AsyncLock):
    """``__aenter__`` ignores that the lock was not acquired."""

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self


class AsyncEntersAfterTimeout(AsyncLock):
    """``acquire`` raises if the lock was not acquired in time, and ``__aenter__`` hides that."""

    async def acquire(self, timeout: float | None = None) -> bool:
        if not await super().acquire(timeout):
            raise TimeoutError
        return True

    async def __aenter__(self) -> Self:
        with suppress(TimeoutError):
            await self.acquire()
        return self


class AsyncStaysAfterError(AsyncLock):
    """``__aexit__`` does not release the lock if the body raised."""

    async def __aexit__(self, *raised: object) -> None:
        if raised[0] is None:
            await self.release()
