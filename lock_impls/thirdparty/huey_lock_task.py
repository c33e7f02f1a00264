"""huey's ``lock_task`` (Redis), unmodified; tested with huey 3.5.4 beside redis 8.1.0.

Its documentation promises a lock "that can be used to wrap a task or a block of code, so that only one instance is
running at a time". A busy lock raises ``TaskLockedException``: huey itself never waits, so this adapter polls. With
``RedisExpireHuey`` the key can have a ``ttl`` in whole seconds, which the adapter rounds up; without a ``ttl``, the
default, a lock whose holder died stays until somebody calls ``flush_locks``. The value of the key is always ``1``, so a
release deletes the key whoever set it.

Requests: ``SET key 1 NX EX s`` · ``DEL key``.
Source: huey/api.py (TaskLock), huey/storage.py (RedisExpireStorage).

Safe for: cutting duplicate work whose duration is far below the ttl.

Known failures: del-foreign, ttl-pause-write, redis-clock-fwd, redis-restart-empty, redis-async-failover, redis-evict,
lost-reply-acquire.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from huey import RedisExpireHuey
from huey.exceptions import TaskLockedException

from harness.lock_impls.base import Endpoints, Grant, LockError, LockInfo
from harness.lock_impls.polling import poll
from harness.lock_impls.redis_client import ANSWER_TIMEOUT, RedisClient, known_grant, known_outcome, open_client
from harness.lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, SINGLE_KEY_KINDS, expiring, foreign_delete


class HueyLockTask:
    info: ClassVar = LockInfo(
        name="huey-lock-task",
        title="huey's own lock_task on Redis, unmodified",
        algorithm="SET key 1 NX EX s; DEL key.",
        source="huey 3.5.4, huey/api.py",
        safety="E",
        kinds=SINGLE_KEY_KINDS,
        answer_timeout=ANSWER_TIMEOUT,
        requires=("huey==3.5.4", "redis==8.1.0"),
        library="huey 3.5.4",
        promises="'A lock that can be used to wrap a task or a block of code, so that only one instance is running at "
        "a time.'",
        on_death=f"{EXPIRES} (nothing without a ttl, the library's default)",
        outage=ONE_PRIMARY,
        overtime=1.0,
        lease="ttl",
        failures=(*expiring("huey-lock-task"), foreign_delete("huey-lock-task")),
    )

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        self._client = client
        huey: Any = RedisExpireHuey("harness", connection_pool=client.connection_pool)
        huey.storage.conn = client  # it counts the requests that were not answered
        self._lock: Any = huey.lock_task(key, ttl=math.ceil(ttl))

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> HueyLockTask:
        return cls(open_client(endpoints), key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: poll(self._try, timeout), self._client)

    def _try(self) -> Grant | None:
        try:
            self._lock.acquire()
        except TaskLockedException:
            return None
        return Grant()

    def release(self) -> None:
        with known_outcome(self._client):
            if not self._lock.release():
                raise LockError("the key was gone")
