"""celery-once's Redis backend, unmodified; tested with celery_once 3.0.1, celery 5.7.0 and redis 8.1.0.

Its documentation promises "to prevent multiple execution and queuing of celery tasks": ``QueueOnce`` acquires a lock
when a task is sent, and its worker, another process, clears it when the task has returned. So the release cannot check
an owner: it deletes the key. The backend's two methods are the lock. A lock expires after ``timeout`` seconds, "an
``int``" and one hour by default; this adapter rounds the ttl up. A busy lock raises ``AlreadyQueued``: celery-once does
not wait, so this adapter polls.

Requests: ``SET key token NX PX ms``, and ``PTTL key`` if another client has it · ``DEL key``.
Source: celery_once/backends/redis.py, celery_once/tasks.py.

Safe for: cutting duplicate work whose duration, with its time in the queue, is far below the ttl.

Known failures: del-foreign, ttl-pause-write, redis-clock-fwd, redis-restart-empty, redis-evict, lost-reply-acquire.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from celery_once.backends.redis import Redis
from celery_once.tasks import AlreadyQueued

from harness.lock_impls.base import Endpoints, Grant, LockError, LockInfo
from harness.lock_impls.polling import poll
from harness.lock_impls.redis_client import ANSWER_TIMEOUT, RedisClient, known_grant, known_outcome, open_client
from harness.lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, expiring, foreign_delete


class CeleryOnce:
    info: ClassVar = LockInfo(
        name="celery-once",
        title="celery-once's own Redis backend, unmodified",
        algorithm="SET key token NX PX ms; DEL key.",
        source="celery-once 3.0.1, celery_once/backends/redis.py",
        safety="E",
        kinds=("redis-single",),
        answer_timeout=ANSWER_TIMEOUT,
        requires=("celery-once==3.0.1", "celery==5.7.0", "redis==8.1.0"),
        library="celery-once 3.0.1",
        promises="'Celery Once allows you to prevent multiple execution and queuing of celery tasks.'",
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        overtime=1.0,
        lease="ttl",
        failures=(*expiring("celery-once", replicated=False), foreign_delete("celery-once")),
    )

    def __init__(self, client: RedisClient, address: tuple[str, int], key: str, ttl: float) -> None:
        self._client = client
        self._backend: Any = Redis({"url": "redis://{}:{}/0".format(*address)})
        self._backend._redis = client  # it counts the requests that were not answered
        self._key = key
        self._timeout = math.ceil(ttl)

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> CeleryOnce:
        return cls(open_client(endpoints), endpoints.addresses[0], key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: poll(self._try, timeout), self._client)

    def _try(self) -> Grant | None:
        try:
            self._backend.raise_or_lock(self._key, timeout=self._timeout)
        except AlreadyQueued:
            return None
        return Grant()

    def release(self) -> None:
        with known_outcome(self._client):
            if not self._backend.clear_lock(self._key):
                raise LockError("the key was gone")
