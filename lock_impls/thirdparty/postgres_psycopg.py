"""PostgreSQL lock with pg_advisory_lock on psycopg 3, a client without a lock of its own; tested with psycopg 3.3.9 and
its binary.

The lock of :mod:`harness.lock_impls.postgres_advisory` with the client library that most programs in Python use for
PostgreSQL. psycopg speaks the protocol through libpq, a C library with sockets of its own, also where its code is pure
Python (it then calls libpq with ctypes). So it runs on containers only.

Statements: ``SELECT set_config('lock_timeout', ms, false)`` · ``SELECT pg_advisory_lock(hashtextextended(key, 0))``,
where error 55P03 means busy · ``SELECT pg_advisory_unlock(hashtextextended(key, 0))``, in autocommit, on one
connection, which is opened again after it was lost. psycopg prepares a statement in the server when it executes it for
the sixth time; with ``prepare_threshold = None`` it does not.

psycopg waits for an answer without a limit. The keepalives of libpq are set, by which a connection is lost some seconds
after its server cannot be reached.
Source: PostgreSQL manual, "Advisory Locks"; psycopg 3.3.9, psycopg/connection.py and _preparing.py.

Safe for: what postgres-advisory is safe for.

Known failures: pg-adv-lost, pg-adv-failover, late-acquire; behind PgBouncer in transaction mode pg-pgbouncer-shared and
pg-pgbouncer-stranded.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar, Final, Self

import psycopg
import psycopg_binary  # noqa: F401 - psycopg uses it, and a client's container has what is imported here
from psycopg.errors import DeadlockDetected, LockNotAvailable

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.polling import poll
from harness.lock_impls.postgres_advisory import AdvisoryLock
from harness.lock_impls.postgres_client import LONGEST_WAIT_S, POOLED_KINDS, Unreachable
from harness.lock_impls.thirdparty.libpq import CONTAINERS_ONLY, TIMEOUTS

NUMBER: Final = "hashtextextended(%s, 0)"
PREPARE_AFTER: Final = 5
"""psycopg's default for ``prepare_threshold``."""


class PsycopgAdvisoryLock:
    info: ClassVar = LockInfo(
        name="postgres-psycopg",
        title="pg_advisory_lock, pg_advisory_unlock on psycopg 3",
        algorithm="SELECT pg_advisory_lock(hash of key); SELECT pg_advisory_unlock(hash of key) = true.",
        source="PostgreSQL manual, Advisory Locks; psycopg 3.3.9, psycopg/connection.py",
        safety="F?",
        kinds=POOLED_KINDS,
        requires=("psycopg==3.3.9", "psycopg-binary==3.3.9", "pg8000>=1.29"),
        library="psycopg 3.3.9",
        promises="The client has no lock; PostgreSQL's own 'is held until explicitly released or the session ends'.",
        containers_only=CONTAINERS_ONLY,
        reentrant=True,
        on_death=AdvisoryLock.info.on_death,
        outage=AdvisoryLock.info.outage,
        options={"prepare_threshold": PREPARE_AFTER},
        failures=(
            Failure("pg-adv-failover", "the promoted standby does not know the lock, and the holder goes on",
                    "harness run postgres-psycopg --cluster docker --topology replicated --nemesis failover --hold 4s"),
            Failure("pg-adv-lost", "the connection is lost, and the holder goes on",
                    "harness run postgres-psycopg --cluster docker --nemesis connection-reset --hold 1s"),
            Failure("pg-pgbouncer-shared", "PgBouncer in transaction mode gives the lock's session to the next client",
                    "harness run postgres-psycopg --cluster docker --kind postgres-pgbouncer"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str, prepare_threshold: int | None = PREPARE_AFTER) -> None:
        (host, port), *_ = endpoints.addresses
        self._where: dict[str, Any] = {
            "host": host,
            "port": port,
            "user": endpoints.user,
            "password": endpoints.password,
            "dbname": endpoints.database,
        }
        self._prepare_threshold = prepare_threshold
        self._key = key
        self._connection: Any = None
        self._depth = 0

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:  # noqa: ARG003
        """Ignore ``ttl``: the lock lasts as long as the connection."""
        return cls(endpoints, key, **options)

    def acquire(self, timeout: float) -> Grant | None:
        deadline = time.monotonic() + timeout
        return poll(lambda: self._try(deadline - time.monotonic()), timeout, worth_another=Unreachable)

    def _try(self, patience: float) -> Grant | None:
        milliseconds = max(1, round(min(LONGEST_WAIT_S, patience) * 1000))
        self._ask("SELECT set_config('lock_timeout', %s, false)", f"{milliseconds}ms")
        try:
            self._ask(f"SELECT pg_advisory_lock({NUMBER})", self._key)
        except (LockNotAvailable, DeadlockDetected):
            return None
        self._depth += 1
        return Grant()

    def still_valid(self) -> bool:
        """Ask the server over the connection that the lock belongs to."""
        if not self._depth or self._connection is None:
            return False
        try:
            self._ask("SELECT 1")
        except (LockError, Indeterminate):
            return False
        return True

    def release(self) -> None:
        if not self._depth:
            raise LockError(f"{self._key} is not held by this client")
        self._depth -= 1
        if self._connection is None:
            self._depth = 0
            raise LockError(f"{self._key} was lost with its connection")
        if not self._ask(f"SELECT pg_advisory_unlock({NUMBER})", self._key):
            raise LockError(f"{self._key} is not held by this session")

    def _ask(self, statement: str, *arguments: str) -> Any:
        """Return the first column of a statement's row.

        Raises LockNotAvailable and DeadlockDetected, Unreachable, another LockError if the server refused, or
        Indeterminate."""
        connection = self._connected()
        try:
            return connection.execute(statement, arguments).fetchone()[0]
        except (LockNotAvailable, DeadlockDetected):
            raise
        except psycopg.Error as error:
            if not connection.closed:
                raise LockError(f"{error.sqlstate}: {error}") from error
            self._connection = None
            raise (Unreachable if error.sqlstate else Indeterminate)(f"{type(error).__name__}: {error}") from error

    def _connected(self) -> Any:
        if self._connection is None:
            self._depth = 0  # the locks of a session end with it
            try:
                self._connection = psycopg.connect(
                    **{**self._where, **TIMEOUTS}, autocommit=True, prepare_threshold=self._prepare_threshold
                )
            except psycopg.Error as error:
                raise Unreachable(f"cannot connect: {error}") from error
        return self._connection
