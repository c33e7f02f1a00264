"""Locks, most of them wrong if their object is released twice, after a failed acquire, or after an error."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.workloads.context_locks import UNLOCK, AsyncLock, Lock, NotAcquired


class FreesAnybodysKey(Lock):
    """``release`` deletes the key of whoever holds it."""

    def release(self) -> None:
        self.redis.delete(self.key)


class ReleasesNothing(Lock):
    """A right lock, whose ``release`` says nothing if there was nothing to release."""

    def release(self) -> None:
        with suppress(NotAcquired):
            super().release()


class FreesAfterTimeout(Lock):
    """``release`` after an acquire that failed deletes the key, to be sure."""

    failed = False

    def acquire(self, timeout: float | None = None) -> bool:
        self.failed = not super().acquire(timeout)
        return not self.failed

    def release(self) -> None:
        if self.failed:
            self.redis.delete(self.key)
        super().release()


class BreaksAfterRefusal(Lock):
    """No acquire succeeds after a release that was refused."""

    broken = False

    def acquire(self, timeout: float | None = None) -> bool:
        return not self.broken and super().acquire(timeout)

    def release(self) -> None:
        try:
            super().release()
        except NotAcquired:
            self.broken = True
            raise


class AsyncForgetsItsToken(AsyncLock):
    """``release`` clears the token before its request, as redis-py did before 7.2 (redis/redis-py#3847)."""

    held: str | None = None

    async def acquire(self, timeout: float | None = None) -> bool:
        if await super().acquire(timeout):
            self.held = self.token
        return self.held is not None

    async def release(self) -> None:
        token, self.held = self.held, None
        await asyncio.sleep(0.001)
        if token is None or not await self.redis.eval(UNLOCK, 1, self.key, token):
            raise NotAcquired(self.key)


class AsyncKeepsItsToken(AsyncForgetsItsToken):
    """The right order: ``release`` clears the token when the answer is known."""

    async def release(self) -> None:
        await asyncio.sleep(0.001)
        if self.held is None or not await self.redis.eval(UNLOCK, 1, self.key, self.held):
            raise NotAcquired(self.key)
        self.held = None
