"""What all MySQL locks share: a connection, waiting for a busy lock, and telling "no" from "nobody knows".

A lock that is a row derives from :class:`RowLock` and writes its table and its two halves, ``try_lock`` and ``unlock``,
in SQL; one that belongs to a connection (``FOR UPDATE``, ``GET_LOCK``) uses :class:`Session` by itself.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CR, ER

from lock_impls.base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from lock_impls.polling import poll

KINDS: Final = ("mysql-single", "mysql-replicated")
TIMEOUT_S: Final = 1.0
"""What a user would set: PyMySQL itself waits for answers for ever."""
CONNECTION_KILLED: Final = 1927
"""MariaDB's ER_CONNECTION_KILLED."""
_UNSURE: Final = frozenset({ER.QUERY_INTERRUPTED, ER.SERVER_SHUTDOWN, CONNECTION_KILLED})
"""Server's errors after which a change may stand all the same: a commit that waited for a replica is in the log."""
_ANOTHER_TRY: Final = frozenset({ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK})


class Busy(LockError):
    """Not done because of another transaction: a duplicate key, a lock wait that took too long, a deadlock."""


class NoTable(LockError):
    """Not done because the lock's table is not there."""


class Unreachable(LockError):
    """Not done because no server was reached that would do it; another try may reach one."""


@dataclass(frozen=True, slots=True)
class Result:
    """``count`` is of the rows changed or found, ``last_id`` the auto-increment number that was given."""

    rows: tuple[tuple[Any, ...], ...]
    count: int
    last_id: int


class Session:
    """One connection, made when it is first needed and anew when it has been lost. ``table`` is a statement that makes
    the table which the statements use, run when there is none."""

    def __init__(self, endpoints: Endpoints, table: str = "", *, patience: float = TIMEOUT_S) -> None:
        """``patience`` in seconds, for each answer."""
        (self._host, self._port), *_ = endpoints.addresses
        self._account = endpoints.account
        self._table = table
        self._patience = patience
        self._connection: Connection[Any] | None = None

    @property
    def connected(self) -> bool:
        """As far as this side knows."""
        return self._connection is not None and self._connection.open

    def execute(self, statement: str, *arguments: Any) -> Result:
        """Raises :class:`Busy`, :class:`Unreachable`, another LockError where the server refused, or Indeterminate."""
        try:
            return self.ask(statement, *arguments)
        except NoTable:
            if not self._table:
                raise
            self._make_table(self._connected())
            return self.execute(statement, *arguments)

    def ask(self, statement: str, *arguments: Any) -> Result:
        """As :meth:`execute`, and raises :class:`NoTable` instead of making the table, which ends a transaction."""
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
        """End the connection, and with it what belongs to it; not a word is waited for."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _connected(self) -> Connection[Any]:
        if self._connection is not None and self._connection.open:
            return self._connection
        timeouts: dict[str, Any] = {"connect_timeout": TIMEOUT_S, "write_timeout": TIMEOUT_S}
        account = self._account
        # The servers have no TLS, and otherwise all certificates of the system are loaded for each attempt (20 ms).
        try:
            self._connection = pymysql.connect(
                host=self._host, port=self._port, user=account, password=account, database=account,
                autocommit=True, read_timeout=self._patience, ssl_disabled=True, **timeouts,
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
        if number == ER.OPTION_PREVENTS_STATEMENT:  # read-only: the name has moved, or is going to
            self.close()
            return Unreachable(text)
        if number == CR.CR_SERVER_GONE_ERROR:  # while it was being sent: a server does not run half a statement
            self.close()
            return Unreachable(text)
        if number in _UNSURE or number == CR.CR_SERVER_LOST:
            self.close()
            return Indeterminate(text)
        return LockError(text)


def _run(connection: Connection[Any], statement: str, arguments: tuple[Any, ...]) -> Result:
    with connection.cursor() as cursor:
        count = cursor.execute(statement, arguments or None)
        return Result(tuple(cursor.fetchall()), count, cursor.lastrowid or 0)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def span(seconds: float) -> str:
    """A length of time as SQL writes it, for ADDTIME: ``-00:00:02.500000``."""
    micros = round(abs(seconds) * 1_000_000)
    minutes, rest = divmod(micros, 60_000_000)
    sign = "-" if seconds < 0 else ""
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}:{rest // 1_000_000:02}.{rest % 1_000_000:06}"


class RowLock(ABC):
    """A lock that is a row of a table. ``try_lock`` and ``unlock`` are the lock; the rest is the seam."""

    info: ClassVar[LockInfo]
    TABLE: ClassVar[str]
    """The statement that makes the table."""

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        self.session = Session(endpoints, self.TABLE)
        self.key = key
        self.ttl = ttl

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(endpoints, key, ttl, **options)

    @abstractmethod
    def try_lock(self) -> Grant | None:
        """One try; None when somebody else holds the lock."""

    @abstractmethod
    def unlock(self) -> bool:
        """Gives the lock back; False when the table (or the lock itself) says that it was not held."""

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
        """What is left of a lease that was asked for at ``began``, by the client's monotonic clock."""
        return max(0.0, began + self.ttl - time.monotonic())
