"""django-pglock's ``pglock.advisory``, unmodified; tested with django-pglock 1.8.0, Django 5.2.19 and psycopg 3.3.9.

Statements: ``SELECT set_config('lock_timeout', ms, false)`` · ``SELECT pg_advisory_lock(number)``, where an
OperationalError counts as busy · ``SELECT set_config('lock_timeout', NULL, false)`` · ``SELECT
pg_advisory_unlock(number)``, on the connection that Django has for the thread. The number is 64 bits of the SHA-256
hash of the name. With a time-out below a millisecond it executes ``SELECT pg_try_advisory_lock(number)`` instead.

Its documentation promises "application-level locking, for example, ensuring that tasks don't overlap". ``release``
ignores that the session did not have the lock.
Source: pglock/core.py; README.

Safe for: what pg_advisory_lock is safe for. The lock ends with the connection, which Django itself closes in
``close_old_connections``, which it calls at the end of each request, and so do Celery and others for each task.

Known failures: django-closed, pg-adv-lost, pg-adv-failover, late-acquire; behind PgBouncer in transaction mode
pg-pgbouncer-shared and pg-pgbouncer-stranded.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar, Self

import psycopg  # noqa: F401 - Django's driver; a client's container has what is imported here
import psycopg_binary  # noqa: F401
from pglock import advisory

from harness.lock_impls.base import Endpoints, Failure, Grant, LockError, LockInfo
from harness.lock_impls.polling import poll
from harness.lock_impls.postgres_advisory import AdvisoryLock
from harness.lock_impls.postgres_client import LONGEST_WAIT_S, POOLED_KINDS, Unreachable
from harness.lock_impls.thirdparty.django_connections import DjangoConnection
from harness.lock_impls.thirdparty.libpq import CONTAINERS_ONLY


class DjangoPglock:
    info: ClassVar = LockInfo(
        name="django-pglock",
        title="django-pglock's own pglock.advisory, unmodified",
        algorithm="SELECT pg_advisory_lock(hash of key) with a lock_timeout; SELECT pg_advisory_unlock(hash of key).",
        source="django-pglock 1.8.0, pglock/core.py",
        safety="F?",
        kinds=POOLED_KINDS,
        requires=("django-pglock==1.8.0", "Django==5.2.19", "psycopg==3.3.9", "psycopg-binary==3.3.9", "pg8000>=1.29"),
        library="django-pglock 1.8.0",
        promises="'pglock.advisory for application-level locking, for example, ensuring that tasks don't overlap.'",
        containers_only=CONTAINERS_ONLY,
        reentrant=True,
        on_death=AdvisoryLock.info.on_death,
        outage=AdvisoryLock.info.outage,
        failures=(
            Failure("pg-adv-failover", "the promoted standby does not know the lock, and the holder goes on",
                    "harness run django-pglock --cluster docker --topology replicated --nemesis failover --hold 4s"),
            Failure("pg-adv-lost", "the connection is lost, and the holder goes on",
                    "harness run django-pglock --cluster docker --nemesis connection-reset --hold 1s"),
            Failure("pg-pgbouncer-shared", "PgBouncer in transaction mode gives the lock's session to the next client",
                    "harness run django-pglock --cluster docker --kind postgres-pgbouncer"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        self.database = DjangoConnection(endpoints)
        self._key = key
        self._held: list[tuple[Any, Any]] = []

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:  # noqa: ARG003
        """Ignore ``ttl``: the lock lasts as long as the connection."""
        return cls(endpoints, key)

    def acquire(self, timeout: float) -> Grant | None:
        deadline = time.monotonic() + timeout
        return poll(lambda: self._try(deadline - time.monotonic()), timeout, worth_another=Unreachable)

    def _try(self, patience: float) -> Grant | None:
        lock = advisory(self._key, timeout=max(0.0, min(LONGEST_WAIT_S, patience)), using=self.database.alias)
        with self.database.outcome():
            if not lock.acquire():
                return None
        self._held.append((lock, self.database.session()))
        return Grant()

    def release(self) -> None:
        if not self._held:
            raise LockError(f"{self._key} is not held by this client")
        lock, _ = self._held.pop()
        with self.database.outcome():
            lock.release()

    def still_valid(self) -> bool:
        """Ask the server, on the connection that acquired the lock."""
        return bool(self._held) and self.database.same(self._held[-1][1])
