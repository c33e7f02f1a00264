"""Redisson's ``RLock``, unmodified; tested with Redisson 4.7.0 on Java 17.

Its documentation promises a reentrant lock for Java, whose *watchdog* "prolongs lock expiration while lock holder
Redisson instance is alive", and that a lock is not returned before it has reached a replica ("replica-synchronization
check", on by default), which is to close the gap that a failover opens. The watchdog's time-out is the ttl here (30 s
by default).

Requests: a script, EXISTS or HEXISTS, then HINCRBY and PEXPIRE of a hash ``client-id:thread-id`` → count, else PTTL;
to wait, SUBSCRIBE, and the script again when a release is published, or when that PTTL is over. With replicas, WAIT
follows in the same batch, and what no replica has is taken back and tried again. Renewal: HEXISTS, PEXPIRE, every
third of the watchdog's time-out. Release: a script, with a key of its own (for a ttl) that says what a lost reply
would have said. ``still_valid`` is ``isHeldByCurrentThread()``: HEXISTS. The time that a caller waits is measured by
the *wall* clock.

``docker/java`` calls ``tryLock(wait, unit)``, without a lease. Redisson waits 3 s for an answer, 10 s for a
connection, and tries four times more, 1 to 2 s apart; here it is 1 s, 1 s, and once more after 0.2 s. Where
``tryLock`` says false since an answer was missing (it logs it, and says what it says when another has the lock), the
program says that nobody knows. The lock may then be held on the server, by a thread that does not know, until the ttl
is over.

Source: org/redisson/RedissonLock.java, org/redisson/renewal/LockTask.java.

Safe for: efficiency.
Known failures: ttl-pause-write, redis-restart-empty, redis-evict, watchdog-zombie, rds-one-replica, rds-counts-twice.
"""

from __future__ import annotations

from typing import ClassVar

from lock_impls.base import Failure, LockInfo
from lock_impls.java import LANGUAGE, REDISSON, RUN, RUNTIME, WATCHDOG
from lock_impls.program import Checks
from lock_impls.redis_failures import ONE_PRIMARY


class RedissonLock(Checks):
    info: ClassVar = LockInfo(
        name="redisson-lock",
        title="Redisson's RLock, unmodified, renewed by its watchdog",
        algorithm="Lua: HINCRBY, PEXPIRE of a hash client:thread -> count; renewed every ttl/3; release publishes.",
        source=f"{REDISSON}, org/redisson/RedissonLock.java",
        safety="E",
        kinds=("redis-single", "redis-sentinel"),
        reentrant=True,
        on_death=WATCHDOG,
        outage=ONE_PRIMARY,
        language=LANGUAGE,
        library=REDISSON,
        promises="mutual exclusion, prolonged as long as its holder's client lives, and through a failover by waiting "
        "for a replica; advisory, as its documentation says now",
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write",
                "its holder stands still for longer than the ttl, and its watchdog with it",
                "harness run redisson-lock --cluster docker --nemesis client-pause",
            ),
            Failure(
                "redis-restart-empty",
                "the server comes back without data",
                "harness run redisson-lock --cluster docker --nemesis kill-amnesia",
            ),
            Failure(
                "redis-evict",
                "memory runs out, and the key is evicted",
                "harness run redisson-lock --cluster docker --nemesis eviction",
            ),
            Failure(
                "watchdog-zombie",
                "its thread hangs, and the watchdog renews its lock for ever",
                "harness run redisson-lock --cluster docker --nemesis client-hang",
            ),
        ),
    )
    command: ClassVar = RUN
