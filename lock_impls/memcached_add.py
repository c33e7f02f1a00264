"""memcached lock with ADD and an expiry, and DELETE to unlock, as in memcached's own FAQ and celery's cookbook.

Commands: ``add key 0 exp len token`` (STORED: held, NOT_STORED: busy) · ``delete key``.
Source: memcached's documentation of add; celery's cookbook, "Ensuring a task is only executed one at a time"; tooz's
memcached driver.

Safe for: cutting duplicate work. There is no owner check, so a late holder frees another client's lock. The server may
evict the item to make room for others, and a restart loses it.

Known failures: ttl-pause-write, ttl-overrun, del-foreign, lost-reply-acquire, late-acquire, mc-evict,
mc-restart-rehash.
"""

from __future__ import annotations

import time
import uuid
from typing import ClassVar

from .base import Failure, Grant, LockInfo
from .memcached_client import KINDS, OVERTIME_S, REQUIRES, MemcachedLock


class AddLock(MemcachedLock):
    info: ClassVar = LockInfo(
        name="memcached-add",
        title="memcached ADD and DELETE",
        algorithm="add key token exp; delete key. An expiry, no owner.",
        source="memcached protocol.txt; celery cookbook; tooz memcached driver",
        safety="E",
        kinds=KINDS,
        requires=REQUIRES,
        on_death="expiry, up to a second late",
        overtime=OVERTIME_S,
        outage="the lock is lost: a restart forgets the holder, and without the server nobody can acquire it",
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than its lease",
                "harness run memcached-add --nemesis client-pause",
            ),
            Failure(
                "del-foreign",
                "a holder that works longer than the ttl deletes the next holder's item",
                "harness run memcached-add --hold 4s",
            ),
            Failure(
                "mc-evict",
                "other items fill the memory, and the lock's item is evicted long before it expires",
                "harness run memcached-add --nemesis eviction",
            ),
            Failure(
                "mc-restart-rehash",
                "the server restarts empty, and the lock is free",
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
        return bool(self.client.delete(self.key))  # False if the item did not exist; the reply does not name its owner
