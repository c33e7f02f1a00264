"""Redis lock with SET NX PX and a random token; to unlock, the client does GET, compares, and sends DEL.

Commands: ``SET key token NX PX ms`` · ``GET key``, compare with the own token, ``DEL key``.
Source: article 001, step 4 (the next step uses Lua instead).

Safe for: cutting duplicate work. The owner check and the DEL are two commands: if the key expires between them and
another client acquires it, the DEL removes the other client's key.

Known failures: get-del-gap, ttl-pause-write, ttl-check-then-pause, ttl-net-delay, ttl-overrun, lost-reply-acquire,
late-acquire, set-drops-ttl, redis-clock-fwd, redis-clock-back, redis-async-failover, redis-split-brain,
redis-restart-empty, redis-aof-1s, redis-evict, redis-oom.
"""

from __future__ import annotations

import time
import uuid
from typing import ClassVar

from .base import Grant, LockInfo
from .redis_client import REQUIRES, RedisClient, RedisLock
from .redis_failures import EXPIRES, ONE_PRIMARY, ONE_SLOT_KINDS, expiring, overrun


class TokenGetDelLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-token-getdel",
        title="SET NX PX with a token, GET + compare + DEL",
        algorithm="SET key token NX PX ms; GET key, compare, DEL key. The check and the DEL are not atomic.",
        source="article 001, step 4",
        safety="E",
        kinds=ONE_SLOT_KINDS,
        requires=REQUIRES,
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        failures=(*expiring("redis-token-getdel"), overrun("redis-token-getdel")),
    )

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self.token = ""

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        token = uuid.uuid4().hex
        if not self.client.set(self.key, token, nx=True, px=self.ttl_ms):
            return None
        self.token = token
        return Grant(valid_for=self.remaining(began))

    def unlock(self) -> bool:
        if not self.token or self.client.get(self.key) != self.token:
            return False
        self.client.delete(self.key)
        return True
