"""Locks of a user whose methods are coroutines."""

from __future__ import annotations

import asyncio
import uuid

from redis.asyncio import Redis

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"


class TokenLock:
    """A correct lock, as a user writes it."""

    def __init__(self, client: Redis, name: str, ttl: float) -> None:
        self.client, self.name, self.ttl = client, name, ttl
        self.token = ""

    async def acquire(self) -> bool:
        self.token = uuid.uuid4().hex
        return bool(await self.client.set(self.name, self.token, nx=True, px=int(self.ttl * 1000)))

    async def release(self) -> None:
        await self.client.eval(DELETE, 1, self.name, self.token)


class RenewedLock(TokenLock):
    """A task of the lock prolongs the lease while the lock is held."""

    renewal: asyncio.Task[None] | None = None

    async def acquire(self) -> bool:
        granted = await super().acquire()
        if granted:
            self.renewal = asyncio.create_task(self.renew())
        return granted

    async def renew(self) -> None:
        while await self.client.eval(EXTEND, 1, self.name, self.token, int(self.ttl * 1000)):
            await asyncio.sleep(self.ttl / 3)

    async def release(self) -> None:
        if self.renewal is not None:
            self.renewal.cancel()
        await super().release()


class NeverRenewed(RenewedLock):
    """The mutant of it: nothing prolongs the lease."""

    async def renew(self) -> None:
        await asyncio.sleep(0)


class Impatient(TokenLock):
    """Gives up after half a second, whether or not redis-py would send the request again."""

    async def acquire(self) -> bool:
        async with asyncio.timeout(0.5):
            return await super().acquire()


class CancelsItself(TokenLock):
    async def acquire(self) -> bool:
        raise asyncio.CancelledError


class Generator(TokenLock):
    async def acquire(self):  # type: ignore[no-untyped-def]
        yield True
