"""Mutants of locks in MySQL: rows, row locks and named locks. :class:`LeaseLock` is correct; each other class has one
mistake."""

from __future__ import annotations

import time
import uuid
from typing import Any, ClassVar, Self

from harness.lock_impls.base import Endpoints, Grant, LockError
from harness.lock_impls.mysql_client import Busy, MysqlSession, RowLock, span
from harness.lock_impls.mysql_for_update import ForUpdateLock
from harness.lock_impls.mysql_get_lock import GetLock
from harness.lock_impls.polling import poll

KINDS = ("mysql-single",)
NAME = "VARCHAR(190) NOT NULL"
TABLE = """CREATE TABLE IF NOT EXISTS lease (
    name {name}, owner VARCHAR(64) NOT NULL, expires DATETIME(6) NOT NULL
) ENGINE = InnoDB"""


class LeaseLock(RowLock):
    """Not a mutant: a unique row with its owner and the end of its lease, by the server's clock."""

    kinds: ClassVar = KINDS
    TABLE: ClassVar = TABLE.format(name=f"{NAME} PRIMARY KEY")
    PUT: ClassVar = "INSERT INTO lease (name, owner, expires) VALUES (%s, %s, ADDTIME(NOW(6), %s))"
    owner = ""

    def try_lock(self) -> Grant | None:
        owner = uuid.uuid4().hex
        try:
            taken = self.put(owner)
        except Busy:
            taken = self.take_over(owner)
        if not taken:
            return None
        self.owner = owner
        return self.granted()

    def put(self, owner: str) -> bool:
        return bool(self.session.execute(self.PUT, self.key, owner, span(self.ttl)).count)

    def take_over(self, owner: str) -> bool:
        late = "UPDATE lease SET owner = %s, expires = ADDTIME(NOW(6), %s) WHERE name = %s AND expires <= NOW(6)"
        return bool(self.session.execute(late, owner, span(self.ttl), self.key).count)

    def unlock(self) -> bool:
        mine = "DELETE FROM lease WHERE name = %s AND owner = %s"
        return bool(self.session.execute(mine, self.key, self.owner).count)

    def granted(self) -> Grant:
        return Grant(valid_for=self.ttl)


# Rows.


class NoUniqueIndex(LeaseLock):
    """The table has no unique index, so each INSERT succeeds."""

    TABLE: ClassVar = TABLE.format(name=NAME)


class SelectThenInsert(NoUniqueIndex):
    """SELECT finds no row and INSERT adds one, in two statements between which another client does the same."""

    def put(self, owner: str) -> bool:
        if self.session.execute("SELECT owner FROM lease WHERE name = %s", self.key).rows:
            return False
        return super().put(owner)


class IgnoresInsertCount(LeaseLock):
    """INSERT IGNORE adds nothing if there is a row, and its count is ignored."""

    PUT: ClassVar = LeaseLock.PUT.replace("INSERT", "INSERT IGNORE")

    def put(self, owner: str) -> bool:
        super().put(owner)
        return True


class OverwritesRow(LeaseLock):
    """ON DUPLICATE KEY UPDATE replaces the owner of a row that another client holds."""

    PUT: ClassVar = f"{LeaseLock.PUT} ON DUPLICATE KEY UPDATE owner = VALUES(owner), expires = VALUES(expires)"


class DuplicateIsSuccess(LeaseLock):
    """Any error of INSERT is caught, so a duplicate key counts as acquired."""

    def take_over(self, owner: str) -> bool:
        return True


class TakesOverWithoutCompare(LeaseLock):
    """The UPDATE that takes over an expired row does not compare it with the row that was read."""

    def take_over(self, owner: str) -> bool:
        late = self.session.execute("SELECT 1 FROM lease WHERE name = %s AND expires <= NOW(6)", self.key).rows
        if not late:
            return False
        time.sleep(0.1)  # the application writes a log entry
        return bool(self.session.execute("UPDATE lease SET owner = %s, expires = ADDTIME(NOW(6), %s) WHERE name = %s",
                                         owner, span(self.ttl), self.key).count)  # fmt: skip


class NeverExpires(LeaseLock):
    """No client takes over an expired row, so the row of a dead holder stays for ever."""

    def take_over(self, owner: str) -> bool:
        return False


class DeletesAnybodysRow(LeaseLock):
    """Release deletes the row of the key without its owner, so a late holder deletes the row of the next."""

    def unlock(self) -> bool:
        return bool(self.session.execute("DELETE FROM lease WHERE name = %s", self.key).count)


