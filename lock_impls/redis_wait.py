"""SET NX PX with a token, then WAIT until replicas have it.

Commands: ``SET key token NX PX ms`` · ``WAIT numreplicas ms``; if fewer acknowledged: "if GET is mine then DEL", and
the lock counts as not acquired · ``EVALSHA`` of "if GET is mine then DEL".
Source: Redis documentation of WAIT; coredis LuaLock (LOCKS 28).

Safe for: cutting duplicate work. WAIT makes the loss at failover rarer and does not exclude it: the replica that is
promoted may be one that did not acknowledge, and a refused key may have reached some replica before it was deleted.
Known failures: redis-wait-other-replica, redis-wait-ignored (not here: the answer is looked at), redis-split-brain,
sentinel-stale-primary, ttl-pause-write, ttl-check-then-pause, ttl-net-delay, ttl-overrun, lost-reply-acquire,
late-acquire, redis-clock-fwd, redis-clock-back, redis-restart-empty, redis-evict, redis-oom.
"""

from __future__ import annotations

import time
import uuid
from typing import ClassVar

import redis

from lock_impls.base import Failure, Grant, Indeterminate, LockInfo
from lock_impls.redis_client import COMPARE_AND_DELETE, Client, RedisLock
from lock_impls.redis_failures import EXPIRES, overrun


class WaitLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-wait",
        title="SET NX PX, then WAIT for replicas",
        algorithm="SET key token NX PX ms; WAIT n ms; fewer than n: delete own key, not acquired.",
        source="Redis documentation of WAIT; coredis LuaLock",
        safety="E",
        kinds=("redis-sentinel",),
        options={"numreplicas": 2, "wait_s": 0.1},
        on_death=EXPIRES,
        outage="nobody gets it while any server is gone: it waits for all replicas, unless told to wait for fewer",
        failures=(
            Failure(
                "ttl-pause-write",
                "its holder stands still for longer than the ttl",
                "harness run redis-wait --nemesis client-pause",
            ),
            overrun("redis-wait"),
        ),
    )

    def __init__(self, client: Client, key: str, ttl: float, *, numreplicas: int = 2, wait_s: float = 0.1) -> None:
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
        """WAIT speaks of the writes of its own connection. One that redis-py sent again came over a new connection,
        which has written nothing, so its answer would be a mere count of replicas."""
        before = self.client.unanswered
        acknowledged = self.client.wait(self.numreplicas, self.wait_ms)
        return acknowledged >= self.numreplicas and self.client.unanswered == before

    def unlock(self) -> bool:
        return bool(self.token and self._delete_own(keys=[self.key], args=[self.token]))
