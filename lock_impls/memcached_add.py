"""ADD with an expiry to lock, DELETE to unlock: the lock that memcached's own FAQ and celery's cookbook describe.

Commands: ``add key 0 exp len token`` (STORED: held, NOT_STORED: busy) · ``delete key``.
Source: memcached's documentation of add; celery's cookbook, "Ensuring a task is only executed one at a time"; tooz's
memcached driver.

Safe for: cutting duplicate work. There is no owner check, so a late holder frees somebody else's lock; the item may be
evicted to make room for any other, and a restart forgets it.
Known failures: ttl-pause-write, ttl-overrun, del-foreign, lost-reply-acquire, late-acquire, mc-evict,
mc-restart-rehash.
"""

from __future__ import annotations

import time
import uuid
from typing import ClassVar

from lock_impls.base import Failure, Grant, LockInfo
from lock_impls.memcached_client import KINDS, OVERTIME_S, MemcachedLock


class AddLock(MemcachedLock):
    info: ClassVar = LockInfo(
        name="memcached-add",
        title="memcached ADD and DELETE",
        algorithm="add key token exp; delete key. An expiry, no owner.",
        source="memcached protocol.txt; celery cookbook; tooz memcached driver",
        safety="E",
        kinds=KINDS,
        on_death="its expiry, up to a second late",
        overtime=OVERTIME_S,
        outage="lost: no server, no lock; a restart forgets who held it",
        failures=(
            Failure(
                "ttl-pause-write",
                "a holder that stands still longer than its lease goes on as if it held the lock",
                "harness run memcached-add --nemesis client-pause",
            ),
            Failure(
                "del-foreign",
                "who works longer than the ttl deletes the next holder's item",
                "harness run memcached-add --hold 4s",
            ),
            Failure(
                "mc-evict",
                "other items fill the memory, and the lock's is evicted long before it expires",
                "harness run memcached-add --nemesis eviction",
            ),
            Failure(
                "mc-restart-rehash",
                "the server comes back empty, and the lock is free",
                "harness run memcached-add --nemesis kill-amnesia",
            ),
        ),
    )

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        if not self.client.add(self.key, uuid.uuid4().hex, self.expiry):
            return None
        return Grant(valid_for=self.remaining(began))

    def unlock(self) -> bool:
        return bool(self.client.delete(self.key))  # false where nobody held it; whose it was it cannot tell
