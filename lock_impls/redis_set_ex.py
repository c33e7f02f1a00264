"""Redis lock with SET NX EX in one command, and a plain DEL to unlock. It is atomic, but has no owner check.

Commands: ``SET key 1 EX seconds NX`` (whole seconds, rounded up) · ``DEL key``.
Source: article 001, step 3 (since Redis 2.6.12).

Safe for: cutting duplicate work. A holder that overran its ttl deletes the next holder's key, which lets a third client
in.

Known failures: del-foreign, ttl-pause-write, ttl-check-then-pause, ttl-net-delay, ttl-overrun, lost-reply-acquire,
late-acquire, set-drops-ttl, redis-clock-fwd, redis-clock-back, redis-async-failover, redis-split-brain,
redis-restart-empty, redis-aof-1s, redis-evict, redis-oom.
"""

from __future__ import annotations

import time
from typing import ClassVar

from .base import Grant, LockInfo
from .redis_client import REQUIRES, RedisLock
from .redis_failures import EXPIRES, ONE_PRIMARY, ONE_SLOT_KINDS, expiring, foreign_delete, overrun


class SetExLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-set-ex",
        title="SET NX EX and plain DEL",
        algorithm="SET key 1 EX s NX; DEL key. Atomic, but without an owner.",
        source="article 001, step 3",
        safety="E",
        kinds=ONE_SLOT_KINDS,
        requires=REQUIRES,
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        failures=(*expiring("redis-set-ex"), overrun("redis-set-ex"), foreign_delete("redis-set-ex")),
    )

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        if not self.client.set(self.key, "1", nx=True, ex=self.ttl_whole_s):
            return None
        return Grant(valid_for=self.remaining(began))

    def unlock(self) -> bool:
        self.client.delete(self.key)
        return True  # DEL does not say whose key it was
