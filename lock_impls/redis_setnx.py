"""SETNX to lock, DEL to unlock: the first lock of article 001.

Commands: ``SETNX key 1`` (1: held, 0: busy) · ``DEL key``.
Source: article 001, step 1; Redis documentation of SETNX.

Safe for: nothing that can crash. While every holder lives, no two hold it. There is no expiry, so a dead holder blocks
everybody for ever, and no owner, so anybody's DEL frees it.
Known failures: setnx-crash, del-foreign, lost-reply-acquire (blocked for ever), late-acquire, redis-async-failover,
redis-split-brain, redis-restart-empty, redis-aof-1s.
"""

from __future__ import annotations

from typing import ClassVar

from lock_impls.base import Failure, Grant, LockInfo
from lock_impls.redis_client import SINGLE_KEY_KINDS, RedisLock
from lock_impls.redis_failures import ONE_PRIMARY


class SetnxLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-setnx",
        title="SETNX and DEL",
        algorithm="SETNX key 1; DEL key. No expiry, no owner.",
        source="article 001, step 1",
        safety="X",
        kinds=SINGLE_KEY_KINDS,
        on_death="nothing",
        outage=ONE_PRIMARY,
        failures=(
            Failure("setnx-crash", "nobody gets it ever again", "harness run redis-setnx --nemesis client-crash"),
        ),
    )

    def try_lock(self) -> Grant | None:
        return Grant() if self.client.setnx(self.key, "1") else None

    def unlock(self) -> bool:
        self.client.delete(self.key)
        return True  # DEL cannot tell whose key it was
