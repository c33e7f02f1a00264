"""Redis lock with fencing tokens: one Lua script does SET NX PX and INCR of a counter, so every grant has a larger
number.

Commands: ``EVALSHA`` of "if SET key token NX PX ms then INCR key:fence" · ``EVALSHA`` of "if GET is mine then DEL".
Source: article 003 (fencing id, after Kleppmann 2016-02-08); Redisson's RFencedLock counts in the same way.

Safe for: correctness, if the resource refuses a number below the highest it has seen, and the one Redis keeps its data.
The counter is on the same Redis: whatever loses the lock key may lose the counter too, and then numbers repeat
(redis-async-failover, redis-restart-empty: broken even with fencing).

Known failures: ttl-pause-write, ttl-check-then-pause, ttl-net-delay, ttl-overrun, redis-clock-fwd (the fence covers all
of these), redis-clock-back, lost-reply-acquire, late-acquire, redis-async-failover, redis-split-brain,
redis-restart-empty, redis-aof-1s, redis-evict (the counter has no ttl, so volatile-* policies spare it), redis-oom.
"""

from __future__ import annotations

import time
import uuid
from typing import ClassVar, Final

from .base import Grant, LockInfo
from .redis_client import COMPARE_AND_DELETE, REQUIRES, RedisClient, RedisLock
from .redis_failures import EXPIRES, ONE_PRIMARY, SINGLE_KEY_KINDS, expiring, overrun

LOCK_AND_COUNT: Final = """
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
    return redis.call("incr", KEYS[2])
end
return false
"""


class RedisFencedLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-fenced",
        title="SET NX PX with a fencing token",
        algorithm="Lua: if SET key token NX PX ms then return INCR key:fence; Lua compare-and-delete.",
        source="article 003; Kleppmann 2016-02-08; Redisson RFencedLock",
        safety="F",
        kinds=SINGLE_KEY_KINDS,
        requires=REQUIRES,
        fence=True,
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        failures=(*expiring("redis-fenced"), overrun("redis-fenced")),
    )

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self.token = ""
        self._lock_and_count = client.register_script(LOCK_AND_COUNT)
        self._delete_own = client.register_script(COMPARE_AND_DELETE)

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        token = uuid.uuid4().hex
        fence = self._lock_and_count(keys=[self.key, f"{self.key}:fence"], args=[token, self.ttl_ms])
        if fence is None:
            return None
        self.token = token
        return Grant(fence=int(fence), valid_for=self.remaining(began))

    def unlock(self) -> bool:
        return bool(self.token and self._delete_own(keys=[self.key], args=[self.token]))
