"""PALs' lock on PostgreSQL (``pals.Locker``), unmodified; tested with PALs 0.4.0, SQLAlchemy 2.0.58 and pg8000 1.31.6.

Statements: ``SELECT pg_try_advisory_lock(number)``, repeated by this adapter · ``SELECT pg_advisory_unlock(number)``,
after which the connection goes back to SQLAlchemy's pool and the library executes ``SELECT pg_advisory_unlock_all()``.
The number is 64 bits of the SHA-1 hash of the name. The waiting form is not used: when its ``lock_timeout`` has passed,
PALs expects SQLAlchemy's OperationalError, as psycopg has it; with pg8000 it raises.

Its documentation promises a distributed lock by PostgreSQL's advisory lock that is held until it is released, or until
its object is garbage collected.
Source: pals/core.py; README, "Lock Releasing & Expiration".

Safe for: what pg_advisory_lock is safe for. An object that acquires its lock twice gets it twice, and the first release
frees it (level12/pals#14).

Known failures: pals-nested, pg-adv-lost, late-acquire.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any, ClassVar

import pals
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.polling import poll
from harness.lock_impls.postgres_client import KINDS, Unreachable
from harness.lock_impls.postgres_engine import postgres_engine

# The pool cannot take back a connection that was lost, and logs that at length.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())


class PalsLock:
    info: ClassVar = LockInfo(
        name="pals-lock",
        title="PALs' own lock on PostgreSQL, unmodified",
        algorithm="SELECT pg_try_advisory_lock(hash of key) until true; SELECT pg_advisory_unlock(hash of key) = true.",
        source="PALs 0.4.0, pals/core.py",
        safety="F?",
        kinds=KINDS,
        requires=("PALs==0.4.0", "SQLAlchemy==2.0.58", "pg8000>=1.29"),
        library="PALs 0.4.0",
        promises="A distributed lock by PostgreSQL's advisory lock: once acquired it is kept until it is released.",
        on_death="the server, when it notices that the connection is gone: at once, or after hours if the network does "
        "not report it",
        outage="the lock is lost with its server; unavailable until the server is back",
        failures=(
            Failure("pals-nested", "an object acquires its lock twice, and the first release frees it",
                    "harness run pals-lock --nemesis none --workload reentrant"),
            Failure("pg-adv-lost", "the connection is lost, and the holder goes on",
                    "harness run pals-lock --nemesis connection-reset --hold 1s"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        locker = pals.Locker(None, create_engine_callable=lambda: postgres_engine(endpoints))
        self._lock: Any = locker.lock(key)
        self._key = key

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> PalsLock:  # noqa: ARG003
        """Ignore ``ttl``: the lock lasts as long as the connection."""
        return cls(endpoints, key)

    def acquire(self, timeout: float) -> Grant | None:
        return poll(self._try, timeout, worth_another=Unreachable)

    def _try(self) -> Grant | None:
        try:
            return Grant() if self._lock.acquire(blocking=False) else None
        except SQLAlchemyError as error:
            raise self._meaning(error, connecting=self._lock.conn is None) from error

    def release(self) -> None:
        try:
            released = self._lock.release()
        except SQLAlchemyError as error:
            raise self._meaning(error) from error
        if not released:
            raise LockError(f"{self._key} is not held by this client")

    def _meaning(self, error: SQLAlchemyError, *, connecting: bool = False) -> Exception:
        if connecting:
            return Unreachable(f"cannot connect: {error}")
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            connection, self._lock.conn = self._lock.conn, None  # the library keeps what it can no longer use
            with contextlib.suppress(SQLAlchemyError):
                connection.close()
            return Indeterminate(str(error))
        return LockError(str(error))
