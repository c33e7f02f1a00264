"""MySQL lock with a unique row, an expiry time and a number: expired rows are deleted, and the number is a fencing
token.

Commands: ``INSERT INTO lease (name, owner, expires) VALUES (key, me, ADDTIME(NOW(6), ttl))``: the auto-increment id is
the token · after a duplicate key ``DELETE FROM lease WHERE name = key AND expires <= NOW(6)`` and another try ·
``DELETE FROM lease WHERE name = key AND id = mine``. In the article a thread deletes all expired rows; here each
contender deletes the row that it wants.
Source: article 003 (lock table with id, key, value and ttl).

Safe for: correctness, if the resource refuses a number below the highest it has seen, on one server (or on a replica
that has received everything). Before MySQL 8.0 and MariaDB 10.2.4 a restart reset the counter to the highest remaining
row, so numbers repeat there. They may repeat after an asynchronous failover too.

Known failures: ttl-pause-write, ttl-check-then-pause, ttl-net-delay, ttl-overrun (the fence covers all of these),
lost-reply-acquire and late-acquire (until the ttl), db-async-failover, db-semisync-fallback; a jump of the server's
clock ends leases early or late.
"""

from __future__ import annotations

import time
import uuid
from typing import ClassVar

from .base import Endpoints, Failure, Grant, LockInfo
from .mysql_client import KINDS, REQUIRES, Busy, RowLock, span


class TtlLock(RowLock):
    TABLE: ClassVar = """CREATE TABLE IF NOT EXISTS lease (
        id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        name VARCHAR(190) NOT NULL,
        owner VARCHAR(64) NOT NULL,
        expires DATETIME(6) NOT NULL,
        UNIQUE KEY (name)
    ) ENGINE = InnoDB"""

    info: ClassVar = LockInfo(
        name="mysql-ttl",
        title="INSERT of a unique row with a ttl; its id is the fencing token",
        algorithm="INSERT (key, now + ttl), id = fence; duplicate key: DELETE WHERE key AND expired; DELETE WHERE id.",
        source="article 003",
        safety="F",
        kinds=KINDS,
        requires=REQUIRES,
        fence=True,
        on_death="the next contender after the ttl, by the server's clock",
        outage=(
        "unavailable until the server is back; with asynchronous replication, two holders and a repeated number "
        "after a failover"
),
        failures=(
            Failure("ttl-pause-write", "the holder is paused for longer than the ttl (--fencing on refuses its write)",
                    "harness run mysql-ttl --nemesis client-pause"),
            Failure("ttl-overrun", "the work takes longer than the ttl", "harness run mysql-ttl --hold 3s"),
            Failure("db-async-failover", "the promoted replica does not have the row",
                    "harness run mysql-ttl --topology replicated --nemesis failover --ttl 8s --hold 4s"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl)
        self.number = 0
        self.deadline = 0.0

    def try_lock(self) -> Grant | None:
        try:
            return self._insert()
        except Busy:
            if not self._clean():
                return None
            return self._insert()

    def _insert(self) -> Grant:
        began = time.monotonic()
        new = "INSERT INTO lease (name, owner, expires) VALUES (%s, %s, ADDTIME(NOW(6), %s))"
        self.number = self.session.execute(new, self.key, uuid.uuid4().hex, span(self.ttl)).last_id
        self.deadline = began + self.ttl
        return Grant(fence=self.number, valid_for=self.remaining(began))

    def _clean(self) -> bool:
        stale = "DELETE FROM lease WHERE name = %s AND expires <= NOW(6)"
        return bool(self.session.execute(stale, self.key).count)

    def unlock(self) -> bool:
        number, self.number, self.deadline = self.number, 0, 0.0
        if not number:
            return False
        return bool(self.session.execute("DELETE FROM lease WHERE name = %s AND id = %s", self.key, number).count)

    def still_valid(self) -> bool:
        """Decide by this client's monotonic clock alone, without a request."""
        return time.monotonic() < self.deadline
