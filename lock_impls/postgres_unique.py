"""PostgreSQL lock with a unique row: the client that inserts it has the lock, and deletes it to unlock.

Commands: ``INSERT INTO locked_order (order_id, update_time) VALUES (key, now()) ON CONFLICT DO NOTHING``: one row =
held, none = busy · ``DELETE FROM locked_order WHERE order_id = key``. Each is its own transaction (autocommit).
Source: article 000 (``lockedOrder``), with PostgreSQL's way of an insert that may find the row.

Safe for: cutting duplicate work among clients that never die. No owner: anybody's DELETE frees it. No expiry: the row
of a dead holder, or of an INSERT whose answer was lost, stays for ever.

Known failures: uniq-crash, uniq-reent-self, lost-reply-acquire, late-acquire, pg-unique-failover.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from .base import Endpoints, Failure, Grant, LockError, LockInfo
from .polling import poll
from .postgres_client import KINDS, REQUIRES, Busy, PostgresSession, Unreachable


class PostgresUniqueLock:
    TABLE: ClassVar = (
        "CREATE TABLE IF NOT EXISTS locked_order (order_id TEXT PRIMARY KEY, update_time TIMESTAMPTZ NOT NULL)"
    )

    info: ClassVar = LockInfo(
        name="postgres-unique",
        title="INSERT of a unique row ON CONFLICT DO NOTHING, DELETE",
        algorithm="INSERT (key) ON CONFLICT DO NOTHING: no row = busy; DELETE WHERE key.",
        source="article 000",
        safety="E",
        kinds=KINDS,
        requires=REQUIRES,
        on_death="nothing",
        outage="unavailable until the server is back; with asynchronous replication, two holders after a failover",
        failures=(
            Failure("uniq-crash", "the holder dies, and its row stays for ever",
                    "harness run postgres-unique --nemesis client-crash"),
            Failure("pg-unique-failover", "the promoted standby does not have the row",
                    "harness run postgres-unique --topology replicated --nemesis failover --hold 4s"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        self.session = PostgresSession(endpoints, self.TABLE)
        self.key = key

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:  # noqa: ARG003
        """Ignore ``ttl``: the row stays until it is deleted."""
        return cls(endpoints, key, **options)

    def acquire(self, timeout: float) -> Grant | None:
        return poll(self._try, timeout, worth_another=Unreachable)

    def _try(self) -> Grant | None:
        try:
            done = self.session.execute(
                "INSERT INTO locked_order (order_id, update_time) VALUES (:key, now()) ON CONFLICT DO NOTHING",
                key=self.key,
            )
        except Busy:
            return None
        return Grant() if done.count else None

    def release(self) -> None:
        if not self.session.execute("DELETE FROM locked_order WHERE order_id = :key", key=self.key).count:
            raise LockError(f"{self.key} is not held by this client")
