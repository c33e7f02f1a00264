"""A correct lock around a transaction that begins too early or ends too late: mutual exclusion holds, but updates are
lost.

Scenarios rr-stale-read and unlock-before-commit, each mistake with its cure. All use GET_LOCK, and count in a table of
the same database, for ``--workload counter``.
Source: MySQL manual, "Consistent Nonlocking Reads"; Spring's @Transactional, whose proxy commits only after the method
that it wraps has ended, and with it the lock's ``finally``.
"""

from __future__ import annotations

import contextlib
import time
from typing import ClassVar

from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError
from harness.lock_impls.mysql_client import KINDS, Busy, MysqlSession
from harness.lock_impls.mysql_get_lock import LONGEST_WAIT_S, GetLock
from harness.lock_impls.origins import mistake, variant_of

COMMIT_AFTER_S = 0.02
"""Time between the end of the method and the end of the transaction."""


class _Counting(GetLock):
    """GET_LOCK, and in the same session a transaction that adds one to the key's number."""

    kinds = KINDS
    TABLE: ClassVar = """CREATE TABLE IF NOT EXISTS counted (
        name VARCHAR(190) NOT NULL PRIMARY KEY,
        v BIGINT NOT NULL
    ) ENGINE = InnoDB"""
    READ: ClassVar = "SELECT v FROM counted WHERE name = %s"

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self.session = MysqlSession(endpoints, self.TABLE, patience=LONGEST_WAIT_S + 1.0)
        self._has_row = False

    def _try(self, patience: float) -> Grant | None:
        if not self._has_row:
            self._make_row()
        return super()._try(patience)

    def _make_row(self) -> None:
        """Insert the row beforehand, in its own transaction."""
        with contextlib.suppress(Busy):  # another client has inserted it
            self.session.execute("INSERT INTO counted (name, v) VALUES (%s, 0)", self.key)
        self._has_row = True

    def _add(self) -> tuple[int, int]:
        """Add one within a transaction; returns the values read and written."""
        if not (self.depth and self.session.connected):
            raise LockError(f"{self.key} was lost with its connection")
        ((seen,),) = self.session.execute(self.READ, self.key).rows
        self.session.execute("UPDATE counted SET v = %s WHERE name = %s", seen + 1, self.key)
        return seen, seen + 1


class StaleRead(_Counting):
    """rr-stale-read: the transaction reads before it has the lock; under REPEATABLE READ it keeps seeing that old
    state."""

    origin: ClassVar = mistake(
        "a transaction that reads before it has the lock", "the MySQL manual, 'Consistent Nonlocking Reads'"
    )

    def _try(self, patience: float) -> Grant | None:
        if not self._has_row:
            self._make_row()
        self.session.execute("BEGIN")
        self.session.execute("SELECT v FROM counted WHERE name = %s", self.key)  # takes the snapshot
        grant = super()._try(patience)
        if grant is None:
            self.session.execute("ROLLBACK")
        return grant

    def increment(self) -> tuple[int, int]:
        added = self._add()
        self.session.execute("COMMIT")
        return added


class FreshRead(StaleRead):
    """rr-stale-read, cured: a locking read sees the current value, whatever the snapshot."""

    origin: ClassVar = StaleRead.origin.fixed("a locking read")
    READ: ClassVar = "SELECT v FROM counted WHERE name = %s FOR UPDATE"


class CommitsBeforeUnlock(_Counting):
    """unlock-before-commit, cured: the next holder sees what this one has written."""

    origin: ClassVar = variant_of("mysql-get-lock", "a transaction that it commits before it releases the lock")

    def increment(self) -> tuple[int, int]:
        self.session.execute("BEGIN")
        return self._add()

    def release(self) -> None:
        """End the transaction too; raises Indeterminate if that may have failed."""
        try:
            self._end()
        except LockError as error:
            raise Indeterminate(f"whether the transaction was committed is not known: {error}") from error

    def _end(self) -> None:
        if not self.session.connected:
            raise LockError("it was lost with its connection")
        self.session.execute("COMMIT")
        super().release()


class UnlocksBeforeCommit(CommitsBeforeUnlock):
    """unlock-before-commit: the lock is released first, and the next holder sees the old value."""

    origin: ClassVar = mistake(
        "a lock that is released before the transaction is committed",
        "Spring's documentation of @Transactional, whose proxy commits after the method",
    )

    def _end(self) -> None:
        GetLock.release(self)
        time.sleep(COMMIT_AFTER_S)
        self.session.execute("COMMIT")
