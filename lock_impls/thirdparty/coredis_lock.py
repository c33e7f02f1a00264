"""coredis's asyncio lock, ``coredis.patterns.lock.Lock``, unmodified; tested with coredis 6.9.0.

Its documentation calls it a "shared, distributed Lock inspired by the Distributed locks documentation and the Redlock
Algorithm". Without a ``timeout``, the default, "it will remain locked until release() is called": this adapter sets it
to the ttl. The token is in a context variable, so another task cannot release the lock. Waiting is measured with the
client's *wall* clock. :meth:`extend` is ``extend(ttl)``, which adds the ttl to what is left of the lease.

Requests: ``SET key token NX PX ms``, every 0.1 s while another client has it · ``EVALSHA`` of "if GET is mine then
DEL". coredis repeats no request of a script, and twice a request that could not be sent.
Source: coredis/patterns/lock/lock.py.

Safe for: cutting duplicate work. It has no fence.

Known failures: ttl-pause-write, ttl-overrun, redis-clock-fwd, redis-restart-empty, redis-evict, lost-reply-acquire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import coredis
from coredis.exceptions import LockError as Refused
from coredis.exceptions import RedisError
from coredis.patterns.lock import Lock
from coredis.retry import NoRetryPolicy

from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, expiring, overrun

TIMEOUT_S: Final = 1.0
"""coredis has no time-out by default: it would wait for ever."""


class CoredisLock:
    info: ClassVar = LockInfo(
        name="coredis-lock",
        title="coredis's own asyncio Lock, unmodified",
        algorithm="SET key token NX PX ms; Lua: if get(key) == token then del(key).",
        source="coredis 6.9.0, coredis/patterns/lock",
        safety="E",
        kinds=("redis-single",),
        requires=("coredis==6.9.0",),
        library="coredis 6.9.0",
        promises="'A shared, distributed Lock inspired by the Distributed locks documentation and the Redlock "
        "Algorithm.'",
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        asynchronous=True,
        lease="ttl",
        failures=(*expiring("coredis-lock", replicated=False), overrun("coredis-lock")),
    )

    def __init__(self, client: Any, key: str, ttl: float) -> None:
        self._client = client
        self._opened: asyncio.Future[None] | None = None
        self._lock: Any = Lock(client, key, timeout=ttl)
        self._ttl = ttl

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> CoredisLock:
        host, port = endpoints.addresses[0]
        client = coredis.Redis(
            host=host,
            port=port,
            stream_timeout=TIMEOUT_S,
            connect_timeout=TIMEOUT_S,
            retry_policy=NoRetryPolicy(),
            **endpoints.redis_login,
        )
        return cls(client, key, ttl)

    async def acquire(self, timeout: float) -> Grant | None:
        await self._open()
        self._lock.blocking_timeout = timeout
        with _known_outcome():
            return Grant() if await self._lock.acquire() else None

    async def _open(self) -> None:
        """Connect once: coredis can do it within ``async with client`` alone, where a task of its own stays."""
        if self._opened is None or (self._opened.done() and self._opened.exception() is not None):
            self._opened = asyncio.get_running_loop().create_future()
            self._connected = asyncio.create_task(self._stay_connected(self._opened))
        with _known_outcome():
            await asyncio.shield(self._opened)

    async def _stay_connected(self, opened: asyncio.Future[None]) -> None:
        try:
            async with self._client:
                opened.set_result(None)
                await asyncio.Event().wait()
        except (RedisError, OSError) as error:
            if not opened.done():
                opened.set_exception(error)

    async def release(self) -> None:
        with _known_outcome():
            await self._lock.release()

    async def extend(self) -> bool:
        try:
            with _known_outcome():
                return bool(await self._lock.extend(self._ttl))
        except LockError:
            return False


@contextmanager
def _known_outcome() -> Iterator[None]:
    try:
        yield
    except Refused as error:
        raise LockError(f"{type(error).__name__}: {error}") from error
    except (RedisError, OSError) as error:
        raise Indeterminate(f"{type(error).__name__}: {error}") from error
