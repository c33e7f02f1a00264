"""Redisson's ``RFencedLock`` (Java, Redis), unmodified; tested with Redisson 4.7.0 on Java 17.

It is the lock of :mod:`.redisson_lock` with the same watchdog, and ``INCR redisson_lock_token:{key}`` in its script:
"each lock acquisition increases fencing token. It should be checked if it's greater or equal with the previous one by
the service guarded by this lock". The fence here is what ``tryLockAndGetToken(wait, unit)`` returns. ``getToken()``
would be a GET of the counter, which gives the newest token to a holder that has lost the lock: with the option
``get_token`` the program calls ``tryLock`` and then that (rds-fenced-get.java).

The counter is a key of the same Redis; what loses the lock also loses the counter or sets it back. If no replica
answers, it raises as RLock does, but unlike RLock it does not delete its key: the key stays for a ttl, and nobody holds
it.
Source: org/redisson/RedissonFencedLock.java.

Safe for: correctness, if the resource refuses a token below the highest it has seen, and the server keeps its data.

Known failures: ttl-pause-write (covered by the fence), redis-restart-empty (not covered), rds-counts-twice.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.java import LANGUAGE, REDISSON, RUN, RUNTIME, WATCHDOG
from harness.lock_impls.program import Checks
from harness.lock_impls.redis_failures import ONE_PRIMARY


class RedissonFenced(Checks):
    info: ClassVar = LockInfo(
        name="redisson-fenced",
        title="Redisson's RFencedLock, unmodified, renewed by its watchdog",
        algorithm="the script of RLock, with INCR of redisson_lock_token:{key}; tryLockAndGetToken returns the number.",
        source=f"{REDISSON}, org/redisson/RedissonFencedLock.java",
        safety="F?",
        kinds=("redis-single", "redis-sentinel"),
        fence=True,
        reentrant=True,
        options={"get_token": False, "lease": False, "answer_timeout": 1.0, "retries": 1},
        on_death=WATCHDOG,
        outage=ONE_PRIMARY,
        language=LANGUAGE,
        library=REDISSON,
        promises=(
            "what RLock promises, and a token that grows with each acquisition, which the protected service should "
            "check"
        ),
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than the ttl, and its watchdog with it",
                "harness run redisson-fenced --cluster docker --nemesis client-pause",
            ),
            Failure(
                "redis-restart-empty",
                "the server restarts without its data, and the tokens start again",
                "harness run redisson-fenced --cluster docker --nemesis kill-amnesia",
            ),
        ),
    )
    command: ClassVar = RUN
