"""Transactions of the simulated MySQL: their changes, read views and locks; commit, rollback and purge.

Isolation levels follow https://dev.mysql.com/doc/refman/8.0/en/innodb-transaction-isolation-levels.html.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, Literal

from harness.sim.servers.waits import Wait, WaitOutcome

from . import locks
from .errors import DEADLOCK, INTERRUPTED, LOCK_WAIT_TIMEOUT, SqlError
from .locks import LockKind, Mode, RecordLock
from .storage import Key, ReadView, Row, RowRecord, SqlTable, TableIndex, Version

Waits = Generator[Wait, None, Any]
Level = Literal["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
_ERRORS: Final = {
    WaitOutcome.TIMEOUT: LOCK_WAIT_TIMEOUT,
    WaitOutcome.DEADLOCK: DEADLOCK,
    WaitOutcome.KILLED: INTERRUPTED,
}


class LockSkipped(Exception):
    """A record is locked, and the statement skips locked records (SKIP LOCKED)."""


class Transaction:
    """An open transaction. ``undo`` reverts its changes, newest last; ``log`` lists the row changes for replicas."""

    def __init__(self, number: int, level: Level, lock_wait_ns: int) -> None:
        self.number = number
        self.level = level
        self.lock_wait_ns: int = lock_wait_ns
        self.policy: Literal["wait", "nowait", "skip"] = "wait"
        self.undo: list[tuple[str, SqlTable, TableIndex | None, Any]] = []
        self.log: list[list[Any]] = []
        self.locks: list[RecordLock] = []
        self.waiting: RecordLock | None = None
        self.view: ReadView | None = None
        self.tables: dict[SqlTable, None] = {}
        self.unlocked = False
        """True if it ignores locks, because it applies a replicated transaction."""
        self.prepared = False
        """True if it is in the replication log, so that a crash does not undo it."""

    @property
    def read_committed(self) -> bool:
        return self.level in ("READ COMMITTED", "READ UNCOMMITTED")

    def acquire(self, index: TableIndex, key: Key, mode: Mode, kind: LockKind, *, implicit: bool = False) -> Waits:
        """Acquire a lock; True if that took a wait, after which the record may have changed or gone.

        Raises SqlError on a time-out, a deadlock or a kill, LockSkipped according to ``policy``.
        """
        if self.unlocked:
            return False
        if (
            self.policy != "wait"
            and kind is not locks.INSERT_INTENTION
            and not locks.is_held(self, index, key, mode, kind)
        ):
            other = locks.blocker(self, index, key, mode, kind)
            if other is not None:
                if self.policy == "skip":
                    raise LockSkipped
                raise SqlError(LOCK_WAIT_TIMEOUT)
        lock = locks.request(self, index, key, mode, kind, implicit=implicit)
        if lock is None:
            return False
        wait = lock.wait
        assert wait is not None
        chosen = locks.victim(self)
        if chosen is not None and chosen.waiting is not None and chosen.waiting.wait is not None:
            chosen.waiting.wait.end(WaitOutcome.DEADLOCK)
        if wait.ended is None:
            yield wait
        if wait.ended is not None and wait.ended is not WaitOutcome.GRANTED:
            raise SqlError(_ERRORS[wait.ended])
        return True


class Transactions:
    """All open transactions of a server, and the deleted entries and old versions to purge."""

    def __init__(self) -> None:
        self.active: dict[int, Transaction] = {}
        self._next = 1
        self._views = 0
        self._deleted_entries: dict[tuple[str, str, Key], tuple[TableIndex, Key]] = {}
        self._old_versions: dict[RowRecord, None] = {}

    def begin(self, level: Level, lock_wait_ns: int) -> Transaction:
        """Begin a transaction; ``lock_wait_ns`` limits each wait for a lock."""
        trx = Transaction(self._next, level, lock_wait_ns)
        self._next += 1
        self.active[trx.number] = trx
        return trx

    def new_view(self, own: int) -> ReadView:
        """Open a read view of what is committed now, and of transaction number ``own``."""
        return ReadView(own, self._next, frozenset(number for number in self.active if number != own))

    def view(self, trx: Transaction) -> ReadView:
        """Return the read view for a consistent read in the transaction, according to its isolation level."""
        if trx.level == "READ UNCOMMITTED":
            return ReadView(trx.number, 1 << 62, frozenset())
        if trx.read_committed:
            return self.new_view(trx.number)
        if trx.view is None:
            trx.view = self.new_view(trx.number)
        return trx.view

    def use(self, trx: Transaction, table: SqlTable) -> None:
        """Note that a transaction uses a table."""
        trx.tables[table] = None
        table.users[trx.number] = None

    def note_deleted(self, index: TableIndex, key: Key) -> None:
        """Note an entry that is marked as deleted, for a later purge."""
        self._deleted_entries[(index.table.name, index.name, key)] = (index, key)

    def note_version(self, record: RowRecord) -> None:
        """Note a record that has an old version, for a later purge."""
        self._old_versions[record] = None

    # Commit and rollback.

    def end(self, trx: Transaction) -> None:
        """Commit a transaction."""
        self._finish(trx)

    def rollback(self, trx: Transaction) -> None:
        """Undo all changes of a transaction and end it."""
        self.rollback_to(trx, 0, 0)
        self._finish(trx)

    def _finish(self, trx: Transaction) -> None:
        self.active.pop(trx.number, None)
        for table in trx.tables:
            table.users.pop(trx.number, None)
        trx.view = None
        locks.release_all(trx)

    def rollback_to(self, trx: Transaction, mark: int, log_mark: int) -> None:
        """Undo all changes after a position in ``undo`` and ``log``; locks are kept."""
        del trx.log[log_mark:]
        while len(trx.undo) > mark:
            what, _table, index, thing = trx.undo.pop()
            if what == "record":
                self._undo_record(thing, index)
            elif what == "version":
                thing.versions.pop(0)
            elif what == "entry":
                self._undo_entry(index, thing)
            else:
                index.entries[thing].deleted = False  # type: ignore[union-attr]

    def _undo_record(self, record: RowRecord, index: TableIndex | None) -> None:
        assert index is not None
        record.versions.pop(0)
        if not record.versions:
            self._remove(index, record.key)

    def _undo_entry(self, index: TableIndex | None, change: tuple[Key, bool]) -> None:
        assert index is not None
        key, was_there = change
        if was_there:
            index.entries[key].deleted = True
            self.note_deleted(index, key)
        else:
            self._remove(index, key)

    def _remove(self, index: TableIndex, key: Key) -> None:
        index.remove(key)
        locks.inherit_on_remove(index, key)

    # Purge.

    def purge(self) -> None:
        """Remove deleted entries and old versions, as soon as no read view is open."""
        if not (self._deleted_entries or self._old_versions) or any(
            trx.view is not None for trx in self.active.values()
        ):
            return
        for place, (index, key) in list(self._deleted_entries.items()):
            entry = index.entries.get(key)
            if entry is None or not entry.deleted:
                del self._deleted_entries[place]
            elif entry.writer not in self.active:
                del self._deleted_entries[place]
                self._remove(index, key)
        for record in list(self._old_versions):
            if record.versions and record.versions[0].trx not in self.active:
                del record.versions[1:]
                del self._old_versions[record]


def add_version(trx: Transaction, all_trx: Transactions, table: SqlTable, record: RowRecord, row: Row | None) -> None:
    """Add a new version to a record; ``row`` None marks it as deleted."""
    record.versions.insert(0, Version(trx.number, row))
    trx.undo.append(("version", table, None, record))
    all_trx.note_version(record)
    if row is None:
        all_trx.note_deleted(table.clustered, record.key)
