"""MySQL locks that are wrong on purpose, and those that are cured by a number from elsewhere."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from lock_impls.base import Endpoints, Grant, Indeterminate, LockError
from lock_impls.mysql_client import KINDS, Busy, Session
from lock_impls.mysql_for_update import ForUpdateLock
from lock_impls.mysql_get_lock import GetLock
from lock_impls.mysql_owner import OwnerLock


class Minted:
    """Not a mistake: a counter beside the lock, on a connection of its own, whose numbers are committed at once. It is
    asked by who holds the lock, so that a later holder has a larger number."""

    TABLE = "CREATE TABLE IF NOT EXISTS minted (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY) ENGINE = InnoDB"

    def __init__(self, endpoints: Endpoints) -> None:
        self._session = Session(endpoints, self.TABLE)

    def stamped(self, grant: Grant | None, release: Callable[[], None]) -> Grant | None:
        """The grant with a number; without one nobody is told that he holds it, and the lock is given back."""
        if grant is None:
            return None
        try:
            return Grant(fence=self._session.execute("INSERT INTO minted (id) VALUES (NULL)").last_id)
        except (LockError, Indeterminate):
            release()
            raise


class MintedForUpdate(ForUpdateLock):
    """fu-conn-lost, cured."""

    kinds = KINDS

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self._minted = Minted(endpoints)

    def acquire(self, timeout: float) -> Grant | None:
        return self._minted.stamped(super().acquire(timeout), self.release)


class MintedGetLock(GetLock):
    """getlock-idle, cured."""

    kinds = KINDS

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self._minted = Minted(endpoints)

    def acquire(self, timeout: float) -> Grant | None:
        return self._minted.stamped(super().acquire(timeout), self.release)


class AutocommitForUpdate(ForUpdateLock):
    """fu-autocommit: without BEGIN the row lock ends with its statement."""

    kinds = KINDS

    def _try(self, patience: float) -> Grant | None:
        grant = super()._try(patience)
        if grant is not None:
            self.session.execute("COMMIT")  # what autocommit does
        return grant


class MissingRow(ForUpdateLock):
    """fu-missing-row: "no exception" is taken for the lock, though no row was there to be locked."""

    kinds = KINDS

    def _make_row(self) -> None:
        self.held = True

    def _try(self, patience: float) -> Grant | None:
        self.session.execute("BEGIN")
        self.session.execute("SELECT name FROM lock_row WHERE name = %s FOR UPDATE", self.key)
        self.held = True
        return Grant()


class ReconnectingGetLock(GetLock):
    """getlock-reconnect: a client library that makes a new connection when it asks whether the old one is there."""

    kinds = KINDS

    def still_valid(self) -> bool:
        if not self.depth:
            return False
        self.session._connected().ping(reconnect=True)
        return True


class UncountedReentry(OwnerLock):
    """uniq-reent-nocount: "already mine" is found out by SELECT, and the first unlock of two deletes the row."""

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
    """fu-no-index: InnoDB locks the rows that it looks at, and without an index it looks at all of them."""

    kinds = KINDS

    TABLE = """CREATE TABLE IF NOT EXISTS unindexed_row (
        id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        name VARCHAR(190) NOT NULL
    ) ENGINE = InnoDB"""
    FIND = "SELECT name FROM unindexed_row WHERE name = %s FOR UPDATE"
    ADD = "INSERT INTO unindexed_row (name) VALUES (%s)"


class StaysInTransaction(ForUpdateLock):
    """lockwait-partial: a lock of two rows, the key's own and one that all keys share; who finds one of them busy says
    so at once. MySQL then undoes the statement only: the transaction stays open, and so does the lock on the first
    row."""

    kinds = KINDS
    SHARED = "ledger"
    ends = False
    """Does it end the transaction, as it should?"""

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
                continue  # it is there
        self._made = True


class EndsTransaction(StaysInTransaction):
    """lockwait-partial, cured."""

    ends = True
