"""Redisson's ``RLock`` (Java, Redis), unmodified; tested with Redisson 4.7.0 on Java 17.

Its documentation promises a reentrant lock for Java whose *watchdog* "prolongs lock expiration while lock holder
Redisson instance is alive". It also promises that a lock is not returned before it has reached a replica
("replica-synchronization check", on by default), which is meant to close the gap at a failover. The watchdog's time-out
is the ttl here (30 s by default).

Requests: a script, EXISTS or HEXISTS, then HINCRBY and PEXPIRE of a hash ``client-id:thread-id`` → count, else PTTL; to
wait, SUBSCRIBE, and the script again when a release is published or that PTTL is over. With replicas, WAIT follows in
the same batch, and a lock that no replica has is taken back and tried again. Renewal: HEXISTS, PEXPIRE, every third of
the watchdog's time-out. Release: a script, with a key of its own (for a ttl) that stores the result in case the reply
is lost. ``still_valid`` is ``isHeldByCurrentThread()``: HEXISTS. The waiting time of a caller is measured by the *wall*
clock.

``docker/java`` calls ``tryLock(wait, unit)``, without a lease. By default Redisson waits 3 s for an answer, 10 s for a
connection, and repeats four times, 1 to 2 s apart; here it waits 1 s and 1 s (option ``answer_timeout``), and repeats
once (option ``retries``) after 0.2 s. With the option ``lease`` the lock has a lease of one ttl and no watchdog. If an
answer was missing, ``tryLock`` logs that and returns false, as it does for a busy lock; the program then reports an
unknown outcome. The lock may be held on the server until the ttl is over, by a thread that does not know it.
Source: org/redisson/RedissonLock.java, org/redisson/renewal/LockTask.java.

Safe for: cutting duplicate work.

Known failures: ttl-pause-write, redis-restart-empty, redis-evict, watchdog-zombie, rds-one-replica, rds-counts-twice.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.java import LANGUAGE, REDISSON, RUN, RUNTIME, WATCHDOG
from harness.lock_impls.program import Checks
from harness.lock_impls.redis_failures import ONE_PRIMARY


class RedissonLock(Checks):
    info: ClassVar = LockInfo(
        name="redisson-lock",
        title="Redisson's RLock, unmodified, renewed by its watchdog",
        algorithm="Lua: HINCRBY, PEXPIRE of a hash client:thread -> count; renewed every ttl/3; release publishes.",
        source=f"{REDISSON}, org/redisson/RedissonLock.java",
        safety="E",
        kinds=("redis-single", "redis-sentinel"),
        reentrant=True,
        options={"lease": False, "answer_timeout": 1.0, "retries": 1},
        on_death=WATCHDOG,
        outage=ONE_PRIMARY,
        language=LANGUAGE,
        library=REDISSON,
        promises=(
            "mutual exclusion, prolonged while its holder's client lives, and kept through a failover by waiting for a "
            "replica; advisory, as its documentation says now"
        ),
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than the ttl, and its watchdog with it",
                "harness run redisson-lock --cluster docker --nemesis client-pause",
            ),
            Failure(
                "redis-restart-empty",
                "the server restarts without its data",
                "harness run redisson-lock --cluster docker --nemesis kill-amnesia",
            ),
            Failure(
                "redis-evict",
                "memory runs out, and the server evicts the key",
                "harness run redisson-lock --cluster docker --nemesis eviction",
            ),
            Failure(
                "watchdog-zombie",
                "the holder's thread hangs, and the watchdog renews its lock for ever",
                "harness run redisson-lock --cluster docker --nemesis client-hang",
            ),
        ),
    )
    command: ClassVar = RUN
