"""Redis lock with SETNX, and the expiry in a second command, EXPIRE: a crash between the two blocks the lock for ever.

Commands: ``SETNX key 1`` · ``EXPIRE key seconds`` (whole seconds, rounded up) · ``DEL key``.
Source: article 001, step 2; redis-py before 3.0 did the same.

Safe for: nothing that can crash between the two commands: the key then has no expiry. There is no owner check: a holder
that overran its ttl deletes the next holder's key.

Known failures: setnx-expire-gap, ttl-pause-write, ttl-overrun, del-foreign, lost-reply-acquire (blocked for ever if the
answer to SETNX is lost), late-acquire, redis-clock-fwd, redis-clock-back, redis-async-failover, redis-split-brain,
redis-restart-empty, redis-aof-1s, redis-evict.
"""

from __future__ import annotations

import time
from typing import ClassVar

import redis

from .base import Grant, Indeterminate, LockInfo
from .redis_client import REQUIRES, RedisLock
from .redis_failures import EXPIRES, ONE_PRIMARY, ONE_SLOT_KINDS, expiring, foreign_delete, overrun


class SetnxExpireLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-setnx-expire",
        title="SETNX, then EXPIRE",
        algorithm="SETNX key 1; EXPIRE key s; DEL key. Two commands to lock, no owner.",
        source="article 001, step 2",
        safety="X",
        kinds=ONE_SLOT_KINDS,
        requires=REQUIRES,
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        failures=(*expiring("redis-setnx-expire"), overrun("redis-setnx-expire"), foreign_delete("redis-setnx-expire")),
    )

    def try_lock(self) -> Grant | None:
        if not self.client.setnx(self.key, "1"):
            return None
        began = time.monotonic()
        try:
            self.client.expire(self.key, self.ttl_whole_s)
        except redis.RedisError as error:
            raise Indeterminate(f"{self.key} is set, and may have no expiry: {error}") from error
        return Grant(valid_for=self.remaining(began))

    def unlock(self) -> bool:
        self.client.delete(self.key)
        return True  # DEL does not say whose key it was
