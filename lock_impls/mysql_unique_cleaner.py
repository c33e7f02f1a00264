"""The unique row of article 000 with its cleaner: a row that is older than a given age counts as a dead holder's.

Commands: as ``mysql-unique``, and after a duplicate key ``DELETE FROM locked_order WHERE order_id = key AND update_time
< ADDTIME(NOW(6), '-00:02:00')`` before another try. ``age`` is that age in seconds. The article has two minutes and a
job that cleans all rows; here it is the ttl, and each contender cleans the row that it wants.
Source: article 000.

Safe for: cutting duplicate work that certainly takes less than the age, on servers whose clocks do not jump. A live
holder that is late loses its row. Then its DELETE, which checks no owner, frees the next holder's lock.

Known failures: uniq-cleaner-live, uniq-del-foreign, uniq-reent-self, lost-reply-acquire (until the age), late-acquire,
db-async-failover, db-semisync-fallback, and ttl-pause-write, ttl-net-delay with the age for a ttl.
"""

from __future__ import annotations

import time
from typing import ClassVar

from .base import Endpoints, Failure, Grant, LockInfo
from .mysql_client import Busy, span
from .mysql_unique import UniqueLock


class UniqueCleanerLock(UniqueLock):
    info: ClassVar = LockInfo(
        name="mysql-unique-cleaner",
        title="INSERT of a unique row; old rows are deleted",
        algorithm="INSERT (key, now); duplicate key: DELETE WHERE key AND update_time < now - age; DELETE WHERE key.",
        source="article 000",
        safety="E",
        kinds=UniqueLock.info.kinds,
        requires=UniqueLock.info.requires,
        options={"age": 0.0},
        on_death="the next contender after the age, by the server's clock",
        outage="unavailable until the server is back; with asynchronous replication, two holders after a failover",
        failures=(
            Failure("uniq-cleaner-live", "the work takes longer than the age: the row is deleted during it",
                    "harness run mysql-unique-cleaner --hold 3s"),
            Failure("uniq-del-foreign", "a late holder's release frees the next holder's lock",
                    "harness run mysql-unique-cleaner --hold 3s"),
            Failure("ttl-pause-write", "the holder is paused for longer than the age",
                    "harness run mysql-unique-cleaner --nemesis client-pause"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str, ttl: float, age: float = 0.0) -> None:
        """``age`` in seconds; 0 means the ttl."""
        super().__init__(endpoints, key, age or ttl)

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        try:
            super().try_lock()
        except Busy:
            if not self._clean():
                return None
            began = time.monotonic()
            super().try_lock()
        return Grant(valid_for=self.remaining(began))

    def _clean(self) -> bool:
        stale = "DELETE FROM locked_order WHERE order_id = %s AND update_time < ADDTIME(NOW(6), %s)"
        return bool(self.session.execute(stale, self.key, span(-self.ttl)).count)
