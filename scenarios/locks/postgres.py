"""Advisory locks of PostgreSQL under short and long hashes of their names, and unique rows with an owner."""

from __future__ import annotations

import hashlib
import threading
import uuid
from contextlib import suppress
from typing import Any, ClassVar, Final

from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError
from harness.lock_impls.origins import mistake, model_of, variant_of
from harness.lock_impls.postgres_advisory import AdvisoryLock
from harness.lock_impls.postgres_client import KINDS, PostgresSession
from harness.lock_impls.postgres_unique import PostgresUniqueLock

TOOZ: Final = model_of(
    "the numbers of an advisory lock of PostgresLock", "tooz", "9.1.0", "tooz/drivers/pgsql.py, line 110"
)
GROUP: Final = "group-152465"
"""Prefix of the names; the hashes of k0 and k1 in it begin alike."""

CANCEL_AFTER_S: Final = 0.5
"""Time-out of a statement."""


class WholeHash(AdvisoryLock):
    """Not a mistake: an advisory lock whose number is eight bytes of the MD5 of its name."""

    origin: ClassVar = TOOZ.fixed("the number has eight bytes of the hash")
    kinds = KINDS

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self.hash = hashlib.md5(f"{GROUP}/{key}".encode(), usedforsecurity=False).digest()

    def numbers(self) -> tuple[int, ...]:
        return (int.from_bytes(self.hash[:8], signed=True),)

    def call(self, function: str) -> Any:
        numbers = ", ".join(map(str, self.numbers()))
        return self.session.execute(f"SELECT {function}({numbers})").rows[0][0]


class TwoBytes(WholeHash):
    """pg-adv-collision: tooz's PostgresLock calls pg_advisory_lock(a, b), where a and b are the first two bytes of the
    name's MD5."""

    origin: ClassVar = TOOZ

    def numbers(self) -> tuple[int, ...]:
        return self.hash[0], self.hash[1]


class OwnerRow(PostgresUniqueLock):
    """Not a mistake: a unique row that names its owner. A client that asks for the lock first deletes its own row,
    which is there if an earlier request got no answer."""

    origin: ClassVar = variant_of("postgres-unique", "an owner in the row, who deletes what a lost answer left")
    TABLE: ClassVar = (
        "CREATE TABLE IF NOT EXISTS owned_order "
        "(order_id TEXT PRIMARY KEY, owner TEXT NOT NULL, update_time TIMESTAMPTZ NOT NULL)"
    )

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self.owner = uuid.uuid4().hex

    def _try(self) -> Grant | None:
        self._delete()
        insert = "INSERT INTO owned_order VALUES (:key, :owner, now()) ON CONFLICT DO NOTHING"
        done = self.session.execute(insert, key=self.key, owner=self.owner)
        return Grant() if done.count else None

    def _delete(self) -> bool:
        mine = "DELETE FROM owned_order WHERE order_id = :key AND owner = :owner"
        return bool(self.session.execute(mine, key=self.key, owner=self.owner).count)

    def release(self) -> None:
        if not self._delete():
            raise LockError(f"{self.key} is not held by this client")


class CancelledInsert(OwnerRow):
    """pg-sync-cancel: a client whose INSERT takes too long has the server cancel it, and trusts the server's answer.

    Client libraries do so at a time-out. PostgreSQL ends the wait for the standby with a warning and then answers that
    one row was inserted.
    """

    origin: ClassVar = mistake(
        "a time-out that cancels the INSERT, whose answer is taken for a commit", "patroni/patroni#1412"
    )

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self._other = PostgresSession(endpoints)

    def _try(self) -> Grant | None:
        (number,) = self.session.execute("SELECT pg_backend_pid()").rows[0]
        done = threading.Event()
        watchdog = threading.Thread(target=self._cancel_late, args=[number, done], daemon=True)
        watchdog.start()
        try:
            return super()._try()
        finally:
            done.set()

    def _cancel_late(self, number: int, done: threading.Event) -> None:
        while not done.wait(CANCEL_AFTER_S):
            with suppress(LockError, Indeterminate):  # the server is gone
                self._other.execute("SELECT pg_cancel_backend(:number)", number=number)
