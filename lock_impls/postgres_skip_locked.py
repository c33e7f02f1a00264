"""PostgreSQL lock with SELECT ... FOR UPDATE SKIP LOCKED: workers claim the row of a job in an open transaction.

Commands: ``BEGIN`` · ``SELECT name FROM lock_job WHERE name = key FOR UPDATE SKIP LOCKED``, where no row means busy ·
``COMMIT`` = unlock. Nobody waits in the server: a worker that finds no row asks again later. The row is inserted
beforehand, in its own transaction (``ON CONFLICT DO NOTHING``). A job queue selects any row that is to do instead of
one by its name, and deletes it before COMMIT.
Source: PostgreSQL manual, SELECT, "The Locking Clause"; job queues such as GoodJob, que and queue_classic.

Safe for: jobs that do their work in the same transaction, which is rolled back with the claim. For anything outside,
the claim is as reliable as the connection: when that is lost, or the server restarts, the next worker takes the job
while the first one works on (bensheldon/good_job#90). A deleted row looks like a claimed one.

Known failures: fu-conn-lost, late-acquire (until the server notices that the client is gone).
"""

from __future__ import annotations

from typing import ClassVar

from .base import Failure, LockInfo
from .postgres_client import KINDS, REQUIRES, Busy
from .postgres_row import PostgresRowLock


class PostgresSkipLockedLock(PostgresRowLock):
    TABLE: ClassVar = "CREATE TABLE IF NOT EXISTS lock_job (name TEXT PRIMARY KEY)"
    INSERT: ClassVar = "INSERT INTO lock_job (name) VALUES (:key) ON CONFLICT DO NOTHING"

    info: ClassVar = LockInfo(
        name="postgres-skip-locked",
        title="SELECT ... FOR UPDATE SKIP LOCKED in an open transaction, as job queues claim rows",
        algorithm="BEGIN; SELECT ... WHERE key FOR UPDATE SKIP LOCKED: a row = held, none = busy; COMMIT.",
        source="PostgreSQL manual, SELECT, The Locking Clause",
        safety="E",
        kinds=KINDS,
        requires=REQUIRES,
        on_death=(
            "the server, when it notices that the connection is gone: at once, or after hours if the network does not "
            "report it"
        ),
        outage="the lock is lost with its server; unavailable until the server is back",
        failures=(
            Failure("fu-conn-lost", "the connection is lost, and the next worker takes the job while the first one "
                    "works on", "harness run postgres-skip-locked --nemesis connection-reset --hold 1s"),
        ),
    )  # fmt: skip

    def take(self) -> None:
        statement = "SELECT name FROM lock_job WHERE name = :key FOR UPDATE SKIP LOCKED"
        if not self.session.ask(statement, key=self.key).rows:
            raise Busy(f"the row {self.key} is claimed")
