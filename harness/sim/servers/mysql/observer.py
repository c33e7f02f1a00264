"""Finds the holder of a lock in a simulated MySQL server, for observers, without changing or locking anything.

A lock is recognised by its form: a row whose unique key is the lock's name, with columns for the owner, the expiry or
the time of acquisition; a row without such columns that an open transaction has locked; or a named lock of a session.
Uncommitted changes are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from .locks import NEXT_KEY, REC
from .server import MysqlServer
from .storage import Key, Row, RowRecord, SqlTable, TableIndex, Version
from .values import Value, as_text, sort_key, to_datetime, to_ns

OWNER_COLUMNS: Final = ("owner", "cust_id", "locked_by", "holder", "version")
EXPIRY_COLUMNS: Final = ("expires", "lock_until")
FLAG_COLUMNS: Final = ("held",)
"""Column names by which the owner, the expiry and a held flag are recognised."""


class ObservedHold(NamedTuple):
    """The holder of a lock as the server's data shows it.

    ``end`` is the expiry in ns of the server's wall clock, None if there is none. ``client`` is the host of the session
    that holds the lock or whose transaction was seen to write it, None if unknown.
    """

    owner: str
    end: int | None = None
    client: str | None = None


@dataclass(frozen=True, slots=True)
class _LockTable:
    """How a table stores locks: the unique index of the lock's name, and the numbers of the other columns."""

    index: TableIndex
    owner: int | None
    end: int | None
    flag: int | None
    since: int | None


def _lock_table(table: SqlTable) -> _LockTable | None:
    named = [index for index in table.indexes if index.unique and _is_name(table, index)]
    if not named:
        return None
    names = [column.name.lower() for column in table.columns]
    end = _first(names, EXPIRY_COLUMNS)
    moments = [at for at, column in enumerate(table.columns) if column.kind in ("datetime", "timestamp") and at != end]
    return _LockTable(
        named[0], _first(names, OWNER_COLUMNS), end, _first(names, FLAG_COLUMNS), moments[0] if moments else None
    )


def _is_name(table: SqlTable, index: TableIndex) -> bool:
    return len(index.columns) == 1 and table.columns[index.columns[0]].kind == "text"


def _first(names: list[str], wanted: Sequence[str]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)


class LockObserver:
    """Finds the holders of locks on one server."""

    def __init__(self, server: MysqlServer) -> None:
        self._server = server
        self._lock_tables: dict[SqlTable, _LockTable | None] = {}
        self._transactions = server.transactions
        self._writers: dict[int, str] = {}
        """Client host of each transaction that was seen open, by number. It cannot be determined after a commit, when
        the session no longer refers to the transaction."""

    def look(self, name: str) -> ObservedHold | None:
        """Return the holder of the lock ``name``, None if it is free."""
        server = self._server
        number = server.named.owner(name)
        if number is not None:
            return self._of_session(number)
        prefix = (sort_key(name),)
        for table in server.tables.values():
            if table not in self._lock_tables:
                self._lock_tables[table] = _lock_table(table)
            lock_table = self._lock_tables[table]
            found = None if lock_table is None else self._in_table(lock_table, prefix)
            if found is not None:
                return found
        return None

    def _of_session(self, number: int) -> ObservedHold:
        session = self._server.session(number)
        return ObservedHold(f"connection {number}", None, None if session is None else session.conn.peer)

    def _in_table(self, lock_table: _LockTable, prefix: Key) -> ObservedHold | None:
        index = lock_table.index
        key = prefix if index.clustered else index.at_least(prefix)
        entry = index.entries.get(key)
        if entry is None or key[: len(prefix)] != prefix:
            return None
        last = self._committed(entry.record)
        found = None if last is None or last.row is None else self._in_row(lock_table, key, last.row)
        if found is None or last is None or found.client is not None:
            return found
        return found._replace(client=self._writers.get(last.trx))

    def _committed(self, record: RowRecord) -> Version | None:
        """Return the last committed version of a row, and record the client hosts of uncommitted ones."""
        server = self._server
        if self._transactions is not server.transactions:  # after a wiped disk, transactions are numbered from 1 again
            self._transactions, self._writers = server.transactions, {}
        for version in record.versions:
            trx = server.transactions.active.get(version.trx)
            if trx is None:
                return version
            number = server.session_of(trx)
            session = None if number is None else server.session(number)
            if session is not None:
                self._writers[version.trx] = session.conn.peer
        return None

    def _in_row(self, lock_table: _LockTable, key: Key, row: Row) -> ObservedHold | None:
        if lock_table.flag is not None and not row[lock_table.flag]:
            return None
        label = lock_table.owner if lock_table.owner is not None else lock_table.since
        if label is not None:
            return ObservedHold(as_text(row[label]), self._end(None if lock_table.end is None else row[lock_table.end]))
        if lock_table.flag is not None:
            return ObservedHold("held")
        return self._locked(lock_table.index, key)

    @staticmethod
    def _end(value: Value) -> int | None:
        moment = to_datetime(value)
        return None if moment is None else to_ns(moment)

    def _locked(self, index: TableIndex, key: Key) -> ObservedHold | None:
        for lock in index.locks.get(key, ()):
            if lock.wait is None and lock.mode == "X" and lock.kind in (REC, NEXT_KEY):
                number = self._server.session_of(lock.trx)
                return None if number is None else self._of_session(number)
        return None
