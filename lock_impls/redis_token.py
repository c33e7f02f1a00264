"""Redis lock with SET NX PX and a random token; a Lua script checks the token before it unlocks or extends.

Commands: ``SET key token NX PX ms`` · ``EVALSHA`` of "if GET is mine then DEL" · extension: ``EVALSHA`` of "if GET is
mine then PEXPIRE".
Source: articles 001, 003 (10 s), 004 (30 s); Redis documentation of SET and "Distributed locks".

Safe for: cutting duplicate work; no client can free another's lock. Two holders remain possible whenever the first is
late without knowing it. The token is random, so a resource cannot use it to check the order of holders
(random-token-cas).

Known failures: ttl-pause-write, ttl-check-then-pause, ttl-net-delay, ttl-overrun, lost-reply-acquire, late-acquire,
set-drops-ttl, redis-clock-fwd, redis-clock-back, redis-async-failover, redis-split-brain, redis-cluster-failover,
redis-cluster-minority, redis-restart-empty, redis-aof-1s, redis-upgrade, redis-evict,
redis-oom.
"""

from __future__ import annotations

import time
import uuid
from typing import ClassVar

from .base import Grant, LockInfo
from .redis_client import COMPARE_AND_DELETE, COMPARE_AND_EXPIRE, REQUIRES, RedisClient, RedisLock, known_outcome
from .redis_failures import EXPIRES, ONE_PRIMARY, ONE_SLOT_KINDS, expiring, overrun


class RedisTokenLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-token",
        title="SET NX PX with a token, Lua compare-and-delete",
        algorithm="SET key token NX PX ms; Lua: if get(key) == token then del(key); the same check to extend.",
        source="articles 001, 003, 004; Redis documentation of SET",
        safety="E",
        kinds=ONE_SLOT_KINDS,
        requires=REQUIRES,
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        failures=(*expiring("redis-token"), overrun("redis-token")),
    )

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self.token = ""
        self.deadline = 0.0
        self._delete_own = client.register_script(COMPARE_AND_DELETE)
        self._expire_own = client.register_script(COMPARE_AND_EXPIRE)

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        token = uuid.uuid4().hex
        if not self.client.set(self.key, token, nx=True, px=self.ttl_ms):
            return None
        self.token, self.deadline = token, began + self.ttl
        return Grant(valid_for=self.remaining(began))

    def unlock(self) -> bool:
        self.deadline = 0.0
        return bool(self.token and self._delete_own(keys=[self.key], args=[self.token]))

    def extend(self) -> bool:
        """Extend the lease to a full ttl from now, if the key is still ours."""
        began = time.monotonic()
        with known_outcome(self.client):
            extended = bool(self.token and self._expire_own(keys=[self.key], args=[self.token, self.ttl_ms]))
        self.deadline = began + self.ttl if extended else 0.0
        return extended

    def still_valid(self) -> bool:
        """Decide by this client's monotonic clock alone, without a request. A pause right after the answer goes
        unnoticed."""
        return time.monotonic() < self.deadline
