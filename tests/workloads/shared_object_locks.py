"""Locks whose objects are shared by threads or tasks. Most of them do not bear that."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.lock import Lock as KazooRecipe

from harness.lock_impls.base import Endpoints, Grant, LockError
from tests.workloads.context_locks import UNLOCK, AsyncLock, Lock, NotAcquired


class OneToken(Lock):
    """A right lock: the token is that of the object, and only the thread that holds the lock releases it."""

    shareable = True


class ThreadTokens(Lock):
    """A right lock: each thread has a token of its own."""

    shareable = True
    token: str

    def __init__(self, redis: object, key: str, ttl: float, wait: float = 1.0) -> None:
        self.mine = threading.local()
        super().__init__(redis, key, ttl, wait)

    def __getattribute__(self, name: str) -> object:
        if name != "token":
            return super().__getattribute__(name)
        mine = self.mine
        if not hasattr(mine, "token"):
            mine.token = os.urandom(8).hex()
        return mine.token


class NewTokenForEachTry(Lock):
    """Each acquire overwrites the token, also that of a thread that holds the lock, whose release then fails."""

    shareable = True

    def acquire(self, timeout: float | None = None) -> bool:
        self.token = os.urandom(8).hex()
        return super().acquire(timeout)


class EntersIfHeld(Lock):
    """The object remembers that it is held, and lets every thread in."""

    shareable = True
    held = False

    def acquire(self, timeout: float | None = None) -> bool:
        self.held = self.held or super().acquire(timeout)
        return self.held

    def release(self) -> None:
        self.held = False
        super().release()


class ReleasesAfterTimeout(Lock):
    """An acquire that gives up releases the key, to be sure; it may be that of another thread."""

    shareable = True

    def acquire(self, timeout: float | None = None) -> bool:
        if super().acquire(timeout):
            return True
        self.redis.eval(UNLOCK, 1, self.key, self.token)
        return False


class AsyncEntersIfHeld(AsyncLock):
    """The same with tasks."""

    shareable = True
    held = False

    async def acquire(self, timeout: float | None = None) -> bool:
        self.held = self.held or await super().acquire(timeout)
        return self.held

    async def release(self) -> None:
        self.held = False
        await super().release()


class AsyncOneToken(AsyncLock):
    """A right lock. It counts the tasks that have used one of its objects."""

    shareable = True
    tasks: set[asyncio.Task[None]] = set()  # noqa: RUF012

    async def release(self) -> None:
        if not await self.redis.eval(UNLOCK, 1, self.key, self.token):
            raise NotAcquired(self.key)


class KazooLock:
    """kazoo's ``Lock``, whose second thread waits for the first one."""

    shareable = True
    kinds = ("zookeeper",)

    def __init__(self, lock: KazooRecipe) -> None:
        self.lock = lock

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        client = KazooClient(",".join(f"{host}:{port}" for host, port in endpoints.addresses), timeout=ttl)
        client.start()
        return cls(client.Lock(f"/shared/{key}"))

    def acquire(self, timeout: float) -> Grant | None:
        try:
            return Grant() if self.lock.acquire(timeout=timeout) else None
        except LockTimeout:
            return None

    def release(self) -> None:
        if not self.lock.release():
            raise LockError("not held")
