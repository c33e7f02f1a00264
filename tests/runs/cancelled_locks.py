"""Locks whose calls are cancelled: a sound one, and three that are wrong under cancellation alone."""

from __future__ import annotations

import asyncio

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
