"""The row lock of article 000 as part of the business transaction, which makes its try-lock wait."""

from __future__ import annotations

from typing import ClassVar, Final

from lock_impls.base import Endpoints, Grant
from lock_impls.mysql_client import KINDS, Busy, NoTable, Session
from lock_impls.mysql_unique import UniqueLock

PATIENCE_S: Final = 60.0
"""For an answer: longer than a server lets a statement wait for a row (innodb_lock_wait_timeout, 50 s)."""


class OpenTransaction(UniqueLock):
    """uniq-in-open-tx: the row is inserted in a transaction that stays open while the lock is held, and ends with it.
    Who tries meanwhile meets a row that is not committed, and waits until it is known whether it will be."""

    kinds: ClassVar = KINDS

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl)
        self.session = Session(endpoints, self.TABLE, patience=PATIENCE_S)

    def try_lock(self) -> Grant | None:
        self.session.execute("BEGIN")
        try:
            self.session.ask("INSERT INTO locked_order (order_id, memo, update_time) VALUES (%s, '', NOW(6))", self.key)
        except Busy:
            self.session.execute("ROLLBACK")
            raise
        except NoTable:
            self.session.execute("ROLLBACK")
            self.session.execute("SELECT memo FROM locked_order WHERE order_id = %s", self.key)  # makes the table
            return self.try_lock()
        return Grant()

    def unlock(self) -> bool:
        unlocked = super().unlock()
        self.session.execute("COMMIT")
        return unlocked
