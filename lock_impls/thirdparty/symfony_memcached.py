"""Symfony's Lock component (PHP) on memcached, unmodified; tested with symfony/lock 5.4.53 and php-memcached 3.2.0 on
PHP 8.2.

Its documentation promises a lock that "expires", and warns that memcached may evict the item or restart without it.

Commands: ``add`` with ``initial_ttl`` · ``gets``, ``cas`` with the ttl, rounded up to whole seconds. Release:
``gets``, ``cas`` with two seconds, ``delete``, ``get``. ``refresh()`` of an item that has expired is an ``add``: it
succeeds although another client may have held the lock in between.

MemcachedStore takes a request without an answer for an answer: ``acquire()`` returns false, and ``release()`` returns
without an error, when the server is silent. The program observes the client's result codes, and reports an unknown
outcome then. memcached accepts no blanks in keys, so the program hashes such names; the store passes them on, and
``acquire()`` returns false for ever.
Source: Store/MemcachedStore.php.

Safe for: cutting duplicate work. It has no fencing token. memcached may end an item up to a second early.

Known failures: those of memcached-token, sfy-initial-ttl, and sfy-whole-seconds: two holders without any fault.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.php import (
    INITIAL_EXPIRY,
    INITIAL_TTL,
    LANGUAGE,
    RUN,
    RUNTIME,
    SECONDS_OVERTIME_S,
    SYMFONY,
    SYMFONY_PROMISES,
)
from harness.lock_impls.program import Checks, Extends

_RUN = "harness run symfony-memcached --cluster docker"


class SymfonyMemcached(Checks, Extends):
    info: ClassVar = LockInfo(
        name="symfony-memcached",
        title="Symfony's Lock on MemcachedStore, unmodified",
        algorithm="add token (initial_ttl); gets, cas (ttl); release: gets, cas with 2 s, delete.",
        source=f"{SYMFONY}, Store/MemcachedStore.php",
        safety="E",
        kinds=("memcached",),
        options={"initial_ttl": INITIAL_TTL},
        on_death=INITIAL_EXPIRY,
        overtime=SECONDS_OVERTIME_S,
        outage="the lock is lost: a restart forgets the holder, and without the server nobody can acquire it",
        language=LANGUAGE,
        library=SYMFONY,
        promises=SYMFONY_PROMISES,
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write", "the holder is paused for longer than the ttl", f"{_RUN} --nemesis client-pause"
            ),
            Failure("mc-restart-rehash", "the server restarts empty", f"{_RUN} --nemesis kill-amnesia"),
            Failure("ttl-overrun", "the work takes longer than the ttl", f"{_RUN} --hold 4s"),
        ),
    )
    command: ClassVar = RUN
