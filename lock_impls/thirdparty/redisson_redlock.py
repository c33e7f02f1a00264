"""Redisson's ``RedissonRedLock``, unmodified; tested with Redisson 4.7.0 on Java 17.

Redlock over an RLock of each server (:mod:`.redisson_lock`), each with a client of its own. Deprecated since 3.12.5:
"use RLock or RFencedLock"; its class is there still. Its documentation promises what Redlock's does, and prolongs
leases by the watchdog.

``tryLock`` asks the servers one after the other, each for at most its share of the waiting time, and has it when a
majority said yes. It does not look at how long that took, against what the algorithm says: with the watchdog each key
is prolonged by itself, on a server that answers, and nobody counts whether they are a majority still. ``tryLock`` and
``unlock`` drop all errors: the program passes them RLocks that remember theirs, says that nobody knows where a
majority of the servers may have the key, or may have it still, and counts whose the lock is. The lock cannot be asked
whether it is still held.

``docker/java`` gives each server a tenth of the ttl to answer and to connect, and asks once: of a server that is
away, the waiting time is spent.

Source: org/redisson/RedissonRedLock.java, org/redisson/RedissonMultiLock.java.

Safe for: efficiency.
Known failures: ttl-pause-write, rl-restart, and others of redlock.
"""

from __future__ import annotations

from typing import ClassVar

from lock_impls.base import Failure, LockInfo
from lock_impls.java import LANGUAGE, REDISSON, RUN, RUNTIME, WATCHDOG
from lock_impls.program import ProgramLock


class RedissonRedLock(ProgramLock):
    info: ClassVar = LockInfo(
        name="redisson-redlock",
        title="Redisson's RedissonRedLock, unmodified, renewed by its watchdogs",
        algorithm="RLock on N servers, one after the other; N//2+1 = held; each key renewed by itself.",
        source=f"{REDISSON}, org/redisson/RedissonRedLock.java",
        safety="E",
        kinds=("redis-independent",),
        reentrant=True,
        on_death=WATCHDOG,
        outage="nothing: it needs a majority of the servers",
        no_single_point=True,
        language=LANGUAGE,
        library=REDISSON,
        promises="Redlock (deprecated since 3.12.5, for RLock and RFencedLock), prolonged by the watchdog",
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write",
                "its holder stands still for longer than the ttl, and its watchdog with it",
                "harness run redisson-redlock --cluster docker --nemesis client-pause",
            ),
            Failure(
                "rl-restart",
                "a majority of the servers comes back without data",
                "harness run redisson-redlock --cluster docker --nemesis kill-amnesia --hold 1s",
            ),
        ),
    )
    command: ClassVar = RUN
