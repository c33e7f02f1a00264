"""Redisson's ``RedissonRedLock`` (Java, Redis), unmodified; tested with Redisson 4.7.0 on Java 17.

Redlock over one RLock per server (:mod:`.redisson_lock`), each with its own client. It is deprecated since 3.12.5 ("use
RLock or RFencedLock"), but its class still exists. Its documentation promises what Redlock's does; leases are prolonged
by the watchdog.

``tryLock`` asks the servers one after the other, each for at most its share of the waiting time, and has the lock when
a majority granted it. Contrary to the algorithm it ignores how long that took: the watchdog prolongs each key
separately, on each server that answers, and nothing checks whether these are still a majority. ``tryLock`` and
``unlock`` swallow all errors. So the program passes RLocks that remember their errors, and keeps count of the owners;
it reports an unknown outcome if a majority of the servers may have the key, or may still have it. The lock cannot be
asked whether it is still held.

``docker/java`` gives each server a tenth of the ttl to answer and to connect, and asks once: a server that is down uses
up the waiting time.
Source: org/redisson/RedissonRedLock.java, org/redisson/RedissonMultiLock.java.

Safe for: cutting duplicate work.

Known failures: ttl-pause-write, rl-restart, and others of redlock.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.java import LANGUAGE, REDISSON, RUN, RUNTIME, WATCHDOG
from harness.lock_impls.program import ProgramLock


class RedissonRedLock(ProgramLock):
    info: ClassVar = LockInfo(
        name="redisson-redlock",
        title="Redisson's RedissonRedLock, unmodified, renewed by its watchdogs",
        algorithm="RLock on N servers, one after the other; held with N//2+1 of them; each key is renewed separately.",
        source=f"{REDISSON}, org/redisson/RedissonRedLock.java",
        safety="E",
        kinds=("redis-independent",),
        reentrant=True,
        on_death=WATCHDOG,
        outage="none while a majority of the servers is up",
        no_single_point=True,
        language=LANGUAGE,
        library=REDISSON,
        promises="Redlock (deprecated since 3.12.5 in favour of RLock and RFencedLock), prolonged by the watchdog",
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than the ttl, and its watchdog with it",
                "harness run redisson-redlock --cluster docker --nemesis client-pause",
            ),
            Failure(
                "rl-restart",
                "a majority of the servers restarts without its data",
                "harness run redisson-redlock --cluster docker --nemesis kill-amnesia --hold 1s",
            ),
        ),
    )
    command: ClassVar = RUN
