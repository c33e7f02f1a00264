"""A version column: nobody waits in the database, and whoever changes a row must have seen its last version.

Commands: ``SELECT version, held FROM version_row WHERE name = key`` · ``UPDATE version_row SET version = seen + 1, held
= 1 WHERE name = key AND version = seen``: one row changed = held, and the version is the fencing token · unlock: the
same with ``held = 0``; no row changed = somebody else has been here since.
Source: articles 000 to 003 compare their locks with optimistic locking; DynamoDB's lock client and Kubernetes' Lease
make a lock of it in this way.

In its pure form there is no lock: all read, all work, and the conditional UPDATE of the data itself is refused to all
but the first. Nothing is ever lost, work is done in vain, and it protects one row of the same database only. What can
be compared with a lock is this: the conditional UPDATE decides whose turn it is, and the second one at the end tells
who was late. A holder that does not come back is passed over by who has seen the same version for a ttl, by his own
monotonic clock: no wall clock decides anything. So there is mutual exclusion as long as nobody is late, and the version
refuses who was: at the resource (``--fencing on``), and in release.

Safe for: correctness, together with a resource that refuses a version below the highest it has seen, on one server (or
a replica that has got everything).
Known failures: ttl-pause-write, ttl-check-then-pause, ttl-net-delay, ttl-overrun (all saved by the fence),
lost-reply-acquire and late-acquire (until the ttl), db-async-failover, db-semisync-fallback.
"""

from __future__ import annotations

import time
from typing import ClassVar

from lock_impls.base import Endpoints, Failure, Grant, LockInfo
from lock_impls.mysql_client import KINDS, Busy, RowLock


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
        fence=True,
        on_death="the next contender, when it has seen the same version for a ttl",
        outage="no lock until the server is back; with asynchronous replication, two holders after a failover, and the "
        "same version twice",
        failures=(
            Failure("ttl-pause-write", "the holder stands still for longer than the ttl (--fencing on refuses it)",
                    "harness run mysql-optimistic --nemesis client-pause"),
            Failure("ttl-overrun", "work that takes longer than the ttl", "harness run mysql-optimistic --hold 3s"),
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
            return  # somebody else has made it

    def unlock(self) -> bool:
        version, self.version, self.deadline = self.version, 0, 0.0
        return bool(version) and self._change(version, held=0)

    def still_valid(self) -> bool:
        """By this client's monotonic clock alone; asks nobody."""
        return time.monotonic() < self.deadline
