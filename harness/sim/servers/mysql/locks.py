"""Record locks of InnoDB: on a record, on the gap before it, on both (next-key), and the intention to insert.

Source: https://dev.mysql.com/doc/refman/8.0/en/innodb-locking.html and the rules of compatibility there. Locks are
queues per index record. Abstracted: table intention locks (they never meet a table lock here), predicate locks. The
server looks for deadlocks along all edges of the wait-for graph at each new wait; InnoDB follows one edge a transaction
and may notice some later, and its choice of a victim is copied roughly.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, Protocol

from harness.sim.servers.mysql.storage import SUPREMUM, Index, Key

Mode = Literal["S", "X"]


class Kind(Enum):
    REC = "record, not the gap before it"
    GAP = "gap before a record"
    NEXT = "next-key: a record and the gap before it"
    INTENT = "insert intention"


REC, GAP, NEXT, INTENT = Kind.REC, Kind.GAP, Kind.NEXT, Kind.INTENT


class Outcome(Enum):
    """How a wait ended."""

    GRANTED = "granted"
    TIMEOUT = "timeout"
    DEADLOCK = "deadlock"
    KILLED = "killed"


class Wait:
    """What a statement waits for. ``limit_ns`` is None for ever; ``ended`` is set once, by whoever comes first."""

    __slots__ = ("abandon", "ended", "limit_ns", "on_end", "watches")

    def __init__(self, limit_ns: int | None, abandon: Callable[[], None] = lambda: None) -> None:
        self.limit_ns = limit_ns
        self.abandon = abandon
        """Called when the wait ends without having been granted."""
        self.ended: Outcome | None = None
        self.watches = False
        """Whether the server looks every second if the client is still there."""
        self.on_end: Callable[[], None] = lambda: None

    def end(self, outcome: Outcome) -> None:
        if self.ended is None:
            self.ended = outcome
            if outcome is not Outcome.GRANTED:
                self.abandon()
            self.on_end()


class Holder(Protocol):
    """A transaction, as far as its locks go."""

    lock_wait_ns: int
    locks: list[Lock]
    waiting: Lock | None
    undo: list[Any]

    @property
    def read_committed(self) -> bool: ...


class Lock:
    """One transaction's lock on one index record; ``wait`` while it is only asked for. An ``implicit`` one is known by
    the record's own transaction number until somebody else comes across it."""

    __slots__ = ("implicit", "index", "key", "kind", "mode", "trx", "wait")

    def __init__(self, trx: Holder, index: Index, key: Key, mode: Mode, kind: Kind, *, implicit: bool) -> None:
        self.trx = trx
        self.index = index
        self.key = key
        self.mode = mode
        self.kind = kind
        self.implicit = implicit
        self.wait: Wait | None = None

    def must_wait_for(self, other: Lock) -> bool:
        if other.trx is self.trx or (self.mode == "S" and other.mode == "S"):
            return False
        if self.kind is INTENT:
            return other.kind in (GAP, NEXT)
        if self.kind is GAP or self.key == SUPREMUM:
            return False
        return other.kind in (REC, NEXT)

    def covers(self, mode: Mode, kind: Kind) -> bool:
        """Is whoever holds this spared the other lock?"""
        if self.wait is not None or self.kind is INTENT or (mode == "X" and self.mode == "S"):
            return False
        return self.kind is kind or self.kind is NEXT or self.key == SUPREMUM


def held(trx: Holder, index: Index, key: Key, mode: Mode, kind: Kind) -> bool:
    return any(lock.trx is trx and lock.covers(mode, kind) for lock in index.locks.get(key, ()))


def blocker(trx: Holder, index: Index, key: Key, mode: Mode, kind: Kind) -> Lock | None:
    """The first lock that a new request would have to wait for."""
    wanted = Lock(trx, index, key, mode, kind, implicit=False)
    return next((lock for lock in _ahead(wanted, index.locks.get(key, [])) if wanted.must_wait_for(lock)), None)


def request(trx: Holder, index: Index, key: Key, mode: Mode, kind: Kind, *, implicit: bool = False) -> Lock | None:
    """Take a lock, or queue for it; returns the lock if it has to wait, for which its ``wait`` is to be set."""
    if kind is not INTENT and held(trx, index, key, mode, kind):
        return None
    queue: list[Lock] = index.locks.setdefault(key, [])
    lock = Lock(trx, index, key, mode, kind, implicit=implicit)
    for other in queue:
        if other.trx is not trx:
            other.implicit = False
    if not any(map(lock.must_wait_for, _ahead(lock, queue))):
        if kind is not INTENT:  # nobody waits for an intention: one that need not wait leaves no trace
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


