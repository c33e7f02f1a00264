"""Shared parts of all PostgreSQL locks: a pg8000 connection, and telling refusals from unknown outcomes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pg8000.exceptions import DatabaseError, InterfaceError
from pg8000.native import Connection, literal

from .base import Endpoints, Indeterminate, LockError

KINDS: Final = ("postgres", "postgres-replicated")
POOLED: Final = "postgres-pgbouncer"
POOLED_KINDS: Final = (*KINDS, POOLED)
"""Kinds of cluster for locks that should work, or visibly fail, behind PgBouncer."""
REQUIRES: Final = ("pg8000>=1.29",)
TIMEOUT_S: Final = 1.0
"""A time-out that a typical user sets: by default pg8000 waits for answers for ever."""
LONGEST_WAIT_S: Final = 3.0
"""Longest wait of one statement: a client that waits for long in a server notices late that the server is gone."""
KEY: Final = "hashtextextended(:key, 0)"
"""The key of an advisory lock: a hash of 64 bits. (``hashtext`` has 32, so names collide sooner.)"""
_ARGUMENT: Final = re.compile(r"(?<!:):(\w+)")
_BUSY: Final = frozenset({"23505", "40P01", "55P03"})
"""A duplicate key, a deadlock, a lock time-out."""
_NO_TABLE: Final = "42P01"
_ENDED: Final = frozenset({"25P03", "57P01", "57P02", "57P03", "57P05"})
"""The server has ended the session, and rolled back."""
_READ_ONLY: Final = "25006"
"""The server is a standby: the name of the primary has moved to another server, or is about to."""


class Busy(LockError):
    """Not done because of another transaction: a duplicate key, a lock wait that took too long, or a deadlock."""


class NoTable(LockError):
    """Not done because the lock's table does not exist."""


class Unreachable(LockError):
    """Not done because no reachable server would do it; another try may reach one."""


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The result of a statement: ``count`` is the number of rows changed or found."""

    rows: list[list[Any]]
    count: int


def with_literals(statement: str, arguments: Mapping[str, Any]) -> str:
    """Return the statement with its arguments as literals in place of ``:name``.

    pg8000 sends a statement with parameters in three messages that each end a transaction: Parse, Describe, and Bind
    with Execute. A pooler in transaction mode may run them in different server sessions, and the later ones then find
    no statement. A statement with literals is one message.
    """
    return _ARGUMENT.sub(lambda found: literal(arguments[found[1]]), statement)


class PostgresSession:
    """One connection, opened when it is first needed and again after it was lost.

    ``table`` is a statement that creates the table that the other statements use; it runs if there is none.
    """

    def __init__(self, endpoints: Endpoints, table: str = "", *, patience: float = TIMEOUT_S) -> None:
        """``patience`` is the time-out for each answer, in seconds."""
        (self._host, self._port), *_ = endpoints.addresses
        self._user, self._database = endpoints.user, endpoints.database
        self._password = endpoints.login.password or None
        self._table = table
        self._patience = patience
        self._pooled = endpoints.kind == POOLED
        self._connection: Any = None

    @property
    def connected(self) -> bool:
        """True if there is a connection, as far as this side knows."""
        return self._connection is not None

    def execute(self, statement: str, **arguments: Any) -> StatementResult:
        """Execute a statement, creating the table first if needed.

        Raises :class:`Busy`, :class:`Unreachable`, another LockError if the server refused, or Indeterminate.
        """
        try:
            return self.ask(statement, **arguments)
        except NoTable:
            if not self._table:
                raise
            self._make_table()
            return self.execute(statement, **arguments)

    def ask(self, statement: str, **arguments: Any) -> StatementResult:
        """As :meth:`execute`, but raise :class:`NoTable` instead of creating the table."""
        connection = self._connected()
        if self._pooled:
            statement, arguments = with_literals(statement, arguments), {}
        try:
            rows = connection.run(statement, **arguments)
            return StatementResult(rows or [], connection.row_count)
        except (DatabaseError, InterfaceError, OSError) as error:
            raise self._meaning(error) from error

    def _make_table(self) -> None:
        try:
            self._connected().run(self._table)
        except (DatabaseError, InterfaceError, OSError) as error:  # two clients that create it at once get an error
            self.close()
            raise Unreachable(f"no table: {error}") from error

    def close(self) -> None:
        """Close the connection; what belongs to it ends with it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except (InterfaceError, OSError):
                return  # it was closed already

    def _connected(self) -> Any:
        if self._connection is None:
            try:
                self._connection = Connection(
                    self._user, host=self._host, port=self._port, database=self._database, timeout=self._patience,
                    password=self._password, ssl_context=False, tcp_keepalive=False,
                )  # fmt: skip
            except (DatabaseError, InterfaceError, OSError) as error:
                raise Unreachable(f"cannot connect: {error}") from error
        return self._connection

    def _meaning(self, error: Exception) -> Exception:
        if not isinstance(error, DatabaseError):
            self.close()
            return Indeterminate(f"{type(error).__name__}: {error}")
        details: Any = error.args[0]
        state, text = details.get("C", ""), f"{details.get('C')}: {details.get('M')}"
        if state in _ENDED or state == _READ_ONLY:
            self.close()
            return Unreachable(text)
        if state in _BUSY:
            return Busy(text)
        return NoTable(text) if state == _NO_TABLE else LockError(text)

    def limit_waits(self, seconds: float, *, transaction: bool = False) -> None:
        """Set ``lock_timeout`` of the session, or only of its open transaction; 0 would mean no limit."""
        milliseconds = max(1, round(min(LONGEST_WAIT_S, seconds) * 1000))
        local = "true" if transaction else "false"
        self.execute(f"SELECT set_config('lock_timeout', :value, {local})", value=f"{milliseconds}ms")

    def answers(self) -> bool:
        """Return whether the server answers on this connection."""
        if not self.connected:
            return False
        try:
            self.execute("SELECT 1")
        except (LockError, Indeterminate):
            return False
        return True
