"""Transactions: what they have changed, their read view and their locks; how they end; purge.

Isolation levels REPEATABLE READ and READ COMMITTED differ as in
https://dev.mysql.com/doc/refman/8.0/en/innodb-transaction-isolation-levels.html.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, Literal

from harness.sim.servers.mysql import locks
from harness.sim.servers.mysql.errors import DEADLOCK, INTERRUPTED, LOCK_WAIT_TIMEOUT, SqlError
from harness.sim.servers.mysql.locks import Kind, Lock, Mode, Outcome, Wait
from harness.sim.servers.mysql.storage import Index, Key, Record, Row, Table, Version, View

Waits = Generator[Wait, None, Any]
Level = Literal["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
_FAILED: Final = {
    Outcome.TIMEOUT: LOCK_WAIT_TIMEOUT,
    Outcome.DEADLOCK: DEADLOCK,
    Outcome.KILLED: INTERRUPTED,
}


class Skipped(Exception):
    """A record is locked, and the statement wants to skip such ones."""


class Transaction:
    """``undo`` is what takes its changes back, newest last; ``log`` what replicas are to do, in order."""

    def __init__(self, number: int, level: Level, lock_wait_ns: int) -> None:
        self.number = number
        self.level = level
        self.lock_wait_ns: int = lock_wait_ns
        self.policy: Literal["wait", "nowait", "skip"] = "wait"
        self.undo: list[tuple[str, Table, Index | None, Any]] = []
        self.log: list[list[Any]] = []
        self.locks: list[Lock] = []
        self.waiting: Lock | None = None
        self.view: View | None = None
        self.tables: dict[Table, None] = {}
        self.unlocked = False
        """It neither takes nor heeds locks: a replica's, which repeats what has been decided."""
        self.prepared = False
        """In the log already: a crash does not take it back."""

    @property
    def read_committed(self) -> bool:
        return self.level in ("READ COMMITTED", "READ UNCOMMITTED")

    def acquire(self, index: Index, key: Key, mode: Mode, kind: Kind, *, implicit: bool = False) -> Waits:
        """Lock; True if that took a wait, after which the record may be another or none."""
        if self.unlocked:
            return False
        if self.policy != "wait" and kind is not locks.INTENT and not locks.held(self, index, key, mode, kind):
            other = locks.blocker(self, index, key, mode, kind)
            if other is not None:
                if self.policy == "skip":
                    raise Skipped
                raise SqlError(LOCK_WAIT_TIMEOUT)
        lock = locks.request(self, index, key, mode, kind, implicit=implicit)
        if lock is None:
            return False
        wait = lock.wait
        assert wait is not None
        chosen = locks.victim(self)
        if chosen is not None and chosen.waiting is not None and chosen.waiting.wait is not None:
            chosen.waiting.wait.end(Outcome.DEADLOCK)
        if wait.ended is None:
            yield wait
        if wait.ended is not None and wait.ended is not Outcome.GRANTED:
            raise SqlError(_FAILED[wait.ended])
        return True


class Transactions:
    """All transactions of a server, and the rows nobody needs any more."""

    def __init__(self) -> None:
        self.active: dict[int, Transaction] = {}
        self._next = 1
        self._views = 0
        self._ghosts: dict[tuple[str, str, Key], tuple[Index, Key]] = {}
        self._touched: dict[Record, None] = {}

    def begin(self, level: Level, lock_wait_ns: int) -> Transaction:
        trx = Transaction(self._next, level, lock_wait_ns)
        self._next += 1
        self.active[trx.number] = trx
        return trx

    def new_view(self, own: int) -> View:
        return View(own, self._next, frozenset(number for number in self.active if number != own))

    def view(self, trx: Transaction) -> View:
        """What a consistent read of the transaction sees."""
        if trx.level == "READ UNCOMMITTED":
            return View(trx.number, 1 << 62, frozenset())
        if trx.read_committed:
            return self.new_view(trx.number)
        if trx.view is None:
            trx.view = self.new_view(trx.number)
        return trx.view

    def use(self, trx: Transaction, table: Table) -> None:
        trx.tables[table] = None
        table.users[trx.number] = None

    def ghost(self, index: Index, key: Key) -> None:
        """Something there is marked deleted, or was: to be looked at when nobody can need it."""
        self._ghosts[(index.table.name, index.name, key)] = (index, key)

    def touched(self, record: Record) -> None:
        self._touched[record] = None

    # The end of a transaction, or of a part of it.

    def end(self, trx: Transaction) -> None:
        """Commit: what it did is what there is."""
        self._forget(trx)

    def rollback(self, trx: Transaction) -> None:
        self.rollback_to(trx, 0, 0)
        self._forget(trx)

    def _forget(self, trx: Transaction) -> None:
        self.active.pop(trx.number, None)
        for table in trx.tables:
            table.users.pop(trx.number, None)
        trx.view = None
        locks.release_all(trx)

    def rollback_to(self, trx: Transaction, mark: int, log_mark: int) -> None:
        """Take back all changes after a mark; locks stay."""
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

    def _undo_record(self, record: Record, index: Index | None) -> None:
        assert index is not None
        record.versions.pop(0)
        if not record.versions:
            self._remove(index, record.key)

    def _undo_entry(self, index: Index | None, change: tuple[Key, bool]) -> None:
        assert index is not None
        key, was_there = change
        if was_there:
            index.entries[key].deleted = True
            self.ghost(index, key)
        else:
            self._remove(index, key)

    def _remove(self, index: Index, key: Key) -> None:
        index.remove(key)
        locks.inherit_on_remove(index, key)

    # Purge.

    def purge(self) -> None:
        """Remove what is marked deleted and versions that no view can ask for."""
        if not (self._ghosts or self._touched) or any(trx.view is not None for trx in self.active.values()):
            return
        for place, (index, key) in list(self._ghosts.items()):
            entry = index.entries.get(key)
            if entry is None or not entry.deleted:
                del self._ghosts[place]
            elif entry.writer not in self.active:
                del self._ghosts[place]
                self._remove(index, key)
        for record in list(self._touched):
            if record.versions and record.versions[0].trx not in self.active:
                del record.versions[1:]
                del self._touched[record]


def put(trx: Transaction, all_trx: Transactions, table: Table, record: Record, row: Row | None) -> None:
    """Give a record a newer version."""
    record.versions.insert(0, Version(trx.number, row))
    trx.undo.append(("version", table, None, record))
    all_trx.touched(record)
    if row is None:
        all_trx.ghost(table.clustered, record.key)
