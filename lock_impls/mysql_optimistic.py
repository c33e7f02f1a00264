"""MySQL lock with a version column: a conditional UPDATE, which succeeds only if the row has the version that was read,
decides who holds the lock.

Commands: ``SELECT version, held FROM version_row WHERE name = key`` · ``UPDATE version_row SET version = seen + 1, held
= 1 WHERE name = key AND version = seen``: one row changed = held, and the version is the fencing token · unlock: the
same with ``held = 0``; no row changed = another client has changed it since.
Source: articles 000 to 003 compare their locks with optimistic locking; DynamoDB's lock client and Kubernetes' Lease
build a lock in this way.

Pure optimistic locking has no lock: all clients read, all work, and the conditional UPDATE of the data itself succeeds
only for the first. No update is lost, work is wasted, and only one row of the same database is protected. This module
makes it comparable with a lock: the conditional UPDATE decides whose turn it is, and a second one at the end shows who
was late. A contender takes over from a holder that does not come back, once it has seen the same version for a ttl by
its own monotonic clock; no wall clock decides anything. So there is mutual exclusion as long as nobody is late, and a
late client is refused by the version: at the resource (``--fencing on``), and in release.

Safe for: correctness, if the resource refuses a version below the highest it has seen, on one server (or on a replica
that has received everything).

Known failures: ttl-pause-write, ttl-check-then-pause, ttl-net-delay, ttl-overrun (the fence covers all of these),
lost-reply-acquire and late-acquire (until the ttl), db-async-failover, db-semisync-fallback.
"""

from __future__ import annotations

import time
from typing import ClassVar

from .base import Endpoints, Failure, Grant, LockInfo
from .mysql_client import KINDS, REQUIRES, Busy, RowLock


class OptimisticLock(RowLock):
    TABLE: ClassVar = """CREATE TABLE IF NOT EXISTS version_row (
        name VARCHAR(190) NOT NULL PRIMARY KEY,
        version BIGINT NOT NULL,
        held INT NOT NULL
    ) ENGINE = InnoDB"""

    info: ClassVar = LockInfo(
        name="mysql-optimistic",
        title="Conditional UPDATE of a version column",
        algorithm="UPDATE SET version = seen + 1, held = 1 WHERE version = seen; the same with held = 0 to unlock.",
        source="articles 000 to 003; DynamoDB lock client, Kubernetes Lease",
        safety="F",
        kinds=KINDS,
        requires=REQUIRES,
        fence=True,
        on_death="the next contender, once it has seen the same version for a ttl",
        outage=(
        "unavailable until the server is back; with asynchronous replication, two holders and a repeated version "
        "after a failover"
),
        failures=(
            Failure("ttl-pause-write", "the holder is paused for longer than the ttl (--fencing on refuses its write)",
                    "harness run mysql-optimistic --nemesis client-pause"),
            Failure("ttl-overrun", "the work takes longer than the ttl", "harness run mysql-optimistic --hold 3s"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl)
        self.version = 0
        self.deadline = 0.0
        self._seen = -1
        self._seen_since = 0.0

    def try_lock(self) -> Grant | None:
        rows = self.session.execute("SELECT version, held FROM version_row WHERE name = %s", self.key).rows
        if not rows:
            self._make_row()
            return self.try_lock()
        ((version, held),) = rows
        if held and not self._is_stale(version):
            return None
        began = time.monotonic()
        if not self._change(version, held=1):
            return None
        self.version, self.deadline = version + 1, began + self.ttl
        return Grant(fence=self.version, valid_for=self.remaining(began))

    def _is_stale(self, version: int) -> bool:
        now = time.monotonic()
        if version != self._seen:
            self._seen, self._seen_since = version, now
        return now - self._seen_since >= self.ttl

    def _change(self, seen: int, *, held: int) -> bool:
        change = "UPDATE version_row SET version = %s, held = %s WHERE name = %s AND version = %s"
        return bool(self.session.execute(change, seen + 1, held, self.key, seen).count)

    def _make_row(self) -> None:
        try:
            self.session.execute("INSERT INTO version_row (name, version, held) VALUES (%s, 0, 0)", self.key)
        except Busy:
            return  # another client has inserted it

    def unlock(self) -> bool:
        version, self.version, self.deadline = self.version, 0, 0.0
        return bool(version) and self._change(version, held=0)

    def still_valid(self) -> bool:
        """Decide by this client's monotonic clock alone, without a request."""
        return time.monotonic() < self.deadline
