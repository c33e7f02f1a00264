"""sqlalchemy-dlock's lock on PostgreSQL (``create_sadlock``), unmodified; tested with sqlalchemy-dlock 0.9.0,
SQLAlchemy 2.0.58 and pg8000 1.31.6.

Statements: ``SELECT pg_try_advisory_lock(number)`` every 0.1 s (its ``interval``, by default 1 s) · ``SELECT
pg_advisory_unlock(number)``, on a connection that SQLAlchemy's pool lends for the length of the hold, as in its README.
The number is 64 bits of the BLAKE2b hash of the key.

Its documentation promises a distributed lock by PostgreSQL's advisory lock on the connection that it was made with. Its
``locked`` is a flag of the object, which stays True when the connection is lost.
Source: sqlalchemy_dlock/lock/postgresql.py; statement/postgresql.py.

Safe for: what pg_advisory_lock is safe for. It ends with the connection, which the library's user has to notice.

Known failures: pg-adv-lost, late-acquire.
"""

from __future__ import annotations

from typing import ClassVar, Final

from sqlalchemy import Engine
from sqlalchemy_dlock.lock.postgresql import PostgresqlSadLock

from harness.lock_impls.base import Endpoints, Failure, LockInfo
from harness.lock_impls.postgres_client import KINDS
from harness.lock_impls.postgres_engine import postgres_engine

from .sqlalchemy_dlock import SqlalchemyDlock

INTERVAL_S: Final = 0.1
"""Time between two tries of the library's ``acquire``."""


class SqlalchemyDlockPostgres(SqlalchemyDlock):
    info: ClassVar = LockInfo(
        name="postgres-sqlalchemy-dlock",
        title="sqlalchemy-dlock's own lock on PostgreSQL, unmodified",
        algorithm="SELECT pg_try_advisory_lock(hash of key) until true; SELECT pg_advisory_unlock(hash of key) = true.",
        source="sqlalchemy-dlock 0.9.0, sqlalchemy_dlock/lock/postgresql.py",
        safety="F?",
        kinds=KINDS,
        requires=("sqlalchemy-dlock==0.9.0", "SQLAlchemy==2.0.58", "pg8000>=1.29"),
        library="sqlalchemy-dlock 0.9.0",
        promises="A distributed lock by PostgreSQL's advisory lock; it is held until it is released or "
        "the session ends.",
        on_death="the server, when it notices that the connection is gone: at once, or after hours if the network does "
        "not report it",
        outage="the lock is lost with its server; unavailable until the server is back",
        failures=(
            Failure("pg-adv-lost", "the connection is lost, and the holder goes on",
                    "harness run postgres-sqlalchemy-dlock --nemesis connection-reset --hold 1s"),
        ),
    )  # fmt: skip

    @staticmethod
    def engine(endpoints: Endpoints) -> Engine:
        return postgres_engine(endpoints)

    def wait(self, lock: PostgresqlSadLock, seconds: float) -> bool:
        return bool(lock.acquire(timeout=seconds, interval=INTERVAL_S))
