"""Symfony's Lock component (PHP) on Redis, unmodified; tested with symfony/lock 5.4.53 and phpredis 5.3.7 on PHP 8.2.

Its documentation promises that "remote stores like RedisStore" give a lock "for a defined amount of time"; that
``isAcquired()`` "checks whether the lock was acquired by the current process"; and that a lock is "automatically
released" when its object is destroyed.

Requests: ``EVAL`` of a script on a sorted set with the holder's token and ``__write__``, scored by when they expire
(``TIME`` of the server). ``acquire()`` sends two: ``save`` with ``initial_ttl``, and ``putOffExpiration`` with the
lock's ttl. Release: a script that removes the own token, then one that checks whether it is still there.

``docker/php/symfony.php`` calls it as the documentation does: ``createLock(key, ttl)`` for each critical section,
``acquire()`` at the pace of ``acquire(true)`` (which waits without limit), ``release()``. Option: ``initial_ttl`` is
RedisStore's second parameter. The client connects in 1.5 s and waits 1.5 s for an answer (phpredis waits for a minute).
The release of a lost lock reports no error. ``valid_for`` is ``getRemainingLifetime()``, by the client's wall clock.
Source: Lock.php, Store/RedisStore.php.

Safe for: cutting duplicate work. It has no fencing token.

Known failures: those of redis-token, and sfy-initial-ttl.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.php import INITIAL_EXPIRY, INITIAL_TTL, LANGUAGE, RUN, RUNTIME, SYMFONY, SYMFONY_PROMISES
from harness.lock_impls.program import Checks, Extends

_RUN = "harness run symfony-redis --cluster docker"


class SymfonyRedis(Checks, Extends):
    info: ClassVar = LockInfo(
        name="symfony-redis",
        title="Symfony's Lock on RedisStore, unmodified",
        algorithm="EVAL: ZADD of the token unless another is there (initial_ttl); EVAL: ZADD, PEXPIREAT (ttl).",
        source=f"{SYMFONY}, Store/RedisStore.php",
        safety="E",
        kinds=("redis-single",),
        options={"initial_ttl": INITIAL_TTL},
        on_death=INITIAL_EXPIRY,
        outage="unavailable until the server is back",
        language=LANGUAGE,
        library=SYMFONY,
        promises=SYMFONY_PROMISES,
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write", "the holder is paused for longer than the ttl", f"{_RUN} --nemesis client-pause"
            ),
            Failure("redis-restart-empty", "the server restarts without its data", f"{_RUN} --nemesis kill-amnesia"),
            Failure("ttl-overrun", "the work takes longer than the ttl", f"{_RUN} --hold 3s"),
        ),
    )
    command: ClassVar = RUN
