"""Tables of the simulated MySQL, stored as InnoDB does: ordered indexes, row versions, read views.

Source: https://dev.mysql.com/doc/refman/8.0/en/innodb-multi-versioning.html. A deleted row is only marked, and purged
when no transaction can see it any more. Abstracted: pages, the log, the buffer pool; purge does not lag.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .values import ColumnDefinition, Value, sort_key

Key = tuple[Any, ...]
Row = tuple[Value, ...]
SUPREMUM: Final[Key] = ((9,),)
"""Greater than all keys; a lock on it is a lock on the gap after the last record."""


@dataclass(slots=True)
class Version:
    """A row as transaction ``trx`` left it; ``row`` is None if it deleted the row."""

    trx: int
    row: Row | None


@dataclass(slots=True, eq=False)
class RowRecord:
    """A row of the clustered index with its versions, newest first."""

    key: Key
    versions: list[Version]

    @property
    def deleted(self) -> bool:
        return self.versions[0].row is None

    @property
    def record(self) -> RowRecord:
        return self

    @property
    def writer(self) -> int:
        return self.versions[0].trx


@dataclass(slots=True, eq=False)
class IndexEntry:
    """A row's entry in a secondary index. ``writer`` is the transaction that added it or marked it as deleted."""

    record: RowRecord
    writer: int
    deleted: bool = False


@dataclass(eq=False)
class TableIndex:
    """An ordered index. The clustered index holds the records; the others hold entries that refer to them. Their keys
    end with the clustered key, so they are unique."""

    table: SqlTable
    name: str
    columns: list[int]
    unique: bool
    clustered: bool = False
    keys: list[Key] = field(default_factory=list)
    entries: dict[Key, Any] = field(default_factory=dict)
    locks: dict[Key, list[Any]] = field(default_factory=dict)
    """Queues of :class:`harness.sim.servers.mysql.locks.RecordLock`."""

    def prefix(self, row: Sequence[Value]) -> Key:
        """Return the part of a row's key that consists of the declared columns."""
        return tuple([sort_key(row[at]) for at in self.columns])

    def key(self, row: Sequence[Value], clustered: Key) -> Key:
        """Return a row's complete key, given its clustered key."""
        return clustered if self.clustered else self.prefix(row) + clustered

    def at_least(self, key: Key) -> Key:
        """Return the first key that is not less than ``key``, or SUPREMUM."""
        at = bisect_left(self.keys, key)
        return self.keys[at] if at < len(self.keys) else SUPREMUM

    def after(self, key: Key) -> Key:
        """Return the first key that is greater than ``key``, or SUPREMUM."""
        at = bisect_right(self.keys, key)
        return self.keys[at] if at < len(self.keys) else SUPREMUM

    def before(self, key: Key) -> Key | None:
        """Return the last key that is less than ``key``, None if there is none."""
        at = bisect_left(self.keys, key)
        return self.keys[at - 1] if at else None

    def with_prefix(self, prefix: Key) -> list[Key]:
        """Return all keys with that prefix, in order."""
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


class SqlTable:
    """A table's definition and rows."""

    def __init__(self, name: str, columns: list[ColumnDefinition]) -> None:
        self.name = name
        self.columns = columns
        self.indexes: list[TableIndex] = []
        """All indexes, the clustered one first."""
        self.next_auto = 1
        self.stored_auto = 1
        """The AUTO_INCREMENT counter on the disk: an INSERT writes it with its row, not when it takes the number."""
        self.next_row = 1
        """The next hidden row number, for a table without a primary or unique key."""
        self.plans: dict[str, Any] = {}
        """Compiled statements over this table, by template."""
        self.users: dict[int, None] = {}
        """Numbers of the open transactions that have used the table, and prevent it from being dropped."""
        self.auto_column = next((at for at, column in enumerate(columns) if column.auto_increment), None)

    @property
    def clustered(self) -> TableIndex:
        return self.indexes[0]

    def new_key(self, row: Row) -> Key:
        """Return the clustered key for a new row."""
        if self.clustered.columns:
            return self.clustered.prefix(row)
        self.next_row += 1
        return ((1, self.next_row),)

    def store_auto(self, row: Row) -> None:
        """Write the AUTO_INCREMENT counter with a row that is inserted."""
        value = row[self.auto_column] if self.auto_column is not None else None
        if isinstance(value, int):
            self.stored_auto = max(self.stored_auto, value + 1)

    def clear(self) -> None:
        """Remove all rows and reset the AUTO_INCREMENT counter."""
        self.next_auto = self.stored_auto = 1
        for index in self.indexes:
            index.keys.clear()
            index.entries.clear()
            index.locks.clear()


@dataclass(frozen=True, slots=True)
class ReadView:
    """The transactions that a consistent read sees: its own, and those that had committed when the view was opened.

    ``limit`` is the first transaction number that was not assigned then, ``active`` are those open then.
    """

    own: int
    limit: int
    active: frozenset[int]

    def sees(self, trx: int) -> bool:
        """Return whether the changes of a transaction are visible."""
        return trx == self.own or (trx < self.limit and trx not in self.active)

    def row(self, record: RowRecord) -> Row | None:
        """Return the visible version of a row, None if there is none."""
        return next((version.row for version in record.versions if self.sees(version.trx)), None)
