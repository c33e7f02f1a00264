"""django-pgware's ``advisory_lock``, unmodified; tested with django-pgware 1.0.0, Django 5.2.19 and psycopg 3.3.9.

django-pgware is the successor of django-pglocks: django-pglocks 2.1.0 imports its locks, with a deprecation warning.

Statements: ``SELECT pg_try_advisory_lock(number)``, repeated by this adapter · ``SELECT pg_advisory_unlock(number)``,
on the connection that Django has for the thread. The number is 64 bits of the SHA-256 hash of the name. The waiting
form is not used: it has no time-out.

Its documentation promises "context managers for PostgreSQL advisory locks", each of which "borrows Django's database
connection, performs a session-scoped action, and reliably undoes it on exit". The release is "best-effort": it warns if
the statement fails, and ignores that the session did not have the lock.
Source: django_pg_utils/locks/_sync.py; README.

Safe for: what pg_advisory_lock is safe for. The lock ends with the connection, which Django itself closes in
``close_old_connections``, which it calls at the end of each request, and so do Celery and others for each task.

Known failures: django-closed, pg-adv-lost, pg-adv-failover, late-acquire; behind PgBouncer in transaction mode
pg-pgbouncer-shared and pg-pgbouncer-stranded.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Self

import psycopg  # noqa: F401 - Django's driver; a client's container has what is imported here
import psycopg_binary  # noqa: F401
from django_pg_utils import advisory_lock

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.polling import poll
from harness.lock_impls.postgres_advisory import AdvisoryLock
from harness.lock_impls.postgres_client import POOLED_KINDS, Unreachable
from harness.lock_impls.thirdparty.django_connections import DjangoConnection
from harness.lock_impls.thirdparty.libpq import CONTAINERS_ONLY


class DjangoPgwareLock:
    info: ClassVar = LockInfo(
        name="django-pgware-lock",
        title="django-pgware's own advisory_lock, unmodified",
        algorithm="SELECT pg_try_advisory_lock(hash of key) until true; SELECT pg_advisory_unlock(hash of key).",
        source="django-pgware 1.0.0, django_pg_utils/locks/_sync.py",
        safety="F?",
        kinds=POOLED_KINDS,
        requires=("django-pgware==1.0.0", "Django==5.2.19", "psycopg==3.3.9", "psycopg-binary==3.3.9", "pg8000>=1.29"),
        library="django-pgware 1.0.0",
        promises="'Borrows Django's database connection, performs a session-scoped action, and reliably undoes it on "
        "exit'.",
        containers_only=CONTAINERS_ONLY,
        reentrant=True,
        on_death=AdvisoryLock.info.on_death,
        outage=AdvisoryLock.info.outage,
        failures=(
            Failure("pg-adv-failover", "the promoted standby does not know the lock, and the holder goes on",
                    "harness run django-pgware-lock --cluster docker --topology replicated --nemesis failover --hold 4s"
                    ),
            Failure("pg-adv-lost", "the connection is lost, and the holder goes on",
                    "harness run django-pgware-lock --cluster docker --nemesis connection-reset --hold 1s"),
            Failure("pg-pgbouncer-shared", "PgBouncer in transaction mode gives the lock's session to the next client",
                    "harness run django-pgware-lock --cluster docker --kind postgres-pgbouncer"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        self.database = DjangoConnection(endpoints)
        self._key = key
        self._entered: list[tuple[AbstractContextManager[bool], Any]] = []

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:  # noqa: ARG003
        """Ignore ``ttl``: the lock lasts as long as the connection."""
        return cls(endpoints, key)

    def acquire(self, timeout: float) -> Grant | None:
        return poll(self._try, timeout, worth_another=Unreachable)

    def _try(self) -> Grant | None:
        lock = advisory_lock(self._key, wait=False, using=self.database.alias)
        with self.database.outcome():
            acquired = lock.__enter__()
        if not acquired:
            lock.__exit__(None, None, None)
            return None
        self._entered.append((lock, self.database.session()))
        return Grant()

    def release(self) -> None:
        if not self._entered:
            raise LockError(f"{self._key} is not held by this client")
        lock, _ = self._entered.pop()
        with warnings.catch_warnings(record=True) as failed:
            warnings.simplefilter("always", RuntimeWarning)
            lock.__exit__(None, None, None)
        for warning in failed:
            raise Indeterminate(str(warning.message))

    def still_valid(self) -> bool:
        """Ask the server, on the connection that acquired the lock."""
        return bool(self._entered) and self.database.same(self._entered[-1][1])
