"""PostgreSQL lock with SELECT ... FOR UPDATE: the row lock of an open transaction, held until the transaction ends.

Commands: ``BEGIN`` · ``SELECT set_config('lock_timeout', ms, true)`` · ``SELECT name FROM lock_row WHERE name = key
FOR UPDATE``, where error 55P03 means busy · ``COMMIT`` = unlock. The row is inserted beforehand, in its own transaction
(``ON CONFLICT DO NOTHING``): without the row nothing is locked, since PostgreSQL has no gap locks.
Source: PostgreSQL manual, "Explicit Locking", "Row-Level Locks".

Safe for: data that is changed in the same transaction. For anything outside, the lock is as reliable as the connection:
when that is lost the server rolls back and lets the next client in.

Known failures: fu-conn-lost, late-acquire (until the server notices that the client is gone); in wrong variants:
fu-missing-row, fu-autocommit.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .base import Failure, LockError, LockInfo
from .postgres_client import KINDS, REQUIRES
from .postgres_transaction import TransactionLock


class PostgresRowLock(TransactionLock):
    TABLE: ClassVar = "CREATE TABLE IF NOT EXISTS lock_row (name TEXT PRIMARY KEY)"
    INSERT: ClassVar = "INSERT INTO lock_row (name) VALUES (:key) ON CONFLICT DO NOTHING"

    info: ClassVar = LockInfo(
        name="postgres-row",
        title="SELECT ... FOR UPDATE in an open transaction",
        algorithm="BEGIN; SELECT ... WHERE key FOR UPDATE: a row = held; COMMIT.",
        source="PostgreSQL manual, Row-Level Locks",
        safety="E",
        kinds=KINDS,
        requires=REQUIRES,
        on_death=(
            "the server, when it notices that the connection is gone: at once, or after hours if the network does not "
            "report it"
        ),
        outage="the lock is lost with its server; unavailable until the server is back",
        failures=(
            Failure("fu-conn-lost", "the connection is lost while the holder works on something else",
                    "harness run postgres-row --nemesis connection-reset --hold 1s"),
        ),
    )  # fmt: skip

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._has_row = False

    def before_transaction(self) -> None:
        if not self._has_row:
            self.session.execute(self.INSERT, key=self.key)
            self._has_row = True

    def take(self) -> None:
        found = self.session.ask("SELECT name FROM lock_row WHERE name = :key FOR UPDATE", key=self.key).rows
        if not found:
            self._has_row = False
            self.session.execute("ROLLBACK")
            raise LockError(f"the row {self.key} has been deleted")
