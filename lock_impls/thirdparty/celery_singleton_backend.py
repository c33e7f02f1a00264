"""celery-singleton's Redis backend, unmodified; tested with celery-singleton 0.3.1, celery 5.7.0 and redis 8.1.0.

Its documentation promises that ``Singleton`` "prevents duplicate tasks from being queued": the lock is acquired when a
task is sent, and its worker, another process, deletes the key when the task has ended. The key has the task's id, but
the release does not compare it. The backend's methods are the lock. Without a ``lock_expiry``, the default, the key of
a task whose worker died stays until somebody calls ``clear_locks``; this adapter sets it to the ttl, rounded up to
whole seconds. ``unlock`` does not say whether there was a key. A task that finds a lock is not sent: the library does
not wait, so this adapter polls.

Requests: ``SET key id NX EX s`` · ``DEL key``.
Source: celery_singleton/backends/redis.py, celery_singleton/singleton.py.

Safe for: cutting duplicate work whose duration, with its time in the queue, is far below the ttl.

Known failures: del-foreign, ttl-pause-write, redis-clock-fwd, redis-restart-empty, redis-evict, lost-reply-acquire.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from celery_singleton.backends.redis import RedisBackend
from kombu.utils.uuid import uuid

from harness.lock_impls.base import Endpoints, Grant, LockInfo
from harness.lock_impls.polling import poll
from harness.lock_impls.redis_client import ANSWER_TIMEOUT, RedisClient, known_grant, known_outcome, open_client
from harness.lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, expiring, foreign_delete


class CelerySingleton:
    info: ClassVar = LockInfo(
        name="celery-singleton",
        title="celery-singleton's own Redis backend, unmodified",
        algorithm="SET key id NX EX s; DEL key.",
        source="celery-singleton 0.3.1, celery_singleton/backends/redis.py",
        safety="E",
        kinds=("redis-single",),
        answer_timeout=ANSWER_TIMEOUT,
        requires=("celery-singleton==0.3.1", "celery==5.7.0", "redis==8.1.0"),
        library="celery-singleton 0.3.1",
        promises="A base class for tasks 'that prevents duplicate tasks from being queued', by a lock in Redis.",
        on_death=f"{EXPIRES} (nothing without a lock_expiry, the library's default)",
        outage=ONE_PRIMARY,
        overtime=1.0,
        lease="ttl",
        failures=(*expiring("celery-singleton", replicated=False), foreign_delete("celery-singleton")),
    )

    def __init__(self, client: RedisClient, address: tuple[str, int], key: str, ttl: float) -> None:
        self._client = client
        self._backend: Any = RedisBackend("redis://{}:{}/0".format(*address))
        self._backend.redis = client  # it counts the requests that were not answered
        self._key = key
        self._expiry = math.ceil(ttl)

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> CelerySingleton:
        return cls(open_client(endpoints, decode_responses=True), endpoints.addresses[0], key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: poll(self._try, timeout), self._client)

    def _try(self) -> Grant | None:
        return Grant() if self._backend.lock(self._key, uuid(), expiry=self._expiry) else None

    def release(self) -> None:
        with known_outcome(self._client):
            self._backend.unlock(self._key)
