"""portalocker's ``RedisLock``, unmodified; tested with portalocker 4.4.2 beside redis 8.1.0.

Its documentation promises "a Redis lock held by a pub/sub subscription": the holder is the client that subscribes to
the lock's channel. There is no key and no lease. Whoever wants the lock sends a ping through the channel; a holder that
does not answer within a second is disconnected by ``CLIENT KILL``. A thread answers pings and notices a lost
connection; by default it then interrupts the main thread. :meth:`still_valid` asks the lock whether it has noticed.

Requests: ``PUBSUB NUMSUB channel`` · ``SUBSCRIBE channel`` · ``PUBLISH channel ping`` · ``CLIENT KILL ID`` · release:
``UNSUBSCRIBE``. An acquire sleeps before its first look.
Source: portalocker/redis.py.

Safe for: cutting duplicate work. ``fencing`` is an option of the library that this adapter does not use.

Known failures: ttl-pause-write.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import portalocker
from portalocker.exceptions import LockException

from harness.lock_impls.base import Endpoints, Failure, Grant, LockError, LockInfo
from harness.lock_impls.redis_client import RedisClient, known_grant, known_outcome, open_client
from harness.lock_impls.redis_failures import ONE_PRIMARY

logging.getLogger("portalocker.redis").setLevel(logging.CRITICAL)  # it logs each holder that it disconnects


class PortalockerRedisLock:
    info: ClassVar = LockInfo(
        name="portalocker-redis-lock",
        title="portalocker's own RedisLock, unmodified",
        algorithm="SUBSCRIBE channel; the subscriber is the holder. Who does not answer a ping is disconnected.",
        source="portalocker 4.4.2, portalocker/redis.py",
        safety="E",
        kinds=("redis-single",),
        requires=("portalocker==4.4.2", "redis==8.1.0"),
        library="portalocker 4.4.2",
        promises="'A Redis lock held by a pub/sub subscription': a crashed client loses it with its connection.",
        on_death="the end of its connection, or a second after a ping that it does not answer",
        outage=ONE_PRIMARY,
        overtime=1.0,
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than a second while others want the lock",
                "harness run portalocker-redis-lock --nemesis client-pause --ttl 6s",
            ),
        ),
    )

    def __init__(self, client: RedisClient, key: str) -> None:
        self._client = client
        self._lock: Any = portalocker.RedisLock(key, connection=client)

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> PortalockerRedisLock:
        del ttl  # there is no lease
        return cls(open_client(endpoints, decode_responses=True), key)

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: self._take(timeout), self._client)

    def _take(self, timeout: float) -> Grant | None:
        try:
            self._lock.acquire(timeout=timeout)
        except LockException:  # AlreadyLocked
            return None
        return Grant()

    def release(self) -> None:
        held = self._lock.pubsub is not None and self.still_valid()
        with known_outcome(self._client):
            self._lock.release()
            if not held:  # the library's release then does nothing, and says nothing
                raise LockError("the lock was not held")

    def still_valid(self) -> bool:
        return not getattr(self._lock, "lost", False)  # portalocker before 4.2 does not tell
