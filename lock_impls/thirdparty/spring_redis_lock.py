"""Spring Integration's RedisLockRegistry (Java, Redis), unmodified; tested with spring-integration-redis 7.1.2 on Java
17, Spring Data Redis 4.1 and Jedis.

Its documentation promises "'global' locks" for components of several application instances, which expire after a time
that the user sets (60 s by default, the ttl here); an unlock of an expired lock raises ConcurrentModificationException
"to indicate that the critical resources under this lock might be modified". It renews a lock only if the user gives it
a scheduler; here it has none, which is the default.

A lock has two parts: a ReentrantLock of the registry for its program's threads, and the key ``locks:KEY`` in Redis,
whose value is the registry's id. Commands: a script, GET and SET PX (or PEXPIRE if it is its own); a waiter asks again
every 100 ms; unlock is DELEX in 7.1 with a new Redis, otherwise a script that compares and unlinks. Until 2023
(spring-projects/spring-integration#8699) it was GET and then UNLINK. The waiting time of a caller is measured by the
*wall* clock.

With the option ``new_threads`` each hold belongs to a new thread of the client's program, as in a server that handles
each request in another thread; by default one thread makes all calls, and the lock is reentrant. The option
``answer_timeout`` is how long Jedis waits for an answer, in seconds; its default is 2. Source: RedisLockRegistry.java.

Safe for: cutting duplicate work.

Known failures: ttl-pause-write, ttl-overrun, redis-restart-empty; in old releases spring-unlock and
spring-unlock.unlink.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.java import LANGUAGE, LEASE, RUN, RUNTIME, SPRING_REDIS
from harness.lock_impls.program import ProgramLock
from harness.lock_impls.redis_failures import ONE_PRIMARY, SINGLE_KEY_KINDS


class SpringRedisLock(ProgramLock):
    info: ClassVar = LockInfo(
        name="spring-redis-lock",
        title="Spring Integration's RedisLockRegistry, unmodified",
        algorithm="ReentrantLock, then a script: SET key client-id PX; release is a script that compares and unlinks.",
        source=f"{SPRING_REDIS}, RedisLockRegistry.java",
        safety="E",
        kinds=SINGLE_KEY_KINDS,
        reentrant=True,
        options={"new_threads": False, "answer_timeout": 1.0},
        on_death=LEASE,
        outage=ONE_PRIMARY,
        lease="ttl",
        language=LANGUAGE,
        library=SPRING_REDIS,
        promises="a lock of all instances of an application, until it expires; unlock reports that it has expired",
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than the ttl",
                "harness run spring-redis-lock --cluster docker --nemesis client-pause",
            ),
            Failure(
                "ttl-overrun",
                "the work takes longer than the ttl",
                "harness run spring-redis-lock --cluster docker --hold 3s",
            ),
            Failure(
                "redis-restart-empty",
                "the server restarts without its data",
                "harness run spring-redis-lock --cluster docker --nemesis kill-amnesia",
            ),
        ),
    )
    command: ClassVar = RUN