class ReleaseRollsBack(LeaseLock):
    """Release deletes the row in a transaction, and rolls it back."""

    def unlock(self) -> bool:
        self.session.execute("BEGIN")
        deleted = super().unlock()
        self.session.execute("ROLLBACK")
        return deleted


class FenceIsTime(LeaseLock):
    """The fencing token is the server's time in seconds, which two grants within a second share."""

    def granted(self) -> Grant:
        ((seconds,),) = self.session.execute("SELECT UNIX_TIMESTAMP()").rows
        return Grant(fence=int(seconds), valid_for=self.ttl)


class ReadsSnapshot(RowLock):
    """The row is read from the transaction's snapshot and updated without a condition: the isolation is too weak."""

    kinds: ClassVar = KINDS
    TABLE: ClassVar = f"CREATE TABLE IF NOT EXISTS flags (name {NAME} PRIMARY KEY, taken INT NOT NULL) ENGINE = InnoDB"

    def try_lock(self) -> Grant | None:
        self.session.execute("INSERT IGNORE INTO flags (name, taken) VALUES (%s, 0)", self.key)
        self.session.execute("BEGIN")
        ((taken,),) = self.session.execute("SELECT taken FROM flags WHERE name = %s", self.key).rows
        if not taken:
            self.session.execute("UPDATE flags SET taken = 1 WHERE name = %s", self.key)
        self.session.execute("COMMIT")
        return None if taken else Grant()

    def unlock(self) -> bool:
        return bool(self.session.execute("UPDATE flags SET taken = 0 WHERE name = %s", self.key).count)


# Row locks of a transaction.


class RowsOfTransaction(ForUpdateLock):
    """Not a mutant: SELECT ... FOR UPDATE; a class without documented failures, unlike its base."""

    kinds: ClassVar = KINDS
    info: ClassVar[Any] = None


class NoForUpdate(RowsOfTransaction):
    """SELECT has no FOR UPDATE, so it locks no row."""

    FIND: ClassVar = "SELECT name FROM lock_row WHERE name = %s"


class SharesRow(RowsOfTransaction):
    """SELECT ... LOCK IN SHARE MODE takes a shared lock, which all clients can hold."""

    FIND: ClassVar = "SELECT name FROM lock_row WHERE name = %s LOCK IN SHARE MODE"


class CommitsAtOnce(RowsOfTransaction):
    """The transaction of SELECT ... FOR UPDATE is committed at once, as without BEGIN, so the row is not locked."""

    def _try(self, patience: float) -> Grant | None:
        grant = super()._try(patience)
        if grant is not None:
            self.session.execute("COMMIT")
        return grant


class ForgetsCommit(RowsOfTransaction):
    """Release does not end the transaction, so the row stays locked."""

    def release(self) -> None:
        self.held = False


# Named locks of a session.


class NamedLock(GetLock):
    """Not a mutant: GET_LOCK; a class without documented failures, unlike its base."""

    kinds: ClassVar = KINDS
    info: ClassVar[Any] = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        lock = cls(endpoints, key)
        lock.endpoints = endpoints
        return lock

    endpoints: Endpoints


class ZeroIsSuccess(NamedLock):
    """The answer 0 of GET_LOCK, which means busy, counts as acquired."""

    def _try(self, patience: float) -> Grant | None:
        self.session.execute("SELECT GET_LOCK(%s, 0)", self.key)
        self.depth += 1
        return Grant()


class ReleasesAnotherName(NamedLock):
    """RELEASE_LOCK gets another name, and its answer NULL is ignored."""

    def release(self) -> None:
        self.session.execute("SELECT RELEASE_LOCK(%s)", f"lock:{self.key}")
        self.depth = 0


class ClosesItsSession(NamedLock):
    """GET_LOCK is called on a connection that is closed at once, and the server then frees the lock."""

    def acquire(self, timeout: float) -> Grant | None:
        def attempt() -> Grant | None:
            session = MysqlSession(self.endpoints)
            ((answer,),) = session.execute("SELECT GET_LOCK(%s, 0)", self.key).rows
            session.close()
            return Grant() if answer == 1 else None

        return poll(attempt, timeout)

    def release(self) -> None:
        return


class CountsTooFew(NamedLock):
    """Release is refused for the fourth hold and each later one: the client has counted one hold too few."""

    holds = 0

    def release(self) -> None:
        self.holds += 1
        if self.holds > 3:
            raise LockError(f"{self.key} is not held by this session")
        super().release()
