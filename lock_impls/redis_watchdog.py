"""Redis lock with SET NX PX, a token, and a watchdog thread that renews the key every ttl/3 while the process lives.

Commands: ``SET key token NX PX ms`` · every ttl/3 ``EVALSHA`` of "if GET is mine then PEXPIRE" · ``EVALSHA`` of "if GET
is mine then DEL".
Source: article 001, last step; Redisson's watchdog (30 s, every 10 s).

Safe for: cutting duplicate work of unknown length. Renewal helps when the work takes too long. It does not help when
the whole process is paused, because then the renewal stops too. A hung worker is renewed for ever. If a renewal finds
another owner, the thread ends and :meth:`still_valid` is False.

Known failures: watchdog-zombie, ttl-pause-write, ttl-check-then-pause, ttl-net-delay, lost-reply-acquire, late-acquire,
redis-clock-fwd, redis-async-failover, redis-split-brain, redis-restart-empty, redis-aof-1s, redis-evict, redis-oom.
"""

from __future__ import annotations

import threading
import time
import uuid
from typing import ClassVar

import redis

from .base import Failure, Grant, LockInfo
from .redis_client import COMPARE_AND_DELETE, COMPARE_AND_EXPIRE, REQUIRES, RedisClient, RedisLock
from .redis_failures import ONE_PRIMARY, ONE_SLOT_KINDS, expiring


class WatchdogLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-watchdog",
        title="SET NX PX with a renewal thread",
        algorithm="SET key token NX PX ms; a thread renews by Lua every ttl/3; Lua compare-and-delete.",
        source="article 001; Redisson's watchdog",
        safety="E",
        kinds=ONE_SLOT_KINDS,
        requires=REQUIRES,
        on_death="the ttl after the last renewal: its key expires",
        outage=ONE_PRIMARY,
        failures=(
            *expiring("redis-watchdog"),
            Failure(
                "watchdog-zombie",
                "the holder hangs, and its key is renewed for ever",
                "harness run redis-watchdog --nemesis client-hang",
            ),
        ),
    )

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self._delete_own = client.register_script(COMPARE_AND_DELETE)
        self._renewal: Renewal | None = None

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        token = uuid.uuid4().hex
        if not self.client.set(self.key, token, nx=True, px=self.ttl_ms):
            return None
        if self._renewal is not None:
            self._renewal.stop()
        self._renewal = Renewal(self, token, began + self.ttl)
        return Grant()  # no valid_for: the lease is renewed, and still_valid tells whether the renewals succeed

    def unlock(self) -> bool:
        if self._renewal is None:
            return False
        self._renewal.stop()
        return bool(self._delete_own(keys=[self.key], args=[self._renewal.token]))

    def still_valid(self) -> bool:
        return self._renewal is not None and self._renewal.holds()


class Renewal:
    """The watchdog of one hold. It knows only that hold's token, so it can never renew a later hold."""

    def __init__(self, lock: RedisLock, token: str, deadline: float) -> None:
        self.token = token
        self._lock = lock
        self._deadline = deadline
        self._ended = threading.Event()
        self._expire_own = lock.client.register_script(COMPARE_AND_EXPIRE)
        threading.Thread(target=self._run, name=f"watchdog of {lock.key}", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def holds(self) -> bool:
        return not self._ended.is_set() and time.monotonic() < self._deadline

    def _run(self) -> None:
        while not self._ended.wait(self._lock.ttl / 3):
            began = time.monotonic()
            try:
                renewed = self._expire_own(keys=[self._lock.key], args=[self.token, self._lock.ttl_ms])
            except redis.RedisError:
                continue  # outcome unknown: holds() becomes False unless a later renewal succeeds in time
            if not renewed:
                self._ended.set()  # the key has another owner or none: the lock is lost
                return
            self._deadline = began + self._lock.ttl
