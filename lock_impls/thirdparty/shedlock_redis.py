"""ShedLock's RedisLockProvider for Spring Data (Java, Redis), unmodified; tested with shedlock-provider-redis-spring
7.10.1 on Java 17, Spring Data Redis 4.1 and Jedis.

Its documentation promises that a scheduled task is "executed at most once at the same time", provided that no task runs
for longer than lockAtMostFor (which is the ttl here).

Commands: ``SET job-lock:default:KEY value NX PX``; unlock is ``DEL``, whoever set the key. With the option
``safe_update`` (``safeUpdate(true)`` of its builder, which is off by default) unlock is a script that compares the
value first. ShedLock does not wait: ``docker/java`` asks again every 50 ms. The option ``answer_timeout`` is how long
Jedis waits for an answer, in seconds; its default is 2. Source: InternalRedisLockProvider.java.

Safe for: cutting duplicate work.

Known failures: ttl-pause-write, ttl-overrun, redis-restart-empty, del-foreign (scenario shedlock-unlock-foreign.redis).
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.java import LANGUAGE, LEASE, RUN, RUNTIME, SHEDLOCK_REDIS
from harness.lock_impls.program import ProgramLock
from harness.lock_impls.redis_failures import ONE_PRIMARY, SINGLE_KEY_KINDS


class ShedLockRedis(ProgramLock):
    info: ClassVar = LockInfo(
        name="shedlock-redis",
        title="ShedLock's RedisLockProvider for Spring, unmodified",
        algorithm="SET key value NX PX; unlock is DEL, or with safe_update a script that compares the value.",
        source=f"{SHEDLOCK_REDIS}, InternalRedisLockProvider.java",
        safety="E",
        kinds=SINGLE_KEY_KINDS,
        options={"safe_update": False, "answer_timeout": 1.0},
        on_death=LEASE,
        outage=ONE_PRIMARY,
        language=LANGUAGE,
        library=SHEDLOCK_REDIS,
        promises="a task runs at most once at the same time, if none takes longer than lockAtMostFor",
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than lockAtMostFor",
                "harness run shedlock-redis --cluster docker --nemesis client-pause",
            ),
            Failure(
                "del-foreign",
                "a late unlock deletes another client's key, unless safe_update is on",
                "harness run shedlock-redis --cluster docker --hold 3s",
            ),
            Failure(
                "redis-restart-empty",
                "the server restarts without its data",
                "harness run shedlock-redis --cluster docker --nemesis kill-amnesia",
            ),
        ),
    )
    command: ClassVar = RUN
