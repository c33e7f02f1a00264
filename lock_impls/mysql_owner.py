"""MySQL lock with a unique row that names its owner: only the owner deletes it.

Commands: ``INSERT INTO method_lock (method_name, cust_id) VALUES (key, me)`` · ``DELETE FROM method_lock WHERE
method_name = key AND cust_id = me``. ``me`` is new for each grant. If the answer to an INSERT was lost, the next
acquire deletes the row that it may have left.
Source: article 001 (``methodLock``; its cust_id is the machine and the thread, which also makes it reentrant: see
``mysql-reentrant``).

Safe for: cutting duplicate work among clients that never die; no client frees another's lock.

Known failures: uniq-crash, uniq-reent-self, lost-reply-acquire (until the client tries again), late-acquire,
db-async-failover, db-semisync-fallback.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from .base import Endpoints, Failure, Grant, Indeterminate, LockInfo
from .mysql_client import KINDS, REQUIRES, RowLock


class OwnerLock(RowLock):
    TABLE: ClassVar = """CREATE TABLE IF NOT EXISTS method_lock (
        method_name VARCHAR(190) NOT NULL PRIMARY KEY,
        cust_id VARCHAR(64) NOT NULL
    ) ENGINE = InnoDB"""

    info: ClassVar = LockInfo(
        name="mysql-owner",
        title="INSERT of a unique row with an owner, DELETE by the owner",
        algorithm="INSERT (key, me): duplicate key = busy; DELETE WHERE key AND owner = me.",
        source="article 001",
        safety="E",
        kinds=KINDS,
        requires=REQUIRES,
        on_death="nothing",
        outage="unavailable until the server is back; with asynchronous replication, two holders after a failover",
        failures=(
            Failure("uniq-crash", "the holder dies, and its row stays for ever",
                    "harness run mysql-owner --nemesis client-crash"),
            Failure("db-async-failover", "the promoted replica does not have the row",
                    "harness run mysql-owner --topology replicated --nemesis failover --ttl 8s --hold 4s"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl)
        self.owner = ""
        self._maybe_left = ""

    def try_lock(self) -> Grant | None:
        if self._maybe_left:
            self._delete(self._maybe_left)
            self._maybe_left = ""
        me = uuid.uuid4().hex
        try:
            self.session.execute("INSERT INTO method_lock (method_name, cust_id) VALUES (%s, %s)", self.key, me)
        except Indeterminate:
            self._maybe_left = me
            raise
        self.owner = me
        return Grant()

    def unlock(self) -> bool:
        self._maybe_left, self.owner = self.owner, ""
        if not self._maybe_left:
            return False
        deleted = self._delete(self._maybe_left)
        self._maybe_left = ""
        return deleted

    def _delete(self, owner: str) -> bool:
        mine = "DELETE FROM method_lock WHERE method_name = %s AND cust_id = %s"
        return bool(self.session.execute(mine, self.key, owner).count)
