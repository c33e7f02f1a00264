"""A lock with asyncio whose watchdog renews each lease, and which threads may share."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from uuid import uuid4

import redis.asyncio

PERIOD_S: Final = 0.02
"""Seconds between two renewals."""
RELEASE_S: Final = 0.05
"""Seconds from the begin of a release to its request, so that a renewal is due meanwhile."""
RENEW: Final = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('pexpire', KEYS[1], ARGV[2]) end"
DELETE: Final = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end"


class WatchdogLock:
    """The task that awaits ``acquire`` sends its request. A task that ``release`` makes sends the other one."""

    kinds = ("redis-single",)
    shareable = True

    def __init__(self, address: tuple[str, int], key: str, ttl: float) -> None:
        self._host, self._port = address
        # Before Python 3.12, redis-py sends in a task of its own if there is a limit.
        self._client = redis.asyncio.Redis(host=self._host, port=self._port, socket_timeout=None)
        self._key, self._ttl_ms = key, int(ttl * 1000)
        self._held: dict[Any, tuple[str, asyncio.Task[None]]] = {}
        """Tokens and watchdogs, by the task that has acquired."""

    @classmethod
    def open(cls, endpoints: Any, key: str, ttl: float) -> WatchdogLock:
        return cls(endpoints.addresses[0], key, ttl)

    async def acquire(self, timeout: float) -> bool:
        deadline = asyncio.get_running_loop().time() + timeout
        token = uuid4().hex
        while not await self._client.set(self._key, token, nx=True, px=self._ttl_ms):
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(0.05)
        self._held[asyncio.current_task()] = token, asyncio.create_task(self._renew(token))
        return True

    async def release(self) -> None:
        token, watchdog = self._held.pop(asyncio.current_task())
        await asyncio.sleep(RELEASE_S)
        watchdog.cancel()
        await self._delete(token)

    async def _delete(self, token: str) -> None:
        await asyncio.gather(self._evaluate(DELETE, token))

    async def _renew(self, token: str) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            await self._evaluate(RENEW, token, self._ttl_ms)

    async def _evaluate(self, script: str, *arguments: str | int) -> Any:
        return await self._client.eval(script, 1, self._key, *arguments)


class ReleasedInThread(WatchdogLock):
    """A thread of asyncio's pool sends the request of ``release``."""

    async def _delete(self, token: str) -> None:
        with redis.Redis(host=self._host, port=self._port) as client:
            await asyncio.to_thread(client.eval, DELETE, 1, self._key, token)
