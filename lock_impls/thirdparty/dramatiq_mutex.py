"""dramatiq's ``ConcurrentRateLimiter`` (Redis) with its default ``limit`` of 1, unmodified; tested with dramatiq 2.2.1
and redis 8.1.0.

Its documentation says: "You can use a concurrent rate limiter of size 1 to get a distributed mutex". ``ttl`` is "the
time in milliseconds that keys may live for", 15 minutes by default; this adapter sets it to the ttl. The key has the
number of holders and nothing about who they are, so a late release lowers the number for the next holder, and does not
say so. The library does not wait, so this adapter polls. It calls the two methods that the library's context manager
calls, because Python would run the end of a generator even for a client that has been killed.

Requests: ``SET key 1 PX ms NX``; if the key exists ``WATCH key`` · ``GET key`` · ``MULTI`` · ``SET key 1 PX ms`` ·
``EXEC``, for as long as others change the key · release: the same with ``SET key 0 PX ms``.
Source: dramatiq/rate_limits/concurrent.py, dramatiq/rate_limits/backends/redis.py.

Safe for: cutting duplicate work whose duration is far below the ttl.

Known failures: del-foreign, ttl-pause-write, redis-clock-fwd, redis-restart-empty, redis-async-failover, redis-evict,
lost-reply-acquire, drq-lost-release (a lost reply to a release: it is repeated, and ends the next holder's hold).
"""

from __future__ import annotations

from typing import Any, ClassVar

from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend

from harness.lock_impls.base import Endpoints, Grant, LockError, LockInfo
from harness.lock_impls.polling import poll
from harness.lock_impls.redis_client import ANSWER_TIMEOUT, RedisClient, known_grant, known_outcome, open_client
from harness.lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, SINGLE_KEY_KINDS, expiring, foreign_delete


class DramatiqMutex:
    info: ClassVar = LockInfo(
        name="dramatiq-mutex",
        title="dramatiq's own ConcurrentRateLimiter of size 1 on Redis, unmodified",
        algorithm="SET key 1 PX ms NX, or in a transaction 0 -> 1; release: in a transaction 1 -> 0.",
        source="dramatiq 2.2.1, dramatiq/rate_limits/concurrent.py",
        safety="E",
        kinds=SINGLE_KEY_KINDS,
        answer_timeout=ANSWER_TIMEOUT,
        requires=("dramatiq==2.2.1", "redis==8.1.0"),
        library="dramatiq 2.2.1",
        promises="'You can use a concurrent rate limiter of size 1 to get a distributed mutex.'",
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        lease="ttl",
        failures=(*expiring("dramatiq-mutex"), foreign_delete("dramatiq-mutex")),
    )

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        self._client = client
        self._key = key
        backend: Any = RedisBackend(client=client)
        self._limiter: Any = ConcurrentRateLimiter(backend, key, ttl=round(ttl * 1000))  # type: ignore[no-untyped-call]
        self._held = False

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> DramatiqMutex:
        return cls(open_client(endpoints), key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: poll(self._try, timeout), self._client)

    def _try(self) -> Grant | None:
        if not self._limiter._acquire():
            return None
        self._held = True
        return Grant()

    def release(self) -> None:
        held, self._held = self._held, False
        if not held:
            raise LockError(f"{self._key} is not held by this client")
        with known_outcome(self._client):
            self._limiter._release()
