"""Finds the holder of a lock in a simulated PostgreSQL, for observers, without changing or locking anything.

A lock is recognised by its form: an advisory lock on ``hashtextextended(name, 0)``, or on 64 bits of the BLAKE2b or
SHA-1 hash of the name, as sqlalchemy-dlock and PALs have it; a committed row whose unique key is the lock's name, in a
table that has the time of acquisition; or such a row without it that a transaction has locked.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from .hashing import hash_text_extended
from .ordered_calls import advisory_tag
from .server import PostgresServer
from .session import PgSession
from .storage import Row, Table, Transaction, Values
from .values import TEXTS, TIMESTAMP, TIMESTAMPTZ, as_text


class ObservedHold(NamedTuple):
    """The holder of a lock: a text that tells holders apart, and the client's host, None if unknown."""

    owner: str
    client: str | None


class LockObserver:
    """Finds the holders of locks on one server."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def look(self, name: str) -> ObservedHold | None:
        """Return the holder of the lock ``name``, None if it is free."""
        for number in (hash_text_extended(name, 0), *map(_number, (_blake2b(name), _sha1(name)))):
            for holder in self._server.locks.holders(advisory_tag((number,))):
                return self._of_session(self._server.session_of(holder))
        for table in self._server.tables.values():
            for row in table.rows.values():
                found = self._in_row(table, row, name)
                if found is not None:
                    return found
        return None

    def _in_row(self, table: Table, row: Row, name: str) -> ObservedHold | None:
        committed = next((version for version in row.versions if version.writer.ended), None)
        values = None if committed is None else committed.values
        if values is None or committed is None or not _has_key(table, values, name):
            return None
        for column, value in zip(table.columns, values, strict=True):
            if column.oid in (TIMESTAMP, TIMESTAMPTZ):
                return ObservedHold(as_text(value, column.oid), committed.writer.client)
        locker = row.locker
        return None if locker is None or locker.ended else self._of_transaction(locker)

    def _of_transaction(self, trx: Transaction) -> ObservedHold | None:
        holders = self._server.locks.holders(trx.tag)
        return self._of_session(self._server.session_of(holders[0])) if holders else None

    @staticmethod
    def _of_session(session: PgSession | None) -> ObservedHold | None:
        return None if session is None else ObservedHold(f"process {session.number}", session.conn.peer)


def _blake2b(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


def _sha1(name: str) -> bytes:
    return hashlib.sha1(name.encode(), usedforsecurity=False).digest()


def _number(digest: bytes) -> int:
    """Return the number of an advisory lock: the first 64 bits of a hash."""
    return int.from_bytes(digest[:8], "little", signed=True)


def _has_key(table: Table, values: Values, name: str) -> bool:
    return any(
        len(columns) == 1 and table.columns[columns[0]].oid in TEXTS and values[columns[0]] == name
        for _, columns in table.unique
    )
