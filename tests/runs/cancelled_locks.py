"""Locks that are wrong under cancellation alone, and a sound one in ``async with``."""

from __future__ import annotations

import asyncio
import time
from typing import Self

from .asyncio_locks import TokenLock


class WithoutLease(TokenLock):
    """Its key has no lease, so nobody removes what a cancelled call leaves."""

    async def acquire(self) -> bool:
        return bool(await self.client.set(self.name, self.token or "token", nx=True))

    async def release(self) -> None:
        await self.client.delete(self.name)


class GrantsWhenCancelled(TokenLock):
    """Its acquire swallows the cancellation, and says that the lock is held."""

    async def acquire(self) -> bool:
        try:
            return await super().acquire()
        except asyncio.CancelledError:
            return True


class DeletesWhenCancelled(TokenLock):
    """Its cancelled acquire cleans up by deleting the key, whoever owns it."""

    async def acquire(self) -> bool:
        try:
            return await super().acquire()
        except asyncio.CancelledError:
            await self.client.delete(self.name)
            raise


class NotAcquired(Exception):
    pass


class ContextLock(TokenLock):
    """A correct lock in ``async with``."""

    async def __aenter__(self) -> Self:
        until = time.monotonic() + 1.0
        while not await self.acquire():
            if time.monotonic() >= until:
                raise NotAcquired(self.name)
            await asyncio.sleep(0.02)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.release()


class StaysWhenCancelled(ContextLock):
    """It is not released after a cancellation in the body of ``async with``."""

    async def __aexit__(self, *raised: object) -> None:
        if not isinstance(raised[1], asyncio.CancelledError):
            await self.release()
