"""Reentrant Redis lock like Redisson's RLock: a hash of owner and count. The owner may acquire again, and must release
as often.

Commands: ``EVALSHA`` of "if the key is absent or mine: HINCRBY key owner 1, PEXPIRE" · ``EVALSHA`` of "if mine: HINCRBY
key owner -1; PEXPIRE while the count is positive, else DEL". The owner is this lock object.
Source: Redisson RLock (LOCKS 30), without its pub/sub and its watchdog; article 001 asks for reentrancy.

Safe for: cutting duplicate work in code that nests. The server keeps the count: if redis-py repeats a request because
the first answer was lost, it counts twice. Then one release is missing, and the key stays until its ttl.

Known failures: ttl-pause-write, ttl-check-then-pause, ttl-net-delay, ttl-overrun, lost-reply-acquire, late-acquire,
redis-clock-fwd, redis-clock-back, redis-async-failover, redis-split-brain, redis-restart-empty, redis-aof-1s,
redis-evict, redis-oom.
"""

from __future__ import annotations

import time
import uuid
from typing import ClassVar, Final

from .base import Grant, LockInfo
from .redis_client import REQUIRES, RedisClient, RedisLock
from .redis_failures import EXPIRES, ONE_PRIMARY, ONE_SLOT_KINDS, expiring, overrun

ENTER: Final = """
if redis.call("exists", KEYS[1]) == 0 or redis.call("hexists", KEYS[1], ARGV[1]) == 1 then
    redis.call("hincrby", KEYS[1], ARGV[1], 1)
    redis.call("pexpire", KEYS[1], ARGV[2])
    return 1
end
return 0
"""

LEAVE: Final = """
if redis.call("hexists", KEYS[1], ARGV[1]) == 0 then
    return 0
end
if redis.call("hincrby", KEYS[1], ARGV[1], -1) > 0 then
    redis.call("pexpire", KEYS[1], ARGV[2])
else
    redis.call("del", KEYS[1])
end
return 1
"""


class RedisReentrantLock(RedisLock):
    info: ClassVar = LockInfo(
        name="redis-reentrant",
        title="Reentrant lock: a hash of owner and count",
        algorithm="Lua: absent or mine -> HINCRBY 1, PEXPIRE; HINCRBY -1, at zero DEL.",
        source="Redisson RLock; article 001",
        safety="E",
        kinds=ONE_SLOT_KINDS,
        requires=REQUIRES,
        reentrant=True,
        on_death=EXPIRES,
        outage=ONE_PRIMARY,
        failures=(*expiring("redis-reentrant"), overrun("redis-reentrant")),
    )

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self.owner = uuid.uuid4().hex
        self._enter = client.register_script(ENTER)
        self._leave = client.register_script(LEAVE)

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        if not self._enter(keys=[self.key], args=[self.owner, self.ttl_ms]):
            return None
        return Grant(valid_for=self.remaining(began))

    def unlock(self) -> bool:
        return bool(self._leave(keys=[self.key], args=[self.owner, self.ttl_ms]))
