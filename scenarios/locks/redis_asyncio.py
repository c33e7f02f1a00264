"""``redis.asyncio``'s own ``Lock`` in programs with two documented mistakes, and the cure of each.

The program is an event loop in its own thread. The simulator has none, so these run on containers only.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Coroutine
from typing import Any, ClassVar, Self

import redis.asyncio
from redis.asyncio.lock import Lock
from redis.exceptions import LockError as NotOurs

from harness.lock_impls.base import Endpoints, Grant, LockError
from harness.lock_impls.origins import use_of

from .redis_py import OVERRUN

Loop = asyncio.AbstractEventLoop


class AsyncLock:
    """Not a mistake: the lock of redis.asyncio, called from another thread."""

    kinds: ClassVar = ("redis-single",)
    leased: ClassVar = True

    def __init__(self, client: redis.asyncio.Redis, key: str, ttl: float) -> None:
        self.client, self.key, self.ttl = client, key, ttl
        self.lock = self.make_lock()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        host, port = endpoints.addresses[0]
        return cls(redis.asyncio.Redis(host=host, port=port), key, ttl)

    def make_lock(self) -> Lock:
        return Lock(self.client, self.key, timeout=self.ttl if self.leased else None)

    def acquire(self, timeout: float) -> Grant | None:
        began = time.monotonic()
        if not self._in_loop(self.locked(timeout)):
            return None
        return Grant(valid_for=max(0.0, began + self.ttl - time.monotonic())) if self.leased else Grant()

    def release(self) -> None:
        try:
            self._in_loop(self.lock.release())
        except NotOurs as error:
            raise LockError(str(error)) from error

    async def locked(self, timeout: float) -> bool:
        return bool(await self.lock.acquire(blocking_timeout=timeout))

    def _in_loop(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class TokenSharedByTasks(AsyncLock):
    """rpy-token-tasks: the token is stored per thread, but all tasks run in one thread.

    During its first acquire another task already holds the lock through the same object. That task is late, and unlocks
    with the token that it finds.
    """

    origin: ClassVar = use_of(
        "redis-py",
        "the installed release",
        "tasks that share one lock object",
        "redis/asyncio/lock.py; NoneGG/aredis#119",
    )
    _other: asyncio.Task[None] | None = None

    async def locked(self, timeout: float) -> bool:
        if self._other is None:
            other = self.lock_of_other()
            held = await other.acquire(blocking=False)
            self._other = asyncio.ensure_future(self._work(other) if held else asyncio.sleep(0))
        return await super().locked(timeout)

    def lock_of_other(self) -> Lock:
        return self.lock

    async def _work(self, lock: Lock) -> None:
        await asyncio.sleep(OVERRUN * self.ttl)
        try:
            await lock.release()
        except NotOurs:
            return


class LockOfEachTask(TokenSharedByTasks):
    """rpy-token-tasks, cured: each task creates its own lock object."""

    origin: ClassVar = TokenSharedByTasks.origin.fixed("a lock object for each task")

    def lock_of_other(self) -> Lock:
        return self.make_lock()


class Cancelled(AsyncLock):
    """rpy-cancel-acquire: ``wait_for(lock.acquire())`` times out while the answer to the SET is on its way, and the
    program takes that for "not acquired".

    Nobody has the token; without a timeout, the default, the key stays for ever.
    """

    origin: ClassVar = use_of(
        "redis-py",
        "the installed release",
        "an acquire that is cancelled while its answer is on its way",
        "redis/asyncio/lock.py",
    )
    leased: ClassVar = False

    async def locked(self, timeout: float) -> bool:
        try:
            return await asyncio.wait_for(self.lock.acquire(), timeout)
        except TimeoutError:
            return False


class CancelledAndUndone(Cancelled):
    """rpy-cancel-acquire, cured: the program chooses the token, and undoes an acquire that it has given up."""

    origin: ClassVar = Cancelled.origin.fixed("the program undoes an acquire that it gave up")

    async def locked(self, timeout: float) -> bool:
        token = uuid.uuid4().hex
        try:
            return await asyncio.wait_for(self.lock.acquire(token=token), timeout)
        except TimeoutError:
            self.lock.local.token = token.encode()
            try:
                await self.lock.release()
            except NotOurs:
                return False  # the SET had not been executed
            return False
