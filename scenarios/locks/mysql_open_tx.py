"""The row lock of article 000 inside the business transaction, which makes its try-lock wait (scenario
uniq-in-open-tx)."""

from __future__ import annotations

from typing import ClassVar, Final

from harness.lock_impls.base import Endpoints, Grant
from harness.lock_impls.mysql_client import KINDS, Busy, MysqlSession, NoTable
from harness.lock_impls.mysql_unique import UniqueLock
from harness.lock_impls.origins import mistake

PATIENCE_S: Final = 60.0
"""Time-out for an answer: longer than a server lets a statement wait for a row (innodb_lock_wait_timeout, 50 s)."""


class OpenTransaction(UniqueLock):
    """uniq-in-open-tx: the row is inserted in a transaction that stays open while the lock is held, and ends with it.

    Another client that tries meanwhile finds an uncommitted row, and waits until that is committed or rolled back.
    """

    origin: ClassVar = mistake("an INSERT inside the business transaction", "article 000")
    kinds: ClassVar = KINDS

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl)
        self.session = MysqlSession(endpoints, self.TABLE, patience=PATIENCE_S)

    def try_lock(self) -> Grant | None:
        self.session.execute("BEGIN")
        try:
            self.session.ask("INSERT INTO locked_order (order_id, memo, update_time) VALUES (%s, '', NOW(6))", self.key)
        except Busy:
            self.session.execute("ROLLBACK")
            raise
        except NoTable:
            self.session.execute("ROLLBACK")
            self.session.execute("SELECT memo FROM locked_order WHERE order_id = %s", self.key)  # creates the table
            return self.try_lock()
        return Grant()

    def unlock(self) -> bool:
        unlocked = super().unlock()
        self.session.execute("COMMIT")
        return unlocked
