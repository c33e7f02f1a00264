"""Whose a lock is, for observers: in rows, in row locks and in named locks, disturbing nothing.

Locks are told by what they look like: a row whose unique key is the lock's name and which says whose it is, until when
or since when; a row that says nothing of that, and is locked by an open transaction; a name that a session has. What is
not committed is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.sim.servers.mysql.locks import NEXT, REC
from harness.sim.servers.mysql.server import MysqlServer
from harness.sim.servers.mysql.storage import Index, Key, Record, Row, Table, Version
from harness.sim.servers.mysql.values import Value, as_text, sort_key, to_moment, to_ns

OWNERS: Final = ("owner", "cust_id", "locked_by", "holder", "version")
ENDS: Final = ("expires", "lock_until")
FLAGS: Final = ("held",)
"""Names of columns."""


class Held(NamedTuple):
    """``end`` is by the server's wall clock, ns, None without one; ``client`` is the host whose session it is, or whose
    transaction was seen open, None if nobody knows."""

    owner: str
    end: int | None = None
    client: str | None = None


@dataclass(frozen=True, slots=True)
class _Shape:
    """Where in a table's rows a lock's name is unique, and what else they tell: numbers of columns."""

    index: Index
    owner: int | None
    end: int | None
    flag: int | None
    since: int | None


def _shape(table: Table) -> _Shape | None:
    named = [index for index in table.indexes if index.unique and _is_name(table, index)]
    if not named:
        return None
    names = [column.name.lower() for column in table.columns]
    end = _first(names, ENDS)
    moments = [at for at, column in enumerate(table.columns) if column.kind in ("datetime", "timestamp") and at != end]
    return _Shape(named[0], _first(names, OWNERS), end, _first(names, FLAGS), moments[0] if moments else None)


def _is_name(table: Table, index: Index) -> bool:
    return len(index.columns) == 1 and table.columns[index.columns[0]].kind == "text"


def _first(names: list[str], wanted: Sequence[str]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)


class Peek:
    """Looks at one server."""

    def __init__(self, server: MysqlServer) -> None:
        self._server = server
        self._shapes: dict[Table, _Shape | None] = {}
        self._transactions = server.transactions
        self._writers: dict[int, str] = {}
        """Whose a transaction is that was seen open: after a commit that waited for a replica nobody can tell."""

    def look(self, name: str) -> Held | None:
        """Who has the lock of this name."""
        server = self._server
        number = server.named.owner(name)
        if number is not None:
            return self._of_session(number)
        prefix = (sort_key(name),)
        for table in server.tables.values():
            if table not in self._shapes:
                self._shapes[table] = _shape(table)
            shape = self._shapes[table]
            found = None if shape is None else self._in_table(shape, prefix)
            if found is not None:
                return found
        return None

    def _of_session(self, number: int) -> Held:
        session = self._server.session(number)
        return Held(f"connection {number}", None, None if session is None else session.conn.peer)

    def _in_table(self, shape: _Shape, prefix: Key) -> Held | None:
        index = shape.index
        key = prefix if index.clustered else index.at_least(prefix)
        entry = index.entries.get(key)
        if entry is None or key[: len(prefix)] != prefix:
            return None
        last = self._committed(entry.record)
        found = None if last is None or last.row is None else self._in_row(shape, key, last.row)
        if found is None or last is None or found.client is not None:
            return found
        return found._replace(client=self._writers.get(last.trx))

    def _committed(self, record: Record) -> Version | None:
        """The last version of a row whose transaction is over; of others it is noted whose they are."""
        server = self._server
        if self._transactions is not server.transactions:  # its disk was wiped: they are numbered anew
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

    def _in_row(self, shape: _Shape, key: Key, row: Row) -> Held | None:
        if shape.flag is not None and not row[shape.flag]:
            return None
        told = shape.owner if shape.owner is not None else shape.since
        if told is not None:
            return Held(as_text(row[told]), self._end(None if shape.end is None else row[shape.end]))
        if shape.flag is not None:
            return Held("held")
        return self._locked(shape.index, key)

    @staticmethod
    def _end(value: Value) -> int | None:
        moment = to_moment(value)
        return None if moment is None else to_ns(moment)

    def _locked(self, index: Index, key: Key) -> Held | None:
        for lock in index.locks.get(key, ()):
            if lock.wait is None and lock.mode == "X" and lock.kind in (REC, NEXT):
                number = self._server.session_of(lock.trx)
                return None if number is None else self._of_session(number)
        return None
