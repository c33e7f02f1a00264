"""Shared parts of all MySQL locks: a connection, waiting for a busy lock, and telling refusals from unknown outcomes.

A lock that is a row derives from :class:`RowLock` and implements its table, ``try_lock`` and ``unlock`` in SQL. A lock
that belongs to a connection (``FOR UPDATE``, ``GET_LOCK``) uses :class:`MysqlSession` directly.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CR, ER

from .base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from .polling import poll

KINDS: Final = ("mysql-single", "mysql-replicated", "mysql-galera")
REQUIRES: Final = ("PyMySQL>=1.0",)
TIMEOUT_S: Final = 1.0
"""A time-out that a typical user sets: by default PyMySQL waits for answers for ever."""
CONNECTION_KILLED: Final = 1927
"""MariaDB's ER_CONNECTION_KILLED."""
_UNSURE: Final = frozenset({ER.QUERY_INTERRUPTED, ER.SERVER_SHUTDOWN, CONNECTION_KILLED})
"""Server errors after which a change may still take effect: a commit that waited for a replica is in the log."""
_ANOTHER_TRY: Final = frozenset({ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK})


class Busy(LockError):
    """Not done because of another transaction: a duplicate key, a lock wait that took too long, or a deadlock."""


class NoTable(LockError):
    """Not done because the lock's table does not exist."""


class Unreachable(LockError):
    """Not done because no reachable server would do it; another try may reach one."""


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The result of a statement: ``count`` is the number of rows changed or found, ``last_id`` the assigned
    auto-increment number."""

    rows: tuple[tuple[Any, ...], ...]
    count: int
    last_id: int


class MysqlSession:
    """One connection, opened when it is first needed and again after it was lost.

    ``table`` is a statement that creates the table that the other statements use; it runs if there is none.
    """

    def __init__(self, endpoints: Endpoints, table: str = "", *, patience: float = TIMEOUT_S) -> None:
        """``patience`` is the time-out for each answer, in seconds."""
        (self._host, self._port), *_ = endpoints.addresses
        self._login: dict[str, Any] = {
            "user": endpoints.user, "password": endpoints.password, "database": endpoints.database
        }  # fmt: skip
        self._table = table
        self._patience = patience
        self._connection: Connection[Any] | None = None

    @property
    def connected(self) -> bool:
        """True if there is a connection, as far as this side knows."""
        return self._connection is not None and self._connection.open

    def execute(self, statement: str, *arguments: Any) -> StatementResult:
        """Execute a statement, creating the table first if needed.

        Raises :class:`Busy`, :class:`Unreachable`, another LockError if the server refused, or Indeterminate.
        """
        try:
            return self.ask(statement, *arguments)
        except NoTable:
            if not self._table:
                raise
            self._make_table(self._connected())
            return self.execute(statement, *arguments)

    def ask(self, statement: str, *arguments: Any) -> StatementResult:
        """As :meth:`execute`, but raise :class:`NoTable` instead of creating the table, which would end a
        transaction."""
        connection = self._connected()
        try:
            return _run(connection, statement, arguments)
        except (pymysql.MySQLError, OSError) as error:
            raise self._meaning(error) from error

    def _make_table(self, connection: Connection[Any]) -> None:
        try:
            _run(connection, self._table, ())
        except (pymysql.MySQLError, OSError) as error:
            self.close()
            raise Unreachable(f"no table: {_text(error)}") from error

    def close(self) -> None:
        """Close the connection without waiting; what belongs to it ends with it."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _connected(self) -> Connection[Any]:
        if self._connection is not None and self._connection.open:
            return self._connection
        timeouts: dict[str, Any] = {"connect_timeout": TIMEOUT_S, "write_timeout": TIMEOUT_S}
        # The servers have no TLS, and otherwise all certificates of the system are loaded for each attempt (20 ms).
        try:
            self._connection = pymysql.connect(
                host=self._host, port=self._port, autocommit=True, read_timeout=self._patience, ssl_disabled=True,
                **self._login, **timeouts,
            )  # fmt: skip
        except (pymysql.MySQLError, OSError) as error:
            raise Unreachable(f"cannot connect: {_text(error)}") from error
        return self._connection

    def _meaning(self, error: Exception) -> Exception:
        number = error.args[0] if isinstance(error, pymysql.MySQLError) and error.args else CR.CR_SERVER_LOST
        text = _text(error)
        if number == ER.DUP_ENTRY or number in _ANOTHER_TRY:
            return Busy(text)
        if number == ER.NO_SUCH_TABLE:
            return NoTable(text)
        # read-only: the service name has moved to another server, or is about to
        if number == ER.OPTION_PREVENTS_STATEMENT:
            self.close()
            return Unreachable(text)
        if number == CR.CR_SERVER_GONE_ERROR:  # failed while sending: a server does not execute half a statement
            self.close()
            return Unreachable(text)
        if number in _UNSURE or number == CR.CR_SERVER_LOST:
            self.close()
            return Indeterminate(text)
        return LockError(text)


def _run(connection: Connection[Any], statement: str, arguments: tuple[Any, ...]) -> StatementResult:
    with connection.cursor() as cursor:
        count = cursor.execute(statement, arguments or None)
        return StatementResult(tuple(cursor.fetchall()), count, cursor.lastrowid or 0)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def span(seconds: float) -> str:
    """Format a duration for ADDTIME: ``-00:00:02.500000``."""
    micros = round(abs(seconds) * 1_000_000)
    minutes, rest = divmod(micros, 60_000_000)
    sign = "-" if seconds < 0 else ""
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}:{rest // 1_000_000:02}.{rest % 1_000_000:06}"


class RowLock(ABC):
    """A lock that is a row of a table. Subclasses implement ``try_lock`` and ``unlock``."""

    info: ClassVar[LockInfo]
    TABLE: ClassVar[str]
    """The statement that creates the table."""

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        self.session = MysqlSession(endpoints, self.TABLE)
        self.key = key
        self.ttl = ttl

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(endpoints, key, ttl, **options)

    @abstractmethod
    def try_lock(self) -> Grant | None:
        """Try once; None if another client holds the lock."""

    @abstractmethod
    def unlock(self) -> bool:
        """Give the lock back; False if the table (or the lock itself) says that it was not held."""

    def acquire(self, timeout: float) -> Grant | None:
        return poll(self._try, timeout, worth_another=Unreachable)

    def _try(self) -> Grant | None:
        try:
            return self.try_lock()
        except Busy:
            return None

    def release(self) -> None:
        if not self.unlock():
            raise LockError(f"{self.key} is not held by this client")

    def remaining(self, began: float) -> float:
        """Seconds left of a lease that was requested at ``began``, by the client's monotonic clock."""
        return max(0.0, began + self.ttl - time.monotonic())
