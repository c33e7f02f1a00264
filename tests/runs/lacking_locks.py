"""Sound locks that need what a simulated server lacks and the real one has."""

from __future__ import annotations

import uuid
from typing import Any

import redis


class _RedisLock:
    def __init__(self, redis: redis.Redis, key: str, ttl: float) -> None:
        self.redis, self.key, self.ttl = redis, key, ttl
        self.token = uuid.uuid4().hex

    def acquire(self) -> bool:
        return bool(self.redis.set(self.key, self.token, nx=True, px=int(self.ttl * 1000)))

    def release(self) -> None:
        raise NotImplementedError


class ReleasesByFunction(_RedisLock):
    """Releases with a Redis function."""

    CODE = (
        "#!lua name=locks\n"
        "redis.register_function('unlock', function(keys, args)\n"
        "  if redis.call('get', keys[1]) == args[1] then return redis.call('del', keys[1]) end\n"
        "end)"
    )

    def release(self) -> None:
        client: Any = self.redis
        try:
            client.fcall("unlock", 1, self.key, self.token)
        except redis.ResponseError:
            client.function_load(self.CODE, replace=True)
            client.fcall("unlock", 1, self.key, self.token)


class ReleasesByStreamInScript(_RedisLock):
    """Records each release in a stream, in the script that releases."""

    CODE = (
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end\n"
        "redis.call('xadd', 'audit', '*', 'released', ARGV[1])\n"
        "return redis.call('del', KEYS[1])"
    )

    def release(self) -> None:
        self.redis.eval(self.CODE, 1, self.key, self.token)
