"""sqlalchemy-dlock's lock on MySQL (``create_sadlock``), unmodified; tested with sqlalchemy-dlock 0.9.0, SQLAlchemy
2.0.58 and PyMySQL.

Statements: ``SELECT GET_LOCK(key, seconds)`` · ``SELECT RELEASE_LOCK(key)``, on a connection that SQLAlchemy's pool
lends for the length of the hold, as in its README. The key is passed unchanged; one of more than 64 characters is
refused. The time-out is passed to the server with its fraction, and MariaDB respects the fraction.

Its documentation promises a distributed lock by MySQL's named lock on the connection that it was made with, which no
other connection can release. Its ``locked`` is a flag of the object, which stays True when the connection is lost.
SQLAlchemy does not silently reconnect: a statement on a connection that was lost in the middle of a transaction raises
until that is rolled back.
Source: sqlalchemy_dlock/lock/mysql.py; statement/mysql.py.

The time-outs of the connection are set by this adapter, because by default PyMySQL waits for ever. A waiting lock is
requested in pieces of three seconds, so that a missing answer is noticed soon.

Safe for: what GET_LOCK is safe for. It ends with the connection, which the library's user has to notice.

Known failures: getlock-reconnect, getlock-idle, late-acquire, db-async-failover, getlock-multi-primary.
"""

from __future__ import annotations

import logging
import time
from typing import Any, ClassVar, Final

from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy_dlock.exceptions import SqlAlchemyDLockDatabaseError
from sqlalchemy_dlock.factory import create_sadlock

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.mysql_client import KINDS, TIMEOUT_S, Unreachable
from harness.lock_impls.polling import poll

LONGEST_WAIT_S: Final = 3.0
"""Longest wait of one GET_LOCK."""


# The pool cannot take back a connection of a killed client, and logs that at length.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())


class SqlalchemyDlock:
    info: ClassVar = LockInfo(
        name="sqlalchemy-dlock",
        title="sqlalchemy-dlock's own lock on MySQL, unmodified",
        algorithm="SELECT GET_LOCK(key, seconds) = 1; SELECT RELEASE_LOCK(key) = 1, on a connection of SQLAlchemy's.",
        source="sqlalchemy-dlock 0.9.0, sqlalchemy_dlock/lock/mysql.py",
        safety="F?",
        kinds=KINDS,
        requires=("sqlalchemy-dlock==0.9.0", "SQLAlchemy==2.0.58", "PyMySQL>=1.0"),
        library="sqlalchemy-dlock 0.9.0",
        promises="A distributed lock by MySQL's named lock; it cannot be released from another thread, process or "
        "connection, and other sessions cannot acquire a lock with that name until it is released.",
        on_death=(
        "the server, when it notices that the connection is gone: at once, or after hours if the network does not "
        "report it"
),
        outage="the lock is lost with its server; unavailable until a server is back or promoted",
        failures=(
            Failure("getlock-reconnect", "the connection is lost, and the holder goes on",
                    "harness run sqlalchemy-dlock --nemesis connection-reset --hold 1s"),
            Failure("db-async-failover", "the server dies without the holder noticing",
                    "harness run sqlalchemy-dlock --topology replicated --nemesis failover --ttl 8s --hold 4s"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        self._engine = self.engine(endpoints)
        self._key = key
        self._held: Any = None

    @staticmethod
    def engine(endpoints: Endpoints) -> Engine:
        """Return SQLAlchemy's engine for the servers."""
        (host, port), *_ = endpoints.addresses
        where = URL.create("mysql+pymysql", endpoints.user, endpoints.password, host, port, endpoints.database)
        timeouts = {
            "connect_timeout": TIMEOUT_S,
            "read_timeout": LONGEST_WAIT_S + TIMEOUT_S,
            "write_timeout": TIMEOUT_S,
        }
        # The servers have no TLS, and otherwise all certificates of the system are loaded for each attempt.
        return create_engine(where, connect_args={**timeouts, "ssl_disabled": True})

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> SqlalchemyDlock:  # noqa: ARG003
        """Ignore ``ttl``: the lock lasts as long as the connection."""
        return cls(endpoints, key)

    def acquire(self, timeout: float) -> Grant | None:
        deadline = time.monotonic() + timeout
        return poll(lambda: self._try(deadline - time.monotonic()), timeout, worth_another=Unreachable)

    def _try(self, patience: float) -> Grant | None:
        try:
            connection = self._engine.connect()
        except SQLAlchemyError as error:
            raise Unreachable(f"cannot connect: {error}") from error
        lock: Any = create_sadlock(connection, self._key)
        try:
            held = self.wait(lock, min(LONGEST_WAIT_S, patience))
        except (SQLAlchemyError, SqlAlchemyDLockDatabaseError) as error:
            connection.close()
            raise _meaning(error) from error
        if held:
            self._held = lock
            return Grant()
        connection.close()
        return None

    def wait(self, lock: Any, seconds: float) -> bool:
        """Acquire the library's lock within a time."""
        return bool(lock.acquire(timeout=seconds))

    def release(self) -> None:
        lock, self._held = self._held, None
        if lock is None:
            raise LockError(f"{self._key} is not held by this client")
        try:
            lock.release()
        except (SQLAlchemyError, SqlAlchemyDLockDatabaseError) as error:
            raise _meaning(error) from error
        finally:
            lock.connection_or_session.close()


def _meaning(error: Exception) -> Exception:
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    return (Indeterminate if lost else LockError)(str(error))
