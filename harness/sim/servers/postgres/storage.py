"""Tables and transactions of the simulated PostgreSQL: versions of rows, snapshots, commit and rollback.

Source: https://www.postgresql.org/docs/15/transaction-iso.html. A row keeps its versions, the newest first; a reader
takes the newest one that its snapshot contains. Abstracted: savepoints, sequences, indexes (a search reads all rows).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

Values = tuple[Any, ...]
RUNNING: Final = 1 << 62
"""The commit number of a transaction that has not committed."""


class Transaction:
    """One transaction. ``committed_at`` is its number in the order of commits, ``snapshot`` the last such number that
    its reads contain at REPEATABLE READ, and ``client`` the host that it belongs to."""

    def __init__(self, number: int, client: str, wall_ns: int, *, repeatable: bool, read_only: bool) -> None:
        self.number = number
        self.client = client
        self.wall_ns = wall_ns
        self.repeatable = repeatable
        self.read_only = read_only
        """True if it began on a standby."""
        self.queried = False
        self.snapshot: int | None = None
        self.committed_at = RUNNING
        self.ended = False
        self.changed: list[tuple[Table, Row]] = []
        self.locked_rows = False
        self.logged = False
        """True if its commit is in the replication log, from which it cannot be rolled back."""

    @property
    def tag(self) -> tuple[str, int]:
        """The lock that other transactions wait for."""
        return ("transaction", self.number)


@dataclass(slots=True, eq=False)
class Version:
    """One version of a row; ``values`` is None if the row is deleted. ``unindexed`` are the names of the unique keys in
    which it is not entered yet, because its writer waits."""

    values: Values | None
    writer: Transaction
    unindexed: set[str] = field(default_factory=set)


class Row:
    """A row, or one that is being inserted or deleted."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.versions: list[Version] = []
        self.locker: Transaction | None = None
        """The transaction that locked the row last, without a change of it."""

    def newest(self) -> Version:
        return self.versions[0]

    def blocker(self, trx: Transaction) -> Transaction | None:
        """Return the other running transaction that has changed or locked the row."""
        for other in (self.newest().writer, self.locker):
            if other is not None and other is not trx and not other.ended:
                return other
        return None

    def settled(self, trx: Transaction) -> Version | None:
        """Return the newest version that no other running transaction has written, None if there is none."""
        return next((one for one in self.versions if one.writer is trx or one.writer.ended), None)

    def seen_version(self, trx: Transaction, snapshot: int) -> Version | None:
        """Return the version that a snapshot contains, None if it has no such row."""
        for version in self.versions:
            if version.writer is trx or version.writer.committed_at <= snapshot:
                return version
        return None

    def seen(self, trx: Transaction, snapshot: int) -> Values | None:
        """Return the values that a snapshot contains, None if it has no such row."""
        version = self.seen_version(trx, snapshot)
        return None if version is None else version.values


@dataclass(slots=True)
class Column:
    """A column; ``default`` is the SQL of its default value, empty for NULL."""

    name: str
    oid: int
    not_null: bool = False
    default: Any = None


@dataclass(slots=True, eq=False)
class Table:
    """A table with its rows in the order of insertion. ``unique`` are its unique keys: (name, columns' numbers)."""

    name: str
    columns: list[Column]
    unique: list[tuple[str, tuple[int, ...]]]
    rows: dict[int, Row] = field(default_factory=dict)
    next_row: int = 1

    def add(self) -> Row:
        """Return a new row, which has no version yet."""
        row = Row(self.next_row)
        self.next_row += 1
        return row

    def column(self, name: str) -> int | None:
        """Return the number of a column, None if there is none."""
        return next((at for at, column in enumerate(self.columns) if column.name == name), None)


class Transactions:
    """All transactions of a server."""

    def __init__(self) -> None:
        self._next = 1
        self.commits = 0
        self.running: dict[int, Transaction] = {}

    def begin(self, client: str, wall_ns: int, *, repeatable: bool, read_only: bool) -> Transaction:
        trx = Transaction(self._next, client, wall_ns, repeatable=repeatable, read_only=read_only)
        self.running[self._next] = trx
        self._next += 1
        return trx

    def snapshot(self, trx: Transaction) -> int:
        """Return the snapshot of a statement that begins now."""
        if not trx.repeatable:
            return self.commits
        if trx.snapshot is None:
            trx.snapshot = self.commits
        return trx.snapshot

    def write(self, trx: Transaction, table: Table, row: Row, values: Values | None) -> Version:
        """Give a row a new version and return it; ``values`` is None to delete the row."""
        version = Version(values, trx)
        row.versions.insert(0, version)
        table.rows[row.number] = row
        trx.changed.append((table, row))
        return version

    def withdraw(self, trx: Transaction, table: Table, row: Row) -> None:
        """Remove a row that the transaction has just inserted."""
        row.versions.clear()
        del table.rows[row.number]
        trx.changed.remove((table, row))

    def end(self, trx: Transaction, *, commit: bool) -> None:
        """Make the changes of a transaction visible to later snapshots, or discard them."""
        if commit and trx.changed:
            self.commits += 1
            trx.committed_at = self.commits
        trx.ended = True
        del self.running[trx.number]
        for table, row in trx.changed:
            if not commit:
                row.versions = [version for version in row.versions if version.writer is not trx]
            self._prune(table, row)

    def _prune(self, table: Table, row: Row) -> None:
        """Remove the versions that no snapshot needs."""
        oldest = min((trx.snapshot for trx in self._repeatable()), default=self.commits)
        for at, version in enumerate(row.versions):
            if version.writer.committed_at <= oldest:
                del row.versions[at + 1 :]
                break
        if not row.versions or (len(row.versions) == 1 and row.newest().values is None and row.newest().writer.ended):
            table.rows.pop(row.number, None)

    def _repeatable(self) -> Iterator[Any]:
        return (trx for trx in self.running.values() if trx.snapshot is not None)
