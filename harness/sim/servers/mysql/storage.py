"""Tables of the simulated MySQL as InnoDB keeps them: ordered indexes, versions of rows, read views, purge.

Source: https://dev.mysql.com/doc/refman/8.0/en/innodb-multi-versioning.html. A deleted row stays, marked, until nobody
can see it any more; then it is purged. Abstracted: pages, the log, the buffer pool; purge does not lag.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.sim.servers.mysql.values import Column, Value, sort_key

Key = tuple[Any, ...]
Row = tuple[Value, ...]
SUPREMUM: Final[Key] = ((9,),)
"""Comes after all keys; a lock on it is a lock on the gap at the end."""


@dataclass(slots=True)
class Version:
    """What a transaction made of a row; None: it deleted it."""

    trx: int
    row: Row | None


@dataclass(slots=True, eq=False)
class Record:
    """A row with its versions, the newest first."""

    key: Key
    versions: list[Version]

    @property
    def deleted(self) -> bool:
        return self.versions[0].row is None

    @property
    def record(self) -> Record:
        return self

    @property
    def writer(self) -> int:
        return self.versions[0].trx


@dataclass(slots=True, eq=False)
class Entry:
    """A row's place in a secondary index; ``writer`` is the transaction that put it there or marked it deleted."""

    record: Record
    writer: int
    deleted: bool = False


@dataclass(eq=False)
class Index:
    """An ordered index. The clustered one holds the records, the others point to them (their keys end with the
    clustered one's, so they are unique)."""

    table: Table
    name: str
    columns: list[int]
    unique: bool
    clustered: bool = False
    keys: list[Key] = field(default_factory=list)
    entries: dict[Key, Any] = field(default_factory=dict)
    locks: dict[Key, list[Any]] = field(default_factory=dict)
    """Queues of :class:`harness.sim.servers.mysql.locks.Lock`."""

    def prefix(self, row: Sequence[Value]) -> Key:
        """The part of a row's key that the index was declared over."""
        return tuple([sort_key(row[at]) for at in self.columns])

    def key(self, row: Sequence[Value], clustered: Key) -> Key:
        return clustered if self.clustered else self.prefix(row) + clustered

    def at_least(self, key: Key) -> Key:
        """The first key that is not less."""
        at = bisect_left(self.keys, key)
        return self.keys[at] if at < len(self.keys) else SUPREMUM

    def after(self, key: Key) -> Key:
        at = bisect_right(self.keys, key)
        return self.keys[at] if at < len(self.keys) else SUPREMUM

    def before(self, key: Key) -> Key | None:
        at = bisect_left(self.keys, key)
        return self.keys[at - 1] if at else None

    def with_prefix(self, prefix: Key) -> list[Key]:
        """All keys that begin so, in order."""
        found = []
        for at in range(bisect_left(self.keys, prefix), len(self.keys)):
            if self.keys[at][: len(prefix)] != prefix:
                break
            found.append(self.keys[at])
        return found

    def add(self, key: Key, entry: Any) -> None:
        insort(self.keys, key)
        self.entries[key] = entry

    def remove(self, key: Key) -> None:
        del self.keys[bisect_left(self.keys, key)]
        del self.entries[key]


class Table:
    """A table's definition and rows."""

    def __init__(self, name: str, columns: list[Column]) -> None:
        self.name = name
        self.columns = columns
        self.indexes: list[Index] = []
        """The clustered index first."""
        self.next_auto = 1
        self.next_row = 1
        """The hidden row number, where no index identifies rows."""
        self.plans: dict[str, Any] = {}
        """Statements over this table, compiled."""
        self.users: dict[int, None] = {}
        """Transactions that have used the table: it is not dropped under them."""
        self.auto_column = next((at for at, column in enumerate(columns) if column.auto_increment), None)

    @property
    def clustered(self) -> Index:
        return self.indexes[0]

    def new_key(self, row: Row) -> Key:
        """The clustered key of a new row."""
        if self.clustered.columns:
            return self.clustered.prefix(row)
        self.next_row += 1
        return ((1, self.next_row),)

    def clear(self) -> None:
        self.next_auto = 1
        for index in self.indexes:
            index.keys.clear()
            index.entries.clear()
            index.locks.clear()


@dataclass(frozen=True, slots=True)
class View:
    """Which transactions a consistent read sees: those that had committed when it was opened, and its own."""

    own: int
    limit: int
    active: frozenset[int]

    def sees(self, trx: int) -> bool:
        return trx == self.own or (trx < self.limit and trx not in self.active)

    def row(self, record: Record) -> Row | None:
        return next((version.row for version in record.versions if self.sees(version.trx)), None)
