"""InnoDB's row locks: record, gap, next-key and insert intention locks, their queues, and deadlock detection.

Source: https://dev.mysql.com/doc/refman/8.0/en/innodb-locking.html, including the compatibility rules there. Each index
record has a queue of locks. Abstracted: table intention locks (there are no table locks to conflict with), predicate
locks. Deadlocks are searched along all edges of the wait-for graph at each new wait; InnoDB follows one edge per
transaction and may detect some deadlocks later. InnoDB's choice of the victim is reproduced roughly.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, Protocol

from harness.sim.servers.waits import Wait, WaitOutcome

from .storage import SUPREMUM, Key, TableIndex

Mode = Literal["S", "X"]


class LockKind(Enum):
    """Part of an index that a row lock covers."""

    REC = "record, not the gap before it"
    GAP = "gap before a record"
    NEXT_KEY = "next-key: a record and the gap before it"
    INSERT_INTENTION = "insert intention"


REC, GAP, NEXT_KEY, INSERT_INTENTION = LockKind.REC, LockKind.GAP, LockKind.NEXT_KEY, LockKind.INSERT_INTENTION


class LockOwner(Protocol):
    """A transaction, as the owner of row locks."""

    lock_wait_ns: int
    locks: list[RecordLock]
    waiting: RecordLock | None
    undo: list[Any]

    @property
    def read_committed(self) -> bool: ...


class RecordLock:
    """One transaction's lock on one index record; ``wait`` is None once it is granted.

    An ``implicit`` lock is only expressed by the transaction number in the record, until another transaction meets it.
    """

    __slots__ = ("implicit", "index", "key", "kind", "mode", "trx", "wait")

    def __init__(
        self, trx: LockOwner, index: TableIndex, key: Key, mode: Mode, kind: LockKind, *, implicit: bool
    ) -> None:
        self.trx = trx
        self.index = index
        self.key = key
        self.mode = mode
        self.kind = kind
        self.implicit = implicit
        self.wait: Wait | None = None

    def must_wait_for(self, other: RecordLock) -> bool:
        """Return whether this lock conflicts with ``other``, which comes before it in the queue."""
        if other.trx is self.trx or (self.mode == "S" and other.mode == "S"):
            return False
        if self.kind is INSERT_INTENTION:
            return other.kind in (GAP, NEXT_KEY)
        if self.kind is GAP or self.key == SUPREMUM:
            return False
        return other.kind in (REC, NEXT_KEY)

    def covers(self, mode: Mode, kind: LockKind) -> bool:
        """Return whether the owner of this lock needs no further lock of that mode and kind."""
        if self.wait is not None or self.kind is INSERT_INTENTION or (mode == "X" and self.mode == "S"):
            return False
        return self.kind is kind or self.kind is NEXT_KEY or self.key == SUPREMUM


def is_held(trx: LockOwner, index: TableIndex, key: Key, mode: Mode, kind: LockKind) -> bool:
    """Return whether a transaction holds a lock on the record that covers that mode and kind."""
    return any(lock.trx is trx and lock.covers(mode, kind) for lock in index.locks.get(key, ()))


def blocker(trx: LockOwner, index: TableIndex, key: Key, mode: Mode, kind: LockKind) -> RecordLock | None:
    """Return the first lock that a new request would have to wait for, None if it would be granted."""
    wanted = RecordLock(trx, index, key, mode, kind, implicit=False)
    return next((lock for lock in _ahead(wanted, index.locks.get(key, [])) if wanted.must_wait_for(lock)), None)


def request(
    trx: LockOwner, index: TableIndex, key: Key, mode: Mode, kind: LockKind, *, implicit: bool = False
) -> RecordLock | None:
    """Acquire a lock, or queue for it and return the lock; its ``wait`` then ends when it is granted."""
    if kind is not INSERT_INTENTION and is_held(trx, index, key, mode, kind):
        return None
    queue: list[RecordLock] = index.locks.setdefault(key, [])
    lock = RecordLock(trx, index, key, mode, kind, implicit=implicit)
    for other in queue:
        if other.trx is not trx:
            other.implicit = False
    if not any(map(lock.must_wait_for, _ahead(lock, queue))):
        if kind is not INSERT_INTENTION:  # no lock waits for an insert intention, so a granted one is not recorded
            first = next((at for at, other in enumerate(queue) if other.wait is not None), len(queue))
            queue.insert(first, lock)
            trx.locks.append(lock)
        elif not queue:
            del index.locks[key]
        return None
    lock.implicit = False
    lock.wait = Wait(trx.lock_wait_ns, lambda: drop(lock))
    queue.append(lock)
    trx.locks.append(lock)
    trx.waiting = lock
    return lock


def _ahead(wanted: RecordLock, queue: list[RecordLock]) -> list[RecordLock]:
    """Return the locks of a queue that a request comes after.

    A transaction that holds the record exclusively and now requests the gap, too, passes all waiting locks.
    """
    for lock in queue if wanted.kind is not INSERT_INTENTION else ():
        if lock.trx is wanted.trx and lock.wait is None and lock.kind in (REC, NEXT_KEY) and lock.mode == "X":
            return [lock for lock in queue if lock.wait is None]
    return queue


def drop(lock: RecordLock) -> None:
    """Release one lock, and grant the locks that waited only for it."""
    queue = lock.index.locks.get(lock.key)
    if queue is None or lock not in queue:
        return
    queue.remove(lock)
    if lock in lock.trx.locks:
        lock.trx.locks.remove(lock)
    if lock.trx.waiting is lock:
        lock.trx.waiting = None
    _grant(lock.index, lock.key)


def release_all(trx: LockOwner) -> None:
    """Release all locks of a transaction that ends, and only then grant locks that waited for them."""
    places: dict[tuple[int, Key], tuple[TableIndex, Key]] = {}
    for lock in trx.locks:
        queue = lock.index.locks.get(lock.key)
        if queue is not None and lock in queue:
            queue.remove(lock)
            places[(id(lock.index), lock.key)] = (lock.index, lock.key)
    trx.locks.clear()
    trx.waiting = None
    for index, key in places.values():
        _grant(index, key)


def _grant(index: TableIndex, key: Key) -> None:
    queue: list[RecordLock] = index.locks.get(key, [])
    for at, lock in enumerate(list(queue)):
        if lock.wait is not None and not any(map(lock.must_wait_for, _ahead(lock, queue[:at]))):
            _end_wait(lock)
    if not queue:
        index.locks.pop(key, None)


def _end_wait(lock: RecordLock) -> None:
    wait, lock.wait = lock.wait, None
    lock.trx.waiting = None
    if wait is not None:
        wait.end(WaitOutcome.GRANTED)


def inherit_on_insert(index: TableIndex, key: Key) -> None:
    """After a record was inserted into a gap, extend locks on the gap to both parts of it."""
    for lock in list(index.locks.get(index.after(key), ())):
        if lock.wait is None and lock.kind is not INSERT_INTENTION and (lock.kind is not REC or lock.key == SUPREMUM):
            _add(lock, index, key)


def inherit_on_remove(index: TableIndex, key: Key) -> None:
    """After a record was removed, turn locks on it into locks on the enlarged gap, and end the waits for it."""
    heir = index.after(key)
    for lock in index.locks.pop(key, []):
        lock.trx.locks.remove(lock)
        if (
            lock.kind is not INSERT_INTENTION
            and not lock.implicit
            and not (lock.trx.read_committed and lock.mode == "X")
        ):
            _add(lock, index, heir)
        if lock.wait is not None:
            _end_wait(lock)


def _add(lock: RecordLock, index: TableIndex, key: Key) -> None:
    if not is_held(lock.trx, index, key, lock.mode, GAP):
        made = RecordLock(lock.trx, index, key, lock.mode, GAP, implicit=False)
        index.locks.setdefault(key, []).append(made)
        lock.trx.locks.append(made)


# Deadlocks.


def _waits_for(trx: LockOwner) -> list[LockOwner]:
    lock = trx.waiting
    if lock is None:
        return []
    queue: list[RecordLock] = lock.index.locks[lock.key]
    ahead = _ahead(lock, queue[: queue.index(lock)])
    return [other.trx for other in ahead if lock.must_wait_for(other)]


def _find_cycle(start: LockOwner) -> list[LockOwner]:
    """Return the transactions of a cycle of waits through ``start``, or an empty list."""
    seen: dict[LockOwner, None] = {}

    def search(trx: LockOwner, path: list[LockOwner]) -> list[LockOwner]:
        for other in _waits_for(trx):
            if other is start:
                return path
            if other not in seen:
                seen[other] = None
                found = search(other, [*path, other])
                if found:
                    return found
        return []

    return search(start, [start])


def _rollback_cost(trx: LockOwner) -> int:
    """Return the cost of rolling a transaction back: the number of its changes plus that of its lock structs.

    InnoDB has one lock struct per page and kind of lock (here each index counts as one page), and one per table and
    mode.
    """
    structs: set[tuple[object, ...]] = set()
    tables: dict[str, set[Mode]] = {}
    for lock in trx.locks:
        modes = tables.setdefault(lock.index.table.name, set())
        if "X" not in modes:
            modes.add(lock.mode)
        if not lock.implicit:
            kind = NEXT_KEY if lock.key == SUPREMUM and lock.kind is not INSERT_INTENTION else lock.kind
            structs.add((lock.index.name, lock.index.table.name, lock.mode, kind, lock.wait is None))
    return len(trx.undo) + len(structs) + sum(map(len, tables.values()))


def victim(current: LockOwner) -> LockOwner | None:
    """Return the transaction to roll back if the new wait of ``current`` has closed a cycle; None otherwise."""
    ring = _find_cycle(current)
    if not ring:
        return None
    return min(ring, key=lambda trx: (_rollback_cost(trx), trx is not current))
