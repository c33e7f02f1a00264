"""Symfony's Lock component (PHP) on PostgreSQL's advisory locks, unmodified: ``PostgreSqlStore``; tested with
symfony/lock 5.4.53 on PHP 8.2 and PostgreSQL 15.

Its documentation promises that the locks "will be automatically released at the end of the session in case the client
cannot unlock for any reason", and that they do not expire.

Statements: ``SELECT pg_try_advisory_lock(crc32 of key)`` · ``SELECT count(*) FROM pg_locks`` of the own session
(``isAcquired``, ``refresh``) · ``SELECT pg_advisory_unlock`` of each matching row of ``pg_locks``. The server grants
a session its own lock again, so the store also keeps a table of locks in the process, by ``spl_object_hash`` of the
connection.

The program waits by repeating ``acquire()``: PDO has no time-out for a blocking ``pg_advisory_lock``, nor for any other
answer of a server that is paused; it notices only that packets are lost (``tcp_user_timeout``). After an error it
connects anew, as PDO does not. Option: ``keep_connections`` keeps the objects of broken connections, so that no new one
gets their hash.
Source: Store/PostgreSqlStore.php.

Safe for: cutting duplicate work. The lock ends with the session, which the holder learns only when it asks.

Known failures: pg-adv-lost, pg-adv-collision (32 bits of crc32), and sfy-stale-table: a process that held a lock when
its connection broke is refused by its own table for ever.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.php import LANGUAGE, RUN, RUNTIME, SYMFONY
from harness.lock_impls.program import Checks


class SymfonyPostgres(Checks):
    info: ClassVar = LockInfo(
        name="symfony-postgres",
        title="Symfony's Lock on PostgreSqlStore (advisory locks), unmodified",
        algorithm="SELECT pg_try_advisory_lock(crc32(key)); pg_advisory_unlock; a table of locks in the process.",
        source=f"{SYMFONY}, Store/PostgreSqlStore.php",
        safety="F?",
        kinds=("postgres",),
        options={"keep_connections": False},
        on_death="the server, when it notices that the connection is gone",
        outage="the lock is lost with its server; unavailable until the server is back",
        language=LANGUAGE,
        library=SYMFONY,
        promises="one holder until it releases the lock or its session ends; isAcquired() asks the session",
        runtime=RUNTIME,
        failures=(
            Failure(
                "pg-adv-lost",
                "the connection is lost, and the holder goes on",
                "harness run symfony-postgres --cluster docker --nemesis connection-reset --hold 1s",
            ),
        ),
    )
    command: ClassVar = RUN
