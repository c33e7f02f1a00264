"""PostgreSQL lock with pg_advisory_lock: a numbered lock that belongs to the session (the connection).

Commands: ``SELECT set_config('lock_timeout', ms, false)`` · ``SELECT pg_advisory_lock(hashtextextended(key, 0))``,
where error 55P03 means busy · ``SELECT pg_advisory_unlock(hashtextextended(key, 0))``. A session may lock a key again,
and must unlock it as often. The key is a hash of 64 bits; two names with the same hash would share a lock.
Source: PostgreSQL manual, "Advisory Locks" and "Advisory Lock Functions".

Safe for: cutting duplicate work, with connections of one's own. The lock ends with the session, which the holder learns
only when it asks. A pooler that lends the session to others keeps the lock, or gives it to somebody else.

Known failures: pg-adv-lost, pg-adv-failover, late-acquire (until the server notices that the client is gone); behind
PgBouncer in transaction mode pg-pgbouncer-shared and pg-pgbouncer-stranded; with a shorter hash also pg-adv-collision.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar, Self

from .base import Endpoints, Failure, Grant, LockError, LockInfo
from .polling import poll
from .postgres_client import (
    KEY,
    LONGEST_WAIT_S,
    POOLED_KINDS,
    REQUIRES,
    TIMEOUT_S,
    Busy,
    PostgresSession,
    Unreachable,
)


class AdvisoryLock:
    info: ClassVar = LockInfo(
        name="postgres-advisory",
        title="pg_advisory_lock, pg_advisory_unlock",
        algorithm="SELECT pg_advisory_lock(hash of key); SELECT pg_advisory_unlock(hash of key) = true.",
        source="PostgreSQL manual, Advisory Locks",
        safety="F?",
        kinds=POOLED_KINDS,
        requires=REQUIRES,
        reentrant=True,
        on_death=(
            "the server, when it notices that the connection is gone: at once, or after hours if the network does not "
            "report it"
        ),
        outage="the lock is lost with its server; unavailable until the server is back or a standby is promoted",
        failures=(
            Failure("pg-adv-failover", "the promoted standby does not know the lock, and the holder goes on",
                    "harness run postgres-advisory --topology replicated --nemesis failover --hold 4s"),
            Failure("pg-adv-lost", "the connection is lost, and the holder goes on",
                    "harness run postgres-advisory --nemesis connection-reset --hold 1s"),
            Failure("pg-pgbouncer-shared", "PgBouncer in transaction mode gives the lock's session to the next client",
                    "harness run postgres-advisory --kind postgres-pgbouncer"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        self.session = PostgresSession(endpoints, patience=LONGEST_WAIT_S + TIMEOUT_S)
        self.key = key
        self.depth = 0

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:  # noqa: ARG003
        """Ignore ``ttl``: the lock lasts as long as the connection."""
        return cls(endpoints, key, **options)

    def acquire(self, timeout: float) -> Grant | None:
        deadline = time.monotonic() + timeout
        return poll(lambda: self._try(deadline - time.monotonic()), timeout, worth_another=Unreachable)

    def _try(self, patience: float) -> Grant | None:
        if not self.session.connected:
            self.depth = 0  # the locks of a session end with it
        self.session.limit_waits(patience)
        try:
            self.call("pg_advisory_lock")
        except Busy:
            return None
        self.depth += 1
        return Grant()

    def call(self, function: str) -> Any:
        """Return the result of an SQL function of the lock's number."""
        return self.session.execute(f"SELECT {function}({KEY})", key=self.key).rows[0][0]

    def still_valid(self) -> bool:
        """Ask the server over the session that the lock belongs to."""
        return self.depth > 0 and self.session.answers()

    def release(self) -> None:
        if not self.depth:
            raise LockError(f"{self.key} is not held by this client")
        self.depth -= 1
        if not self.session.connected:
            self.depth = 0
            raise LockError(f"{self.key} was lost with its connection")
        if not self.call("pg_advisory_unlock"):
            raise LockError(f"{self.key} is not held by this session")
