"""A lock that runs its coroutines with uvloop."""

from __future__ import annotations

import uvloop
from redis.asyncio import Redis


class Lock:
    def __init__(self, client: Redis, name: str) -> None:
        self.client, self.name = client, name

    def acquire(self) -> bool:
        return bool(uvloop.run(self.set()))

    async def set(self) -> bool:
        return bool(await self.client.set(self.name, "held", nx=True))

    def release(self) -> None:
        uvloop.run(self.set())
