"""Reading rows along a path: consistent reads, which see a snapshot and lock nothing, and locking reads, which see the
newest rows and lock what they come across.

Source: https://dev.mysql.com/doc/refman/8.0/en/innodb-locks-set.html. At REPEATABLE READ a search of the whole primary
key locks the record alone (or the gap where it is missing), any other search locks each record it reads and the gap
before it, and the one it ends at. MariaDB 10.11 locks the gap before a record found by another unique index too. At
READ COMMITTED gaps are left alone, and rows that do not match are unlocked again (in MariaDB only if they were found by
the primary key, or by reading all).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from harness.sim.servers.mysql import locks
from harness.sim.servers.mysql.locks import Kind, Mode, Wait
from harness.sim.servers.mysql.paths import Path
from harness.sim.servers.mysql.storage import SUPREMUM, Index, Key, Record, Row, Table, View
from harness.sim.servers.mysql.transactions import Skipped, Transaction

Test = Callable[[Row], bool]
Visit = Callable[[Record], Generator[Wait, None, bool]]
"""Given each row that matches; True: enough."""


def seen(path: Path, view: View) -> Iterator[Row]:
    """The rows that a consistent read finds on a path, in the index's order."""
    done: dict[Key, None] = {}
    for key in _keys(path):
        record = path.index.entries[key].record
        row = view.row(record)
        if row is not None and path.index.key(row, record.key) == key and record.key not in done:
            done[record.key] = None
            yield row


def _keys(path: Path) -> Iterator[Key]:
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
    """A locking read of one transaction over one table. ``semi``: at READ COMMITTED a locked row whose committed
    version does not match is passed by without waiting (UPDATE does so, unless it never waits). ``keeps``: a row that
    was locked and does not match stays locked all the same (SELECT of a whole primary key)."""

    trx: Transaction
    table: Table
    mode: Mode
    test: Test
    visit: Visit
    semi: bool = False
    keeps: bool = False

    def run(self, path: Path) -> Generator[Wait, None, None]:
        if path.points is None:
            yield from self._range(path)
            return
        for point in path.points:
            if (yield from self._point(path, point)):
                return

    def _gaps(self, kind: Kind) -> Kind | None:
        """The lock that the isolation level makes of this one."""
        if not self.trx.read_committed:
            return kind
        return None if kind is locks.GAP else locks.REC

    def _lock(self, index: Index, key: Key, kind: Kind) -> Generator[Wait, None, bool]:
        """True: look again."""
        wanted = self._gaps(kind)
        if wanted is None or (key == SUPREMUM and self.trx.read_committed):
            return False
        return bool((yield from self.trx.acquire(index, key, self.mode, wanted)))

    def _end(self, index: Index, key: Key, kind: Kind) -> Generator[Wait, None, bool]:
        """Lock where the search ends; True: look again."""
        try:
            return (yield from self._lock(index, key, kind))
        except Skipped:
            return False

    def _point(self, path: Path, point: Key) -> Generator[Wait, None, bool]:
        index, position, passed = path.index, point, False
        mark = len(self.trx.locks)
        while True:
            key = index.after(position) if passed else index.at_least(position)
            entry = index.entries.get(key)
            if entry is None or key[: len(point)] != point:
                if (yield from self._end(index, key, locks.GAP)):
                    continue
                return False
            live = not entry.deleted
            kind = locks.REC if path.unique and index.clustered else locks.NEXT
            stop = yield from self._entry(index, key, kind, mark, semi=False)
            if stop is None:
                position, passed = key, False
                continue
            if stop or (path.unique and (index.clustered or live)):
                return stop
            position, passed, mark = key, True, len(self.trx.locks)

    def _range(self, path: Path) -> Generator[Wait, None, None]:
        index = path.index
        position, passed = path.low or (), False
        mark = len(self.trx.locks)
        while True:
            key = index.after(position) if passed else index.at_least(position)
            while key != SUPREMUM and not path.begins(key):
                key = index.after(key)
            if key == SUPREMUM or (not path.inside(key) and not index.entries[key].deleted):
                if (yield from self._end(index, key, locks.NEXT)):
                    position, passed = key, False  # where it was: what has come in behind it is not met
                    continue
                self._let_go(index, mark)
                return
            exact = index.clustered and not passed and not path.low_open and key == path.low
            stop = yield from self._entry(index, key, locks.REC if exact else locks.NEXT, mark, semi=self.semi)
            if stop is None:
                position, passed = key, False
                continue
            if stop:
                return
            position, passed, mark = key, True, len(self.trx.locks)

    def _entry(
        self, index: Index, key: Key, kind: Kind, mark: int, *, semi: bool
    ) -> Generator[Wait, None, bool | None]:
        """Lock one entry, and visit its row if it matches; None: it took a wait, look again."""
        trx = self.trx
        if trx.read_committed and self._long_gone(index, key):
            return False
        if semi and trx.read_committed and trx.lock_wait_ns and not self._worth_waiting(index, key):
            return False
        try:
            if (yield from self._lock(index, key, kind)):
                return None
            entry = index.entries.get(key)
            if entry is None:
                return None
            if entry.deleted:
                self._let_go(index, mark)
                return False
            record: Record = entry.record
            if not index.clustered and (yield from trx.acquire(self.table.clustered, record.key, self.mode, locks.REC)):
                return None
        except Skipped:
            return False
        row = record.versions[0].row
        if row is None or not self.test(row):
            self._let_go(index, mark)
            return False
        return bool((yield from self.visit(record)))

    def _let_go(self, index: Index, mark: int) -> None:
        if self.trx.read_committed and index.clustered and not self.keeps:
            for lock in self.trx.locks[mark:]:
                locks.drop(lock)

    def _long_gone(self, index: Index, key: Key) -> bool:
        """Is an entry marked deleted by a transaction that has ended?"""
        entry = index.entries[key]
        return entry.deleted and entry.writer not in {lock.trx.number for lock in index.locks.get(key, ())}

    def _worth_waiting(self, index: Index, key: Key) -> bool:
        """Is the record free, or does it match as it was last committed?"""
        if locks.blocker(self.trx, index, key, self.mode, locks.REC) is None:
            return True
        record: Record = index.entries[key].record
        others = {lock.trx.number for lock in index.locks.get(key, ()) if lock.trx is not self.trx}
        committed = next((version.row for version in record.versions if version.trx not in others), None)
        return committed is not None and self.test(committed)
