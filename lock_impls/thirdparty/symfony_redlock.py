"""Symfony's Lock component (PHP) on several independent Redis servers, unmodified: ``CombinedStore`` with
``ConsensusStrategy``; tested with symfony/lock 5.4.53 and phpredis 5.3.7 on PHP 8.2.

Its documentation promises "high availability": "the lock is considered acquired when a simple majority of stores is".

Requests: those of :mod:`.symfony_redis`, to one server after the other. ``save`` and ``putOffExpiration`` each need a
majority; a server that fails counts as one that refuses, and each that is silent delays every acquire twice by the
client's time-out, here 0.25 s (with 1.5 s, as for one server, one silent server of five delays an acquire for longer
than the default ttl). After a lost vote the key is deleted on all servers. A failed vote is ``false``, whether servers
refused or did not answer, so the program counts their answers: the outcome is unknown if a majority may have the key.
Source: Store/CombinedStore.php, Strategy/ConsensusStrategy.php.

Safe for: cutting duplicate work. It has no fencing token.

Known failures: those of redlock; sfy-initial-ttl on each server.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.php import INITIAL_EXPIRY, INITIAL_TTL, LANGUAGE, RUN, RUNTIME, SYMFONY, SYMFONY_PROMISES
from harness.lock_impls.program import Checks, Extends

_RUN = "harness run symfony-redlock --cluster docker"


class SymfonyRedlock(Checks, Extends):
    info: ClassVar = LockInfo(
        name="symfony-redlock",
        title="Symfony's Lock on a CombinedStore of Redis servers, unmodified",
        algorithm="RedisStore's scripts on N servers in turn, N//2+1 = held until start + ttl (wall clock).",
        source=f"{SYMFONY}, Store/CombinedStore.php",
        safety="E",
        kinds=("redis-independent",),
        options={"initial_ttl": INITIAL_TTL},
        on_death=INITIAL_EXPIRY,
        outage="none while a majority of the servers is up, but each silent one delays every acquire",
        no_single_point=True,
        language=LANGUAGE,
        library=SYMFONY,
        promises=f"{SYMFONY_PROMISES}; a majority of the servers is the lock",
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write", "the holder is paused for longer than the ttl", f"{_RUN} --nemesis client-pause"
            ),
            Failure(
                "rl-clock-jump",
                "servers' clocks jump, so the key expires early on some",
                f"{_RUN} --nemesis clock-jump",
            ),
            Failure("ttl-overrun", "the work takes longer than the ttl", f"{_RUN} --hold 3s"),
        ),
    )
    command: ClassVar = RUN
