"""Redisson's ``RedissonMultiLock`` (Java, Redis), unmodified; tested with Redisson 4.7.0 on Java 17.

It "groups multiple RLock objects and handles them as a single lock": here one RLock per server, each with its own
client, all with a lease. All servers must grant it, so it is available only while all of them are up. A thread may
acquire it again.

``docker/java`` calls ``tryLock(-1, ttl, MILLISECONDS)`` (one try, with a lease, so there is no watchdog) every 50 ms
until the waiting time is over. In 3.11.0 and before, that call sets a lease of -2 ms on each lock while it collects
them (redisson/redisson#2172). It waits 1 s for an answer and for a connection, and repeats no request. Source:
org/redisson/RedissonMultiLock.java.

Safe for: cutting duplicate work.

Known failures: ttl-pause-write, ttl-overrun; rds-multilock in 3.11.0.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.java import LANGUAGE, LEASE, REDISSON, RUN, RUNTIME
from harness.lock_impls.program import ProgramLock


class RedissonMultiLock(ProgramLock):
    info: ClassVar = LockInfo(
        name="redisson-multilock",
        title="Redisson's RedissonMultiLock with a lease, unmodified",
        algorithm="RLock with a lease on N servers, one after the other; held with all of them.",
        source=f"{REDISSON}, org/redisson/RedissonMultiLock.java",
        safety="E",
        kinds=("redis-independent",),
        options={"answer_timeout": 1.0},
        reentrant=True,
        on_death=LEASE,
        outage="unavailable until all servers are back",
        language=LANGUAGE,
        library=REDISSON,
        promises="several locks as a single one, for the lease that the caller names",
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than the lease",
                "harness run redisson-multilock --cluster docker --nemesis client-pause",
            ),
            Failure(
                "ttl-overrun",
                "the work takes longer than the lease",
                "harness run redisson-multilock --cluster docker --hold 3s",
            ),
        ),
    )
    command: ClassVar = RUN
