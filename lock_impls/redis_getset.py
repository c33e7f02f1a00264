"""Redis lock whose value is its own deadline, by the clients' clocks: SETNX, and GETSET to take over an expired one.

Commands: ``SETNX key deadline`` with deadline = the client's time() + ttl. If busy: ``GET key``; if that deadline is
past, ``GETSET key deadline``. The client has won if the returned old value is the one it just read, or is itself past.
Unlock: ``DEL key``, but only before the own deadline: after it another client may hold the lock, so nothing is sent.

Source: articles 002 and 004, with their mistakes corrected (002 compares with the wrong value, see seed002-compare; 004
inverts the condition of unlock, see seed004-unlock); Redis documentation of SETNX.

Safe for: cutting duplicate work, among clients whose wall clocks agree and are never stepped. The key has no expiry on
the server: only a contender's clock decides that a holder is late. There is no owner check.

Known failures: getset-client-skew, getset-loser-extends, getset-unlock-late, clock-local-deadline, ttl-pause-write,
ttl-overrun, lost-reply-acquire, late-acquire, redis-async-failover, redis-split-brain, redis-restart-empty,
redis-aof-1s.
"""

from __future__ import annotations

import time
from typing import ClassVar

from .base import Failure, Grant, LockInfo
from .redis_client import REQUIRES, RedisClient, RedisLock
from .redis_failures import ONE_PRIMARY, ONE_SLOT_KINDS, one_server


class GetsetLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-getset",
        title="SETNX, GET, GETSET with timestamps",
        algorithm=(
            "SETNX key now+ttl; if the stored time is past: GETSET, won if the old value is past; DEL before the "
            "deadline."
        ),
        source="articles 002 and 004; Redis documentation of SETNX",
        safety="E",
        kinds=ONE_SLOT_KINDS,
        requires=REQUIRES,
        on_death="the deadline stored in it: a contender that finds it past takes over",
        outage=ONE_PRIMARY,
        failures=(
            Failure(
                "getset-client-skew", "the clients' clocks differ", "harness run redis-getset --nemesis clock-offset"
            ),
            *one_server("redis-getset"),
        ),
    )

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self.deadline = 0.0

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        deadline = time.time() + self.ttl
        if not self.client.setnx(self.key, repr(deadline)) and not self._take_over(repr(deadline)):
            return None
        self.deadline = deadline
        return Grant(valid_for=self.remaining(began))

    def _take_over(self, deadline: str) -> bool:
        seen = self.client.get(self.key)
        if not _is_past(seen):
            return False
        old = self.client.getset(self.key, deadline)
        return old == seen or _is_past(old)

    def unlock(self) -> bool:
        if time.time() >= self.deadline:
            return False
        self.client.delete(self.key)
        self.deadline = 0.0
        return True


def _is_past(deadline: str | bytes | None) -> bool:
    """Also True for no deadline at all: the holder has just deleted the key, and only the first of several GETSETs
    sees that."""
    return deadline is None or float(deadline) < time.time()
