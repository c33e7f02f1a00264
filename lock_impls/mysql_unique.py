"""MySQL lock with a unique row: the client that inserts it has the lock, and deletes it to unlock.

Commands: ``INSERT INTO locked_order (order_id, memo, update_time) VALUES (key, '', NOW(6))``, where error 1062
(duplicate entry) means busy · ``DELETE FROM locked_order WHERE order_id = key``. Each is its own transaction
(autocommit).
Source: article 000 (``lockedOrder``); article 001 has the same idea.

Safe for: cutting duplicate work among clients that never die. No owner: anybody's DELETE frees it. No expiry: the row
of a dead holder, or of an INSERT whose answer was lost, stays for ever.

Known failures: uniq-crash, uniq-reent-self, lost-reply-acquire, late-acquire, db-async-failover, db-semisync-fallback;
inside a transaction of the user's own also uniq-in-open-tx.
"""

from __future__ import annotations

from typing import ClassVar

from .base import Failure, Grant, LockInfo
from .mysql_client import KINDS, REQUIRES, RowLock


class UniqueLock(RowLock):
    TABLE: ClassVar = """CREATE TABLE IF NOT EXISTS locked_order (
        order_id VARCHAR(190) NOT NULL PRIMARY KEY,
        memo VARCHAR(64) NOT NULL,
        update_time DATETIME(6) NOT NULL
    ) ENGINE = InnoDB"""

    info: ClassVar = LockInfo(
        name="mysql-unique",
        title="INSERT of a unique row, DELETE",
        algorithm="INSERT (key): duplicate key = busy; DELETE WHERE key.",
        source="article 000",
        safety="E",
        kinds=KINDS,
        requires=REQUIRES,
        on_death="nothing",
        outage="unavailable until the server is back; with asynchronous replication, two holders after a failover",
        failures=(
            Failure("uniq-crash", "the holder dies, and its row stays for ever",
                    "harness run mysql-unique --nemesis client-crash"),
            Failure("lost-reply-acquire", "an INSERT is executed but its answer is lost, so nobody deletes the row",
                    "harness run mysql-unique --nemesis lost-reply --clients 2"),
            Failure("db-async-failover", "the promoted replica does not have the row",
                    "harness run mysql-unique --topology replicated --nemesis failover --ttl 8s --hold 4s"),
        ),
    )  # fmt: skip

    def try_lock(self) -> Grant | None:
        self.session.execute("INSERT INTO locked_order (order_id, memo, update_time) VALUES (%s, '', NOW(6))", self.key)
        return Grant()

    def unlock(self) -> bool:
        return bool(self.session.execute("DELETE FROM locked_order WHERE order_id = %s", self.key).count)
