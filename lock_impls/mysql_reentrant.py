"""Reentrant MySQL lock: a unique row with its owner and a count. The owner may lock again, and must unlock as often.

Commands: ``INSERT INTO reentrant_lock (name, owner, count) VALUES (key, me, 1)`` · after a duplicate key ``SELECT count
... WHERE name = key AND owner = me``, and if there is a row ``UPDATE ... SET count = n`` · unlock: ``UPDATE ... SET
count = n``, at zero ``DELETE ... WHERE name = key AND owner = me``. The owner is this lock object. It writes the count
that it knows instead of adding one, so a statement whose answer was lost can be repeated.
Source: articles 000 (which asks for a counter) and 001 (``SELECT 1 WHERE method_name AND cust_id``).

Safe for: cutting duplicate work in code that nests, among clients that never die.

Known failures: uniq-crash, lost-reply-acquire (until the client tries again), late-acquire, db-async-failover,
db-semisync-fallback.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from .base import Endpoints, Failure, Grant, LockInfo
from .mysql_client import KINDS, REQUIRES, Busy, RowLock


class MysqlReentrantLock(RowLock):
    TABLE: ClassVar = """CREATE TABLE IF NOT EXISTS reentrant_lock (
        name VARCHAR(190) NOT NULL PRIMARY KEY,
        owner VARCHAR(64) NOT NULL,
        count INT NOT NULL
    ) ENGINE = InnoDB"""

    info: ClassVar = LockInfo(
        name="mysql-reentrant",
        title="Reentrant lock: a unique row with owner and count",
        algorithm="INSERT (key, me, 1); duplicate key: if it is mine, SET count; unlock: SET count, at zero DELETE.",
        source="articles 000, 001",
        safety="E",
        kinds=KINDS,
        requires=REQUIRES,
        reentrant=True,
        on_death="nothing",
        outage="unavailable until the server is back; with asynchronous replication, two holders after a failover",
        failures=(
            Failure("uniq-crash", "the holder dies, and its row stays for ever",
                    "harness run mysql-reentrant --nemesis client-crash"),
            Failure("db-async-failover", "the promoted replica does not have the row",
                    "harness run mysql-reentrant --topology replicated --nemesis failover --ttl 8s --hold 4s"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl)
        self.owner = uuid.uuid4().hex
        self.depth = 0

    def try_lock(self) -> Grant | None:
        try:
            self._insert()
            self.depth = 0  # an earlier hold was lost; its release must not end this one
        except Busy:
            if not self._is_mine():
                return None
            self._set(self.depth + 1)
        self.depth += 1
        return Grant()

    def unlock(self) -> bool:
        if not self.depth or not self._is_mine():
            self.depth = 0
            return False
        self.depth -= 1  # decremented even if the answer is lost: the next acquire writes the true count
        if self.depth:
            self._set(self.depth)
        else:
            self.session.execute(f"DELETE FROM reentrant_lock {self._MINE}", self.key, self.owner)
        return True

    _MINE = "WHERE name = %s AND owner = %s"

    def _insert(self) -> None:
        new = "INSERT INTO reentrant_lock (name, owner, count) VALUES (%s, %s, 1)"
        self.session.execute(new, self.key, self.owner)

    def _is_mine(self) -> bool:
        return bool(self.session.execute(f"SELECT count FROM reentrant_lock {self._MINE}", self.key, self.owner).rows)

    def _set(self, count: int) -> None:
        self.session.execute(f"UPDATE reentrant_lock SET count = %s {self._MINE}", count, self.key, self.owner)
