"""SET NX PX with a token, and a thread that renews it every ttl/3 for as long as the process lives.

Commands: ``SET key token NX PX ms`` · every ttl/3 ``EVALSHA`` of "if GET is mine then PEXPIRE" · ``EVALSHA`` of "if GET
is mine then DEL".
Source: article 001, last step; Redisson's watchdog (30 s, every 10 s).

Safe for: cutting duplicate work of unknown length. It cures the work that takes too long; a pause of the whole process
stops the renewal with the work, and a hung worker is renewed for ever. When a renewal finds another owner the thread
ends and :meth:`still_valid` is False.
Known failures: watchdog-zombie, ttl-pause-write, ttl-check-then-pause, ttl-net-delay, lost-reply-acquire, late-acquire,
redis-clock-fwd, redis-async-failover, redis-split-brain, redis-restart-empty, redis-aof-1s, redis-evict, redis-oom.
"""

from __future__ import annotations

import threading
import time
import uuid
from typing import ClassVar

import redis

from lock_impls.base import Failure, Grant, LockInfo
from lock_impls.redis_client import COMPARE_AND_DELETE, COMPARE_AND_EXPIRE, SINGLE_KEY_KINDS, Client, RedisLock
from lock_impls.redis_failures import ONE_PRIMARY, expiring


class WatchdogLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-watchdog",
        title="SET NX PX with a renewal thread",
        algorithm="SET key token NX PX ms; a thread renews by Lua every ttl/3; Lua compare-and-delete.",
        source="article 001; Redisson's watchdog",
        safety="E",
        kinds=SINGLE_KEY_KINDS,
        on_death="the ttl after the last renewal: its key expires",
        outage=ONE_PRIMARY,
        failures=(
            *expiring("redis-watchdog"),
            Failure(
                "watchdog-zombie",
                "its holder hangs, and is renewed for ever",
                "harness run redis-watchdog --nemesis client-hang",
            ),
        ),
    )

    def __init__(self, client: Client, key: str, ttl: float) -> None:
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
        return Grant()  # no valid_for: it is renewed for as long as the renewal goes well, which still_valid tells

    def unlock(self) -> bool:
        if self._renewal is None:
            return False
        self._renewal.stop()
        return bool(self._delete_own(keys=[self.key], args=[self._renewal.token]))

    def still_valid(self) -> bool:
        return self._renewal is not None and self._renewal.holds()


class Renewal:
    """The watchdog of one hold: it knows the token of that hold only, so it can never renew a later one."""

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
                continue  # nobody knows: holds() turns False by itself if no later renewal succeeds in time
            if not renewed:
                self._ended.set()  # somebody else's, or nobody's: lost
                return
            self._deadline = began + self._lock.ttl
