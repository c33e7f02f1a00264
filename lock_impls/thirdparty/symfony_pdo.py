"""Symfony's Lock component (PHP) on a table of MySQL, unmodified: ``PdoStore``; tested with symfony/lock 5.4.53 on PHP
8.2 and MariaDB 10.11.

Its documentation promises a lock that expires, and warns that "all client and server nodes" need synchronized clocks
(this version computes only with the server's).

Statements, each its own transaction: ``INSERT`` of key, token and ``UNIX_TIMESTAMP() + initial_ttl`` (a duplicate key
is followed by the next one) · ``UPDATE ... SET key_expiration = UNIX_TIMESTAMP() + ttl WHERE token is mine OR
key_expiration <= UNIX_TIMESTAMP()``, also the refresh. Release: ``DELETE``, and a ``SELECT`` that checks it. One save
of a hundred deletes all expired rows.

``UNIX_TIMESTAMP()`` has whole seconds, so a lease ends up to a second before ``getRemainingLifetime()`` is over. A
refresh takes an expired row, also another client's: it succeeds although another has held the lock in between. PDO does
not reconnect: after an error the program makes a new store, as the next request of a web server does.
Source: Store/PdoStore.php.

Safe for: cutting duplicate work. It has no fencing token.

Known failures: ttl-pause-write, ttl-overrun, sfy-initial-ttl, and sfy-whole-seconds: two holders without any fault.
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

_RUN = "harness run symfony-pdo --cluster docker"


class SymfonyPdo(Checks, Extends):
    info: ClassVar = LockInfo(
        name="symfony-pdo",
        title="Symfony's Lock on PdoStore (MySQL), unmodified",
        algorithm="INSERT (key, token, now + initial_ttl); UPDATE ... WHERE token is mine or it expired; DELETE.",
        source=f"{SYMFONY}, Store/PdoStore.php",
        safety="E",
        kinds=("mysql-single",),
        options={"initial_ttl": INITIAL_TTL},
        on_death=INITIAL_EXPIRY,
        overtime=SECONDS_OVERTIME_S,
        outage="unavailable until the server is back",
        language=LANGUAGE,
        library=SYMFONY,
        promises=SYMFONY_PROMISES,
        runtime=RUNTIME,
        failures=(
            Failure(
                "ttl-pause-write", "the holder is paused for longer than the ttl", f"{_RUN} --nemesis client-pause"
            ),
            Failure("sfy-whole-seconds", "the lease ends up to a second early", f"{_RUN} --nemesis none --hold 1500ms"),
            Failure("ttl-overrun", "the work takes longer than the ttl", f"{_RUN} --hold 4s"),
        ),
    )
    command: ClassVar = RUN
