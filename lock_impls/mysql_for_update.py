"""MySQL lock with SELECT ... FOR UPDATE: the row lock of an open transaction, held until the transaction ends.

Commands: ``BEGIN`` · ``SET SESSION innodb_lock_wait_timeout = n`` · ``SELECT name FROM lock_row WHERE name = key FOR
UPDATE``: one row = held, error 1205 = busy · ``COMMIT`` = unlock. The row is inserted beforehand, in its own
transaction, and its column has an index: without the row nothing is locked (fu-missing-row), without the index every
row is locked (fu-no-index). After 1205 the transaction is still open, hence ``ROLLBACK``.
Source: article 002.

Safe for: data that is changed in the same transaction. For anything outside, the lock is as reliable as the connection:
when that is lost the server rolls back and lets the next client in. The holder learns of it when it asks
(``still_valid``) or commits.

Known failures: fu-conn-lost, late-acquire (until the server notices that the client is gone), db-async-failover (row
locks are not replicated), getlock-multi-primary; in wrong variants: fu-missing-row, fu-no-index, fu-autocommit,
lockwait-partial.
"""

from __future__ import annotations

import math
import time
from typing import Any, ClassVar, Final, Self

from .base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from .mysql_client import KINDS, REQUIRES, Busy, MysqlSession, NoTable, Unreachable
from .polling import poll

LONGEST_WAIT_S: Final = 3
"""Longest wait of one statement: a client that waits for long in a server notices late that the server is gone."""


class ForUpdateLock:
    TABLE: ClassVar = "CREATE TABLE IF NOT EXISTS lock_row (name VARCHAR(190) NOT NULL PRIMARY KEY) ENGINE = InnoDB"
    FIND: ClassVar = "SELECT name FROM lock_row WHERE name = %s FOR UPDATE"
    ADD: ClassVar = "INSERT INTO lock_row (name) VALUES (%s)"

    info: ClassVar = LockInfo(
        name="mysql-for-update",
        title="SELECT ... FOR UPDATE in an open transaction",
        algorithm="BEGIN; SELECT ... WHERE key FOR UPDATE: a row = held; COMMIT.",
        source="article 002",
        safety="E",
        kinds=KINDS,
        requires=REQUIRES,
        on_death=(
        "the server, when it notices that the connection is gone: at once, or after hours if the network does not "
        "report it"
),
        outage="the lock is lost with its server; unavailable until a server is back or promoted",
        failures=(
            Failure("fu-conn-lost", "the connection is lost while the holder works on something else",
                    "harness run mysql-for-update --nemesis connection-reset --hold 1s"),
            Failure("db-async-failover", "the server dies without the holder noticing",
                    "harness run mysql-for-update --topology replicated --nemesis failover --ttl 8s --hold 4s"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        self.session = MysqlSession(endpoints, self.TABLE, patience=LONGEST_WAIT_S + 1.0)
        self.key = key
        self.held = False

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:  # noqa: ARG003
        """Ignore ``ttl``: the lock lasts as long as the connection."""
        return cls(endpoints, key, **options)

    def acquire(self, timeout: float) -> Grant | None:
        deadline = time.monotonic() + timeout
        return poll(lambda: self._try(deadline - time.monotonic()), timeout, worth_another=Unreachable)

    def _try(self, patience: float) -> Grant | None:
        """Try with one statement, which waits in the server for whole seconds. Further tries use the rest of
        ``patience``."""
        if self.held:
            return None
        wait = min(LONGEST_WAIT_S, math.floor(max(0.0, patience)))
        try:
            self.session.execute(f"SET SESSION innodb_lock_wait_timeout = {wait}")
            self.session.execute("BEGIN")
            found = self.session.ask(self.FIND, self.key).rows
        except NoTable:
            found = ()
        except Busy:
            self.session.execute("ROLLBACK")
            return None
        if not found:
            self.session.execute("ROLLBACK")
            self._make_row()
            return self._try(0.0)
        self.held = True
        return Grant()

    def _make_row(self) -> None:
        try:
            self.session.execute(self.ADD, self.key)
        except Busy:
            return  # another client has inserted it

    def still_valid(self) -> bool:
        """Ask the server over the connection that the lock belongs to."""
        if not (self.held and self.session.connected):
            return False
        try:
            self.session.execute("SELECT 1")
        except (LockError, Indeterminate):
            return False
        return True

    def release(self) -> None:
        held, self.held = self.held, False
        if not held:
            raise LockError(f"{self.key} is not held by this client")
        if not self.session.connected:
            raise LockError(f"{self.key} was lost with its connection")
        self.session.execute("COMMIT")