def _ahead(wanted: Lock, queue: list[Lock]) -> list[Lock]:
    """Whom a request in a queue comes after: of those that wait, nobody if its transaction holds the record already,
    in a mode as strong, and only asks for the gap as well."""
    for lock in queue if wanted.kind is not INTENT else ():
        if lock.trx is wanted.trx and lock.wait is None and lock.kind in (REC, NEXT) and lock.mode == "X":
            return [lock for lock in queue if lock.wait is None]
    return queue


def drop(lock: Lock) -> None:
    """Give up one lock, and grant what waited only for it."""
    queue = lock.index.locks.get(lock.key)
    if queue is None or lock not in queue:
        return
    queue.remove(lock)
    if lock in lock.trx.locks:
        lock.trx.locks.remove(lock)
    if lock.trx.waiting is lock:
        lock.trx.waiting = None
    _grant(lock.index, lock.key)


def release_all(trx: Holder) -> None:
    """At the end of a transaction: its locks go, all at once, and then others' requests are looked at."""
    places: dict[tuple[int, Key], tuple[Index, Key]] = {}
    for lock in trx.locks:
        queue = lock.index.locks.get(lock.key)
        if queue is not None and lock in queue:
            queue.remove(lock)
            places[(id(lock.index), lock.key)] = (lock.index, lock.key)
    trx.locks.clear()
    trx.waiting = None
    for index, key in places.values():
        _grant(index, key)


def _grant(index: Index, key: Key) -> None:
    queue: list[Lock] = index.locks.get(key, [])
    for at, lock in enumerate(list(queue)):
        if lock.wait is not None and not any(map(lock.must_wait_for, _ahead(lock, queue[:at]))):
            _granted(lock)
    if not queue:
        index.locks.pop(key, None)


def _granted(lock: Lock) -> None:
    wait, lock.wait = lock.wait, None
    lock.trx.waiting = None
    if wait is not None:
        wait.end(Outcome.GRANTED)


def inherit_on_insert(index: Index, key: Key) -> None:
    """A record has come into a gap: whoever held the gap holds both parts of it."""
    for lock in list(index.locks.get(index.after(key), ())):
        if lock.wait is None and lock.kind is not INTENT and (lock.kind is not REC or lock.key == SUPREMUM):
            _add(lock, index, key)


def inherit_on_remove(index: Index, key: Key) -> None:
    """A record has gone: locks on it become locks on the larger gap, and whoever waited for it looks again."""
    heir = index.after(key)
    for lock in index.locks.pop(key, []):
        lock.trx.locks.remove(lock)
        if lock.kind is not INTENT and not lock.implicit and not (lock.trx.read_committed and lock.mode == "X"):
            _add(lock, index, heir)
        if lock.wait is not None:
            _granted(lock)


def _add(lock: Lock, index: Index, key: Key) -> None:
    if not held(lock.trx, index, key, lock.mode, GAP):
        made = Lock(lock.trx, index, key, lock.mode, GAP, implicit=False)
        index.locks.setdefault(key, []).append(made)
        lock.trx.locks.append(made)


# Deadlocks.


def _waits_for(trx: Holder) -> list[Holder]:
    lock = trx.waiting
    if lock is None:
        return []
    queue: list[Lock] = lock.index.locks[lock.key]
    ahead = _ahead(lock, queue[: queue.index(lock)])
    return [other.trx for other in ahead if lock.must_wait_for(other)]


def _cycle(start: Holder) -> list[Holder]:
    """Transactions that wait for each other in a ring through ``start``, or nothing."""
    seen: dict[Holder, None] = {}

    def search(trx: Holder, path: list[Holder]) -> list[Holder]:
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


def _weight(trx: Holder) -> int:
    """How much rolling it back would cost: changes, and locks as InnoDB counts them: one for each kind on a page (here
    an index is a page), and one on each table for each mode."""
    structs: set[tuple[object, ...]] = set()
    tables: dict[str, set[Mode]] = {}
    for lock in trx.locks:
        modes = tables.setdefault(lock.index.table.name, set())
        if "X" not in modes:
            modes.add(lock.mode)
        if not lock.implicit:
            kind = NEXT if lock.key == SUPREMUM and lock.kind is not INTENT else lock.kind
            structs.add((lock.index.name, lock.index.table.name, lock.mode, kind, lock.wait is None))
    return len(trx.undo) + len(structs) + sum(map(len, tables.values()))


def victim(current: Holder) -> Holder | None:
    """Whom to roll back because ``current`` has begun to wait, if that closed a ring."""
    ring = _cycle(current)
    if not ring:
        return None
    return min(ring, key=lambda trx: (_weight(trx), trx is not current))
