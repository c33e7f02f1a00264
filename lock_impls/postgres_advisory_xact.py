"""PostgreSQL lock with pg_advisory_xact_lock: a numbered lock that belongs to the transaction.

Commands: ``BEGIN`` · ``SELECT set_config('lock_timeout', ms, true)`` · ``SELECT
pg_advisory_xact_lock(hashtextextended(key, 0))``, where error 55P03 means busy · ``COMMIT`` = unlock. It cannot be
unlocked before the transaction ends, so a pooler in transaction mode does not separate lock and unlock.
Source: PostgreSQL manual, "Advisory Locks".

Safe for: data that is changed in the same transaction, whose changes are lost with the lock. For anything outside, the
lock is as reliable as the connection.

Known failures: pg-adv-lost, pg-adv-failover, late-acquire (until the server notices that the client is gone); with a
shorter hash also pg-adv-collision.
"""

from __future__ import annotations

from typing import ClassVar

from .base import Failure, LockInfo
from .postgres_client import KEY, POOLED_KINDS, REQUIRES
from .postgres_transaction import TransactionLock


class AdvisoryXactLock(TransactionLock):
    info: ClassVar = LockInfo(
        name="postgres-advisory-xact",
        title="pg_advisory_xact_lock in an open transaction",
        algorithm="BEGIN; SELECT pg_advisory_xact_lock(hash of key); COMMIT.",
        source="PostgreSQL manual, Advisory Locks",
        safety="F?",
        kinds=POOLED_KINDS,
        requires=REQUIRES,
        on_death=(
            "the server, when it notices that the connection is gone: at once, or after hours if the network does not "
            "report it"
        ),
        outage="the lock is lost with its server; unavailable until the server is back or a standby is promoted",
        failures=(
            Failure("pg-adv-failover", "the promoted standby does not know the lock, and the holder goes on",
                    "harness run postgres-advisory-xact --topology replicated --nemesis failover --hold 4s"),
            Failure("pg-adv-lost", "the connection is lost while the holder works on something else",
                    "harness run postgres-advisory-xact --nemesis connection-reset --hold 1s"),
        ),
    )  # fmt: skip

    def take(self) -> None:
        self.session.execute(f"SELECT pg_advisory_xact_lock({KEY})", key=self.key)
