"""Reads rows along an access path: consistent reads of a snapshot without locks, and locking reads of the newest rows.

Source: https://dev.mysql.com/doc/refman/8.0/en/innodb-locks-set.html. At REPEATABLE READ a search by the whole primary
key locks only the record (or the gap if it does not exist); any other search locks each record that it reads with the
gap before it, and the record at which it ends. MariaDB 10.11 also locks the gap before a record found by another unique
index. At READ COMMITTED gaps are not locked, and rows that do not match are unlocked again (in MariaDB only if they
were found by the primary key or by a full scan).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from harness.sim.servers.waits import Wait

from . import locks
from .locks import LockKind, Mode
from .paths import AccessPath
from .storage import SUPREMUM, Key, ReadView, Row, RowRecord, SqlTable, TableIndex
from .transactions import LockSkipped, Transaction

Test = Callable[[Row], bool]
Visit = Callable[[RowRecord], Generator[Wait, None, bool]]
"""Called for each row that matches; returns True to end the read."""


def consistent_read(path: AccessPath, view: ReadView) -> Iterator[Row]:
    """Yield the rows that a consistent read finds on a path, in the order of the index."""
    done: dict[Key, None] = {}
    for key in _keys(path):
        record = path.index.entries[key].record
        row = view.row(record)
        if row is not None and path.index.key(row, record.key) == key and record.key not in done:
            done[record.key] = None
            yield row


def _keys(path: AccessPath) -> Iterator[Key]:
    if path.points is not None:
        for point in path.points:
            yield from path.index.with_prefix(point)
        return
    for key in path.index.keys:
        if not path.inside(key):
            return
        if path.begins(key):
            yield key


@dataclass(slots=True)
class LockingRead:
    """A locking read of one transaction over one table.

    ``semi_consistent``: at READ COMMITTED a locked row whose committed version does not match is skipped without
    waiting, as UPDATE does unless the lock wait time-out is 0. ``keeps_locks``: rows that were locked and do not match
    stay locked, as for a SELECT by the whole primary key.
    """

    trx: Transaction
    table: SqlTable
    mode: Mode
    test: Test
    visit: Visit
    semi_consistent: bool = False
    keeps_locks: bool = False

    def run(self, path: AccessPath) -> Generator[Wait, None, None]:
        """Lock the rows of a path and visit those that match. Raises SqlError."""
        if path.points is None:
            yield from self._range(path)
            return
        for point in path.points:
            if (yield from self._point(path, point)):
                return

    def _effective_kind(self, kind: LockKind) -> LockKind | None:
        """Return the lock that is taken at the transaction's isolation level, None if none is."""
        if not self.trx.read_committed:
            return kind
        return None if kind is locks.GAP else locks.REC

    def _acquire(self, index: TableIndex, key: Key, kind: LockKind) -> Generator[Wait, None, bool]:
        """Lock an entry; True if that took a wait, so that the entry must be looked up again."""
        wanted = self._effective_kind(kind)
        if wanted is None or (key == SUPREMUM and self.trx.read_committed):
            return False
        return bool((yield from self.trx.acquire(index, key, self.mode, wanted)))

    def _lock_end(self, index: TableIndex, key: Key, kind: LockKind) -> Generator[Wait, None, bool]:
        """Lock the entry at which the search ends; True if that took a wait, so that it must be repeated."""
        try:
            return (yield from self._acquire(index, key, kind))
        except LockSkipped:
            return False

    def _point(self, path: AccessPath, point: Key) -> Generator[Wait, None, bool]:
        index, position, passed = path.index, point, False
        mark = len(self.trx.locks)
        while True:
            key = index.after(position) if passed else index.at_least(position)
            entry = index.entries.get(key)
            if entry is None or key[: len(point)] != point:
                if (yield from self._lock_end(index, key, locks.GAP)):
                    continue
                return False
            live = not entry.deleted
            kind = locks.REC if path.unique and index.clustered else locks.NEXT_KEY
            stop = yield from self._visit_entry(index, key, kind, mark, semi_consistent=False)
            if stop is None:
                position, passed = key, False
                continue
            if stop or (path.unique and (index.clustered or live)):
                return stop
            position, passed, mark = key, True, len(self.trx.locks)

    def _range(self, path: AccessPath) -> Generator[Wait, None, None]:
        index = path.index
        position, passed = path.low or (), False
        mark = len(self.trx.locks)
        while True:
            key = index.after(position) if passed else index.at_least(position)
            while key != SUPREMUM and not path.begins(key):
                key = index.after(key)
            if key == SUPREMUM or (not path.inside(key) and not index.entries[key].deleted):
                if (yield from self._lock_end(index, key, locks.NEXT_KEY)):
                    position, passed = key, False  # continue here; rows inserted before it meanwhile are not read
                    continue
                self._unlock_non_matching(index, mark)
                return
            exact = index.clustered and not passed and not path.low_open and key == path.low
            stop = yield from self._visit_entry(
                index, key, locks.REC if exact else locks.NEXT_KEY, mark, semi_consistent=self.semi_consistent
            )
            if stop is None:
                position, passed = key, False
                continue
            if stop:
                return
            position, passed, mark = key, True, len(self.trx.locks)

    def _visit_entry(
        self, index: TableIndex, key: Key, kind: LockKind, mark: int, *, semi_consistent: bool
    ) -> Generator[Wait, None, bool | None]:
        """Lock one entry and visit its row if it matches. Returns whether to end the read, or None if it took a wait,
        so that the entry must be looked up again."""
        trx = self.trx
        if trx.read_committed and self._is_deleted_by_ended(index, key):
            return False
        if semi_consistent and trx.read_committed and trx.lock_wait_ns and not self._worth_waiting(index, key):
            return False
        try:
            if (yield from self._acquire(index, key, kind)):
                return None
            entry = index.entries.get(key)
            if entry is None:
                return None
            if entry.deleted:
                self._unlock_non_matching(index, mark)
                return False
            record: RowRecord = entry.record
            if not index.clustered and (yield from trx.acquire(self.table.clustered, record.key, self.mode, locks.REC)):
                return None
        except LockSkipped:
            return False
        row = record.versions[0].row
        if row is None or not self.test(row):
            self._unlock_non_matching(index, mark)
            return False
        return bool((yield from self.visit(record)))

    def _unlock_non_matching(self, index: TableIndex, mark: int) -> None:
        if self.trx.read_committed and index.clustered and not self.keeps_locks:
            for lock in self.trx.locks[mark:]:
                locks.drop(lock)

    def _is_deleted_by_ended(self, index: TableIndex, key: Key) -> bool:
        """Return whether an entry was marked as deleted by a transaction that has ended."""
        entry = index.entries[key]
        return entry.deleted and entry.writer not in {lock.trx.number for lock in index.locks.get(key, ())}

    def _worth_waiting(self, index: TableIndex, key: Key) -> bool:
        """Return whether the record is free, or its last committed version matches."""
        if locks.blocker(self.trx, index, key, self.mode, locks.REC) is None:
            return True
        record: RowRecord = index.entries[key].record
        others = {lock.trx.number for lock in index.locks.get(key, ()) if lock.trx is not self.trx}
        committed = next((version.row for version in record.versions if version.trx not in others), None)
        return committed is not None and self.test(committed)
