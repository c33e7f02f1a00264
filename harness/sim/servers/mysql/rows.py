"""Changing rows: what is locked and checked, index by index, when a row comes, changes or goes.

Source: https://dev.mysql.com/doc/refman/8.0/en/innodb-locks-set.html. An INSERT goes into the clustered index first and
then into the others in the order of their declaration; a duplicate in one of them takes back the whole row.
"""

from __future__ import annotations

from collections.abc import Generator

from harness.sim.servers.mysql import locks
from harness.sim.servers.mysql.errors import DUPLICATE, SqlError
from harness.sim.servers.mysql.locks import Mode, Wait
from harness.sim.servers.mysql.storage import Entry, Index, Key, Record, Row, Table, Version
from harness.sim.servers.mysql.transactions import Transaction, Transactions, put
from harness.sim.servers.mysql.values import as_text

Step = Generator[Wait, None, None]


class Duplicate(Exception):
    """A row is there already that has the same key in a unique index."""

    def __init__(self, index: Index, record: Record, row: Row) -> None:
        self.index = index
        self.record = record
        columns = index.columns
        self.values = "-".join("NULL" if row[at] is None else as_text(row[at]) for at in columns)
        super().__init__(self.values)

    def error(self) -> SqlError:
        return SqlError(DUPLICATE, self.values, self.index.name)


class Rows:
    """Changes rows in the name of one transaction; each method may wait for locks."""

    def __init__(self, all_trx: Transactions, trx: Transaction) -> None:
        self._all = all_trx
        self.trx = trx

    def insert(self, table: Table, row: Row, check: Mode) -> Step:
        """Add a row, or raise Duplicate with the other one locked in mode ``check``."""
        self._all.use(self.trx, table)
        mark, log_mark = len(self.trx.undo), len(self.trx.log)
        try:
            record: Record = yield from self._insert_record(table, row, check)
            for index in table.indexes[1:]:
                yield from self._insert_entry(index, row, record, check)
        except (Duplicate, SqlError):
            self._all.rollback_to(self.trx, mark, log_mark)
            raise
        self.trx.log.append([table.name, "insert", record.key, row])

    def _insert_record(self, table: Table, row: Row, check: Mode) -> Generator[Wait, None, Record]:
        index, trx = table.clustered, self.trx
        key = table.new_key(row)
        while True:
            record: Record | None = index.entries.get(key)
            if record is None:
                if (yield from trx.acquire(index, index.after(key), "X", locks.INTENT)):
                    continue
                record = Record(key, [])
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
            put(trx, self._all, table, record, row)
            return record

    def _place(self, index: Index, key: Key, entry: Record | Entry) -> None:
        index.add(key, entry)
        locks.inherit_on_insert(index, key)
        locks.request(self.trx, index, key, "X", locks.REC, implicit=True)

    def _insert_entry(self, index: Index, row: Row, record: Record, check: Mode) -> Step:
        trx = self.trx
        key = index.key(row, record.key)
        while True:
            if index.unique and (yield from self._check_unique(index, row, check)):
                continue
            entry: Entry | None = index.entries.get(key)
            if entry is None:
                if (yield from trx.acquire(index, index.after(key), "X", locks.INTENT)):
                    continue
                self._place(index, key, Entry(record, trx.number))
            else:
                if (yield from trx.acquire(index, key, "X", locks.REC, implicit=True)):
                    continue
                entry.deleted, entry.writer, entry.record = False, trx.number, record
            trx.undo.append(("entry", index.table, index, (key, entry is not None)))
            return

    def _check_unique(self, index: Index, row: Row, check: Mode) -> Generator[Wait, None, bool]:
        """Look for another row with this key; True if that took a wait and has to be done again.

        Gaps are locked at READ COMMITTED too: of two transactions that insert the same key, one has to see the other.
        """
        prefix = index.prefix(row)
        key = index.at_least(prefix)
        if (0,) in prefix or key[: len(prefix)] != prefix:
            return False
        while True:
            if (yield from self.trx.acquire(index, key, check, locks.NEXT)):
                return True
            if key[: len(prefix)] != prefix:
                return False
            entry = index.entries[key]
            if not entry.deleted:
                raise Duplicate(index, entry.record, row)
            key = index.after(key)

    def lock(self, table: Table, record: Record) -> Step:
        """Lock a row whose entry in another index is locked."""
        yield from self.trx.acquire(table.clustered, record.key, "X", locks.REC)

    def delete(self, table: Table, record: Record) -> Step:
        """Mark a row deleted, which the transaction has locked."""
        self._all.use(self.trx, table)
        row = record.versions[0].row
        assert row is not None
        put(self.trx, self._all, table, record, None)
        for index in table.indexes[1:]:
            yield from self._mark(index, index.key(row, record.key))
        self.trx.log.append([table.name, "delete", record.key, None])

    def _mark(self, index: Index, key: Key) -> Step:
        while (yield from self.trx.acquire(index, key, "X", locks.REC, implicit=True)):
            """Look again."""
        entry: Entry = index.entries[key]
        entry.deleted, entry.writer = True, self.trx.number
        self.trx.undo.append(("mark", index.table, index, key))
        self._all.ghost(index, key)

    def update(self, table: Table, record: Record, row: Row) -> Step:
        """Give a row, which the transaction has locked, other values; may raise Duplicate."""
        self._all.use(self.trx, table)
        mark, log_mark = len(self.trx.undo), len(self.trx.log)
        old = record.versions[0].row
        assert old is not None
        try:
            if table.clustered.columns and table.clustered.prefix(row) != record.key:
                yield from self.delete(table, record)
                yield from self.insert(table, row, "S")
                return
            put(self.trx, self._all, table, record, row)
            for index in table.indexes[1:]:
                if any(old[at] != row[at] for at in index.columns):
                    yield from self._mark(index, index.key(old, record.key))
                    yield from self._insert_entry(index, row, record, "S")
        except (Duplicate, SqlError):
            self._all.rollback_to(self.trx, mark, log_mark)
            raise
        self.trx.log.append([table.name, "update", record.key, row])
