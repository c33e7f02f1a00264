"""Redis lock with SETNX, and DEL to unlock: the first lock of article 001. It has neither an expiry nor an owner check.

Commands: ``SETNX key 1`` (1: held, 0: busy) · ``DEL key``.
Source: article 001, step 1; Redis documentation of SETNX.

Safe for: nothing that can crash. As long as every holder lives, there are never two. A dead holder blocks all others
for ever, because there is no expiry. Anybody's DEL frees the lock, because there is no owner.

Known failures: setnx-crash, del-foreign, lost-reply-acquire (blocked for ever), late-acquire, redis-async-failover,
redis-split-brain, redis-restart-empty, redis-aof-1s.
"""

from __future__ import annotations

from typing import ClassVar

from .base import Failure, Grant, LockInfo
from .redis_client import REQUIRES, RedisLock
from .redis_failures import ONE_PRIMARY, ONE_SLOT_KINDS


class SetnxLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-setnx",
        title="SETNX and DEL",
        algorithm="SETNX key 1; DEL key. No expiry, no owner.",
        source="article 001, step 1",
        safety="X",
        kinds=ONE_SLOT_KINDS,
        requires=REQUIRES,
        on_death="nothing",
        outage=ONE_PRIMARY,
        failures=(
            Failure(
                "setnx-crash",
                "the holder dies, and nobody can ever acquire the lock again",
                "harness run redis-setnx --nemesis client-crash",
            ),
        ),
    )

    def try_lock(self) -> Grant | None:
        return Grant() if self.client.setnx(self.key, "1") else None

    def unlock(self) -> bool:
        self.client.delete(self.key)
        return True  # DEL does not say whose key it was
