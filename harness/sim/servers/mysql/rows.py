"""Inserts, updates and deletes single rows with the locks and uniqueness checks that InnoDB makes in each index.

Source: https://dev.mysql.com/doc/refman/8.0/en/innodb-locks-set.html. An INSERT goes into the clustered index first and
then into the others in the order of their declaration; a duplicate in one of them undoes the whole row.
"""

from __future__ import annotations

from collections.abc import Generator

from harness.sim.servers.waits import Wait

from . import locks
from .errors import DUPLICATE, SqlError
from .locks import Mode
from .storage import IndexEntry, Key, Row, RowRecord, SqlTable, TableIndex, Version
from .transactions import Transaction, Transactions, add_version
from .values import as_text

Step = Generator[Wait, None, None]


class Duplicate(Exception):
    """Another row has the same key in a unique index; ``record`` is that row."""

    def __init__(self, index: TableIndex, record: RowRecord, row: Row) -> None:
        self.index = index
        self.record = record
        columns = index.columns
        self.values = "-".join("NULL" if row[at] is None else as_text(row[at]) for at in columns)
        super().__init__(self.values)

    def error(self) -> SqlError:
        """Return the error that a client gets."""
        return SqlError(DUPLICATE, self.values, self.index.name)


class RowWriter:
    """Changes rows in one transaction. Each method may wait for locks, and raise SqlError."""

    def __init__(self, all_trx: Transactions, trx: Transaction) -> None:
        self._all = all_trx
        self.trx = trx

    def insert(self, table: SqlTable, row: Row, check: Mode) -> Step:
        """Insert a row, or raise Duplicate after locking the existing row in mode ``check``."""
        self._all.use(self.trx, table)
        mark, log_mark = len(self.trx.undo), len(self.trx.log)
        try:
            table.store_auto(row)  # also if the row then has to wait
            record: RowRecord = yield from self._insert_record(table, row, check)
            for index in table.indexes[1:]:
                yield from self._insert_entry(index, row, record, check)
        except (Duplicate, SqlError):
            self._all.rollback_to(self.trx, mark, log_mark)
            raise
        self.trx.log.append([table.name, "insert", record.key, row])

    def _insert_record(self, table: SqlTable, row: Row, check: Mode) -> Generator[Wait, None, RowRecord]:
        index, trx = table.clustered, self.trx
        key = table.new_key(row)
        while True:
            record: RowRecord | None = index.entries.get(key)
            if record is None:
                if (yield from trx.acquire(index, index.after(key), "X", locks.INSERT_INTENTION)):
                    continue
                record = RowRecord(key, [])
                self._place(index, key, record)
                record.versions.insert(0, Version(trx.number, row))
                trx.undo.append(("record", table, index, record))
                return record
            if (yield from trx.acquire(index, key, check, locks.REC)):
                continue
            if not record.deleted:
                raise Duplicate(index, record, row)
            if (yield from trx.acquire(index, key, "X", locks.REC)):
                continue
            add_version(trx, self._all, table, record, row)
            return record

    def _place(self, index: TableIndex, key: Key, entry: RowRecord | IndexEntry) -> None:
        index.add(key, entry)
        locks.inherit_on_insert(index, key)
        locks.request(self.trx, index, key, "X", locks.REC, implicit=True)

    def _insert_entry(self, index: TableIndex, row: Row, record: RowRecord, check: Mode) -> Step:
        trx = self.trx
        key = index.key(row, record.key)
        while True:
            if index.unique and (yield from self._check_unique(index, row, check)):
                continue
            entry: IndexEntry | None = index.entries.get(key)
            if entry is None:
                if (yield from trx.acquire(index, index.after(key), "X", locks.INSERT_INTENTION)):
                    continue
                self._place(index, key, IndexEntry(record, trx.number))
            else:
                if (yield from trx.acquire(index, key, "X", locks.REC, implicit=True)):
                    continue
                entry.deleted, entry.writer, entry.record = False, trx.number, record
            trx.undo.append(("entry", index.table, index, (key, entry is not None)))
            return

    def _check_unique(self, index: TableIndex, row: Row, check: Mode) -> Generator[Wait, None, bool]:
        """Raise Duplicate if another row has this key; return True if that took a wait, so that it must be repeated.

        Gaps are locked at READ COMMITTED, too: of two transactions that insert the same key, one must see the other.
        """
        prefix = index.prefix(row)
        key = index.at_least(prefix)
        if (0,) in prefix or key[: len(prefix)] != prefix:
            return False
        while True:
            if (yield from self.trx.acquire(index, key, check, locks.NEXT_KEY)):
                return True
            if key[: len(prefix)] != prefix:
                return False
            entry = index.entries[key]
            if not entry.deleted:
                raise Duplicate(index, entry.record, row)
            key = index.after(key)

    def lock(self, table: SqlTable, record: RowRecord) -> Step:
        """Lock the clustered record of a row whose entry in another index is locked."""
        yield from self.trx.acquire(table.clustered, record.key, "X", locks.REC)

    def delete(self, table: SqlTable, record: RowRecord) -> Step:
        """Mark a row as deleted; the transaction must have locked it."""
        self._all.use(self.trx, table)
        row = record.versions[0].row
        assert row is not None
        add_version(self.trx, self._all, table, record, None)
        for index in table.indexes[1:]:
            yield from self._mark(index, index.key(row, record.key))
        self.trx.log.append([table.name, "delete", record.key, None])

    def _mark(self, index: TableIndex, key: Key) -> Step:
        while (yield from self.trx.acquire(index, key, "X", locks.REC, implicit=True)):
            """A wait may have changed the entry: try again."""
        entry: IndexEntry = index.entries[key]
        entry.deleted, entry.writer = True, self.trx.number
        self.trx.undo.append(("mark", index.table, index, key))
        self._all.note_deleted(index, key)

    def update(self, table: SqlTable, record: RowRecord, row: Row) -> Step:
        """Replace the values of a row; the transaction must have locked it. Raises Duplicate."""
        self._all.use(self.trx, table)
        mark, log_mark = len(self.trx.undo), len(self.trx.log)
        old = record.versions[0].row
        assert old is not None
        try:
            if table.clustered.columns and table.clustered.prefix(row) != record.key:
                yield from self.delete(table, record)
                yield from self.insert(table, row, "S")
                return
            add_version(self.trx, self._all, table, record, row)
            for index in table.indexes[1:]:
                if any(old[at] != row[at] for at in index.columns):
                    yield from self._mark(index, index.key(old, record.key))
                    yield from self._insert_entry(index, row, record, "S")
        except (Duplicate, SqlError):
            self._all.rollback_to(self.trx, mark, log_mark)
            raise
        self.trx.log.append([table.name, "update", record.key, row])
