"""Redis lock with SET NX PX and a token, which then uses WAIT until enough replicas have the key.

Commands: ``SET key token NX PX ms`` · ``WAIT numreplicas ms``; if fewer acknowledged: "if GET is mine then DEL", and
the lock counts as not acquired · ``EVALSHA`` of "if GET is mine then DEL".
Source: Redis documentation of WAIT; coredis LuaLock (LOCKS 28).

Safe for: cutting duplicate work. WAIT makes a loss at failover rarer but does not exclude it: the promoted replica may
be one that did not acknowledge, and a refused key may have reached a replica before it was deleted.

Known failures: redis-wait-other-replica, redis-wait-ignored (not here: this lock checks the answer), redis-split-brain,
sentinel-stale-primary, ttl-pause-write, ttl-check-then-pause, ttl-net-delay, ttl-overrun, lost-reply-acquire,
late-acquire, redis-clock-fwd, redis-clock-back, redis-restart-empty, redis-evict, redis-oom.
"""

from __future__ import annotations

import time
import uuid
from typing import Any, ClassVar, Self

import redis

from .base import Endpoints, Failure, Grant, Indeterminate, LockInfo
from .redis_client import COMPARE_AND_DELETE, REQUIRES, RedisClient, RedisLock
from .redis_failures import EXPIRES, overrun


class WaitLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-wait",
        title="SET NX PX, then WAIT for replicas",
        algorithm="SET key token NX PX ms; WAIT n ms; fewer than n: delete own key, not acquired.",
        source="Redis documentation of WAIT; coredis LuaLock",
        safety="E",
        kinds=("redis-sentinel", "redis-cluster"),
        requires=REQUIRES,
        options={"numreplicas": 2, "wait_s": 0.1},
        on_death=EXPIRES,
        outage="unavailable while any server is down, because it waits for all replicas; numreplicas can be lowered",
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than the ttl",
                "harness run redis-wait --nemesis client-pause",
            ),
            overrun("redis-wait"),
        ),
    )

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        """Open the lock. It waits for all replicas unless ``numreplicas`` says otherwise: a Redis Cluster has one for
        each primary."""
        replicas = {"numreplicas": 1} if endpoints.kind == "redis-cluster" else {}
        return super().open(endpoints, key, ttl, **{**replicas, **options})

    def __init__(self, client: RedisClient, key: str, ttl: float, *, numreplicas: int = 2, wait_s: float = 0.1) -> None:
        super().__init__(client, key, ttl)
        self.numreplicas = numreplicas
        self.wait_ms = max(1, round(wait_s * 1000))  # WAIT 0 would wait for ever
        self.token = ""
        self._delete_own = client.register_script(COMPARE_AND_DELETE)

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        token = uuid.uuid4().hex
        if not self.client.set(self.key, token, nx=True, px=self.ttl_ms):
            return None
        try:
            if not self._replicated():
                self._delete_own(keys=[self.key], args=[token])
                return None
        except redis.RedisError as error:
            raise Indeterminate(f"{self.key} is set, its replication is unknown: {error}") from error
        self.token = token
        return Grant(valid_for=self.remaining(began))

    def _replicated(self) -> bool:
        """Send WAIT, and tell whether enough replicas acknowledged. An answer after a lost one tells nothing."""
        before = self.client.unanswered
        acknowledged = self.client.acknowledged(self.key, self.numreplicas, self.wait_ms)
        return acknowledged >= self.numreplicas and self.client.unanswered == before

    def unlock(self) -> bool:
        return bool(self.token and self._delete_own(keys=[self.key], args=[self.token]))
