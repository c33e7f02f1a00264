"""malkusch/lock's ``PHPRedisMutex`` (PHP), an implementation of Redlock, unmodified; tested with malkusch/lock 2.2.1
and phpredis 5.3.7 on PHP 8.2.

Its README promises "a distributed mutex" that "works on a majority of servers", and that if "the code block is executed
outside of the lock", an exception says so afterwards.

Requests: ``SET lock_key token NX EX timeout+1`` to one server after the other, and a script that deletes the own key:
after a lost vote and as release. The vote counts if a majority has set the key within ``timeout + 1`` seconds, the
whole life of the first key, although a critical section may last ``timeout`` seconds only. A release after ``timeout``
seconds deletes nothing and throws ExecutionOutsideLockException.

``docker/php/malkusch.php`` calls ``synchronized(code)``, the only method, and suspends the code in a fiber while the
lock is held. The constructor's ``timeout`` (whole seconds) is both the lease and the longest wait: the program repeats
the call if it waits for longer, and ends a shorter wait before a further try begins. ``valid_for`` counts from the
beginning of the successful try.
Source: classes/mutex/RedisMutex.php, SpinlockMutex.php, PHPRedisMutex.php, classes/util/Loop.php.

Safe for: cutting duplicate work. It has no fencing token.

Known failures: those of redlock; and a vote may last until its keys expire (docs/findings).
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.php import LANGUAGE, MALKUSCH, RUN, RUNTIME, SECONDS_OVERTIME_S
from harness.lock_impls.program import ProgramLock

_RUN = "harness run malkusch-redis-mutex --cluster docker"


class MalkuschRedisMutex(ProgramLock):
    info: ClassVar = LockInfo(
        name="malkusch-redis-mutex",
        title="malkusch/lock's PHPRedisMutex, unmodified",
        algorithm="SET key token NX EX ttl+1 on N servers in turn; N//2+1 = held; a script deletes the own key.",
        source=f"{MALKUSCH}, classes/mutex/RedisMutex.php",
        safety="E",
        kinds=("redis-independent", "redis-single"),
        on_death="expiry: its key expires a second after the ttl",
        overtime=SECONDS_OVERTIME_S,
        outage="none while a majority of the servers is up, but each silent one delays every acquire",
        no_single_point=True,
        language=LANGUAGE,
        library=MALKUSCH,
        promises="one critical section at a time on a majority of servers; an exception afterwards if it was too long",
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write", "the holder is paused for longer than the ttl", f"{_RUN} --nemesis client-pause"
            ),
            Failure("rl-restart", "servers restart empty and vote a second time", f"{_RUN} --nemesis kill-amnesia"),
            Failure("ttl-overrun", "the work takes longer than the ttl", f"{_RUN} --hold 4s"),
        ),
    )
    command: ClassVar = RUN
