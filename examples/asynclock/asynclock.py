import redis.asyncio


class AsyncLock:
    def __init__(self, redis: redis.asyncio.Redis, key: str, ttl: float) -> None:
        self.redis, self.key, self.ttl = redis, key, ttl

    async def acquire(self) -> bool:
        return bool(await self.redis.set(self.key, "me", nx=True, px=int(self.ttl * 1000)))

    async def release(self) -> None:
        await self.redis.delete(self.key)
