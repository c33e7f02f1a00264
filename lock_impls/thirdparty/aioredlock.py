"""aioredlock's ``Aioredlock`` (Redis, asyncio), unmodified; tested with aioredlock 0.7.3 and aioredis 1.3.1.

Its documentation promises "a distributed lock manager" that implements Redlock. With a ``lock_timeout`` the lease has
this length and is not renewed: this adapter sets it to the ttl. Without one a watchdog renews the lease. ``lock.valid``
stays True until the lock is released, and ``is_locked`` tells whether any client has the key. So the adapter has no
``still_valid``. aioredis waits for an answer without limit, so the adapter cancels a call after :data:`TIMEOUT_S`.

Requests: ``EVALSHA`` of "if the key is free or mine then SET PX" on each server at once, three tries, 0.1 to 0.3 s
apart; after a failed try the library releases in a task of its own · release: ``EVALSHA`` of "if GET is mine then DEL",
which also accepts a key that is gone · :meth:`extend`: the script of the acquire, which also sets a key that is gone.
Source: aioredlock/algorithm.py, aioredlock/redis.py.

Safe for: what redlock is safe for.

Known failures: rl-clock-jump, rl-restart, ttl-pause-write, ttl-overrun.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar, Final

from aioredlock import Aioredlock as Manager
from aioredlock import LockError as Refused
from aioredlock.errors import LockAcquiringError

from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.redis_failures import EXPIRES, redlocks

TIMEOUT_S: Final = 2.0
"""Longest time of a call of the library; its three tries take up to 0.9 s if all servers answer."""
for name in ("aioredlock", "aioredis"):  # they log each server that does not answer
    logging.getLogger(name).addHandler(logging.NullHandler())
    logging.getLogger(name).propagate = False


class Aioredlock:
    info: ClassVar = LockInfo(
        name="aioredlock",
        title="aioredlock's own Redlock, unmodified",
        algorithm="Lua on N nodes: if the key is free or mine then SET PX; held with N//2+1.",
        source="aioredlock 0.7.3, aioredlock/algorithm.py",
        safety="E",
        kinds=("redis-independent",),
        requires=("aioredlock==0.7.3", "aioredis==1.3.1"),
        library="aioredlock 0.7.3",
        promises="'The asyncio redlock algorithm implementation': a distributed lock manager with Redis.",
        on_death=EXPIRES,
        outage="none while a majority of the servers is up",
        no_single_point=True,
        asynchronous=True,
        lease="ttl",
        failures=redlocks("aioredlock"),
    )

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        self._manager = Manager([{"host": host, "port": port} for host, port in endpoints.addresses])
        self._key = key
        self._ttl = ttl
        self._held: Any = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Aioredlock:
        return cls(endpoints, key, ttl)

    async def acquire(self, timeout: float) -> Grant | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    self._held = await self.lock()
                return Grant()
            except LockAcquiringError:
                if loop.time() >= deadline:
                    return None
            except (Refused, TimeoutError) as error:  # a server did not answer, and may have set the key
                raise Indeterminate(f"{type(error).__name__}: {error}") from error
            await asyncio.sleep(0.1)

    async def lock(self) -> Any:
        """Call the library's ``lock`` once."""
        return await self._manager.lock(self._key, lock_timeout=self._ttl)

    async def extend(self) -> bool:
        """Extend the lease to a full ttl from now; the library also does that when the lease is over."""
        if self._held is None:
            return False
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._manager.extend(self._held, self._ttl)
        except LockAcquiringError:  # it has tried to release the lock
            return False
        except (Refused, TimeoutError) as error:
            raise Indeterminate(f"{type(error).__name__}: {error}") from error
        return True

    async def release(self) -> None:
        held, self._held = self._held, None
        if held is None:
            raise LockError(f"{self._key} is not held by this client")
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._manager.unlock(held)
        except LockAcquiringError as error:
            raise LockError(f"{type(error).__name__}: {error}") from error
        except (Refused, TimeoutError) as error:
            raise Indeterminate(f"{type(error).__name__}: {error}") from error
