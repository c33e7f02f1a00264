"""SETNX, then EXPIRE: an expiry, but in a second command.

Commands: ``SETNX key 1`` · ``EXPIRE key seconds`` (whole seconds, rounded up) · ``DEL key``.
Source: article 001, step 2; redis-py before 3.0 did the same.

Safe for: nothing that can crash between the two commands: the key then lives for ever. No owner: who overran its ttl
deletes the next holder's key.
Known failures: setnx-expire-gap, ttl-pause-write, ttl-overrun, del-foreign, lost-reply-acquire (blocked for ever: the
lost answer is SETNX's), late-acquire, redis-clock-fwd, redis-clock-back, redis-async-failover, redis-split-brain,
redis-restart-empty, redis-aof-1s, redis-evict.
"""

from __future__ import annotations

import time
from typing import ClassVar

import redis

from lock_impls.base import Grant, Indeterminate, LockInfo
from lock_impls.redis_client import SINGLE_KEY_KINDS, RedisLock
from lock_impls.redis_failures import EXPIRES, ONE_PRIMARY, expiring, foreign_delete, overrun


class SetnxExpireLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-setnx-expire",
        title="SETNX, then EXPIRE",
        algorithm="SETNX key 1; EXPIRE key s; DEL key. Two commands to lock, no owner.",
        source="article 001, step 2",
        safety="X",
        kinds=SINGLE_KEY_KINDS,
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
        return True  # DEL cannot tell whose key it was
