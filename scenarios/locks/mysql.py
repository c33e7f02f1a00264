"""MySQL locks with documented mistakes, one class for each, for scenarios; some classes are the cures."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import ClassVar

from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError
from harness.lock_impls.mysql_client import KINDS, Busy, MysqlSession
from harness.lock_impls.mysql_for_update import ForUpdateLock
from harness.lock_impls.mysql_get_lock import GetLock
from harness.lock_impls.mysql_owner import OwnerLock
from harness.lock_impls.origins import mistake, use_of, variant_of


class FenceCounter:
    """Not a mistake: a counter beside the lock, on its own connection, whose numbers are committed at once.

    A client draws a number while it holds the lock, so a later holder has a larger number.
    """

    TABLE = "CREATE TABLE IF NOT EXISTS minted (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY) ENGINE = InnoDB"

    def __init__(self, endpoints: Endpoints) -> None:
        self._session = MysqlSession(endpoints, self.TABLE)

    def stamped(self, grant: Grant | None, release: Callable[[], None]) -> Grant | None:
        """Return the grant with a number. If there is no number, give the lock back and raise."""
        if grant is None:
            return None
        try:
            return Grant(fence=self._session.execute("INSERT INTO minted (id) VALUES (NULL)").last_id)
        except (LockError, Indeterminate):
            release()
            raise


class FencedForUpdate(ForUpdateLock):
    """fu-conn-lost, cured by a fence."""

    origin: ClassVar = variant_of("mysql-for-update", "fencing tokens from an auto-increment column")
    kinds = KINDS

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self._counter = FenceCounter(endpoints)

    def acquire(self, timeout: float) -> Grant | None:
        return self._counter.stamped(super().acquire(timeout), self.release)


class FencedGetLock(GetLock):
    """getlock-idle, cured by a fence."""

    origin: ClassVar = variant_of("mysql-get-lock", "fencing tokens from an auto-increment column")
    kinds = KINDS

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self._counter = FenceCounter(endpoints)

    def acquire(self, timeout: float) -> Grant | None:
        return self._counter.stamped(super().acquire(timeout), self.release)


class AutocommitForUpdate(ForUpdateLock):
    """fu-autocommit: without BEGIN the row lock ends with its statement."""

    origin: ClassVar = mistake("SELECT ... FOR UPDATE while autocommit is on", "article 002, which warns of it")
    kinds = KINDS

    def _try(self, patience: float) -> Grant | None:
        grant = super()._try(patience)
        if grant is not None:
            self.session.execute("COMMIT")  # as autocommit does
        return grant


class MissingRow(ForUpdateLock):
    """fu-missing-row: the client believes that it has the lock if there was no exception, although there was no row
    to lock."""

    origin: ClassVar = mistake(
        "an empty answer to SELECT ... FOR UPDATE that counts as acquired",
        "the MySQL manual, 'Locks Set by Different SQL Statements in InnoDB'; article 002 warns of it",
    )
    kinds = KINDS

    def _make_row(self) -> None:
        self.held = True

    def _try(self, patience: float) -> Grant | None:
        self.session.execute("BEGIN")
        self.session.execute("SELECT name FROM lock_row WHERE name = %s FOR UPDATE", self.key)
        self.held = True
        return Grant()


class ReconnectingGetLock(GetLock):
    """getlock-reconnect: a client library that opens a new connection when it checks the old one."""

    origin: ClassVar = use_of(
        "PyMySQL",
        "the installed release",
        "a check of the connection that opens a new one",
        "MySQL C API, 'Automatic Reconnection Control'; dreamwidth/dreamwidth#3549",
    )
    kinds = KINDS

    def still_valid(self) -> bool:
        if not self.depth:
            return False
        self.session._connected().ping(reconnect=True)
        return True


class UncountedReentry(OwnerLock):
    """uniq-reent-nocount: a SELECT shows that the client already owns the row, and the first of two unlocks deletes
    the row."""

    origin: ClassVar = mistake("a reentrant lock without a count", "articles 000 (memo) and 001 (cust_id)")
    kinds = KINDS

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl)
        self.me = uuid.uuid4().hex

    def try_lock(self) -> Grant | None:
        try:
            self.session.execute("INSERT INTO method_lock (method_name, cust_id) VALUES (%s, %s)", self.key, self.me)
        except Busy:
            mine = "SELECT 1 FROM method_lock WHERE method_name = %s AND cust_id = %s"
            if not self.session.execute(mine, self.key, self.me).rows:
                return None
        self.owner = self.me
        return Grant()


class NoIndex(ForUpdateLock):
    """fu-no-index: InnoDB locks the rows that it examines, and without an index it examines all of them."""

    origin: ClassVar = mistake("SELECT ... FOR UPDATE without an index", "article 002")
    kinds = KINDS

    TABLE = """CREATE TABLE IF NOT EXISTS unindexed_row (
        id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        name VARCHAR(190) NOT NULL
    ) ENGINE = InnoDB"""
    FIND = "SELECT name FROM unindexed_row WHERE name = %s FOR UPDATE"
    ADD = "INSERT INTO unindexed_row (name) VALUES (%s)"


class StaysInTransaction(ForUpdateLock):
    """lockwait-partial: a lock of two rows, the key's own and one that all keys share; if one of them is busy, acquire
    returns at once.

    MySQL then rolls back only the statement: the transaction stays open, and with it the lock on the first row.
    """

    origin: ClassVar = mistake(
        "a transaction that stays open after a busy row", "the MySQL manual, innodb_rollback_on_timeout"
    )
    kinds = KINDS
    SHARED = "ledger"
    ends = False
    """True if it ends the transaction, as it should."""

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self._made = False

    def acquire(self, timeout: float) -> Grant | None:
        rows = (self.key, self.SHARED)
        if not self._made:
            self._make(*rows)
        try:
            self.session.execute("BEGIN")
            for name in rows:
                self.session.execute(self.FIND, name)
        except Busy:
            if self.ends:
                self.session.execute("ROLLBACK")
            return None
        self.held = True
        return Grant()

    def _make(self, *names: str) -> None:
        self.session.execute("SET SESSION innodb_lock_wait_timeout = 0")
        for name in names:
            try:
                self.session.execute(self.ADD, name)
            except Busy:
                continue  # the row exists already
        self._made = True


class EndsTransaction(StaysInTransaction):
    """lockwait-partial, cured: a busy row ends the transaction."""

    origin: ClassVar = StaysInTransaction.origin.fixed("a busy row ends the transaction")
    ends = True
