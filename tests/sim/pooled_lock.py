"""A lock that sends requests to its servers from a pool of threads, as many quorum locks do."""

from __future__ import annotations

import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class PooledLock:
    """Acquires on a majority of five servers in parallel. Each lock has its own pool, which is never shut down."""

    kinds = ("redis-independent",)

    def __init__(self, addresses: Any, key: str, ttl: float) -> None:
        self._servers = [redis.Redis(host=h, port=p, socket_timeout=0.2) for h, p in addresses]
        self._key, self._ttl, self._token = key, ttl, ""
        self._pool = ThreadPoolExecutor()
        self.workers = (os.cpu_count() or 1) + 4

    @classmethod
    def open(cls, endpoints: Any, key: str, ttl: float) -> PooledLock:
        return cls(endpoints.addresses, key, ttl)

    def acquire(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while True:
            self._token = uuid.uuid4().hex
            if sum(self._pool.map(self._take, self._servers)) > len(self._servers) // 2:
                return True
            self.release()
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.1)

    def release(self) -> None:
        list(self._pool.map(self._drop, self._servers))

    def _take(self, server: Any) -> bool:
        try:
            return bool(server.set(self._key, self._token, nx=True, px=int(self._ttl * 1000)))
        except redis.RedisError:
            return False

    def _drop(self, server: Any) -> None:
        try:
            server.eval(RELEASE, 1, self._key, self._token)
        except redis.RedisError:
            """The lease on this server expires."""
