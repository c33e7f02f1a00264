"""django-pgware's own lock in a program that closes Django's old connections. psycopg is a C library, so it runs on
containers only."""

from __future__ import annotations

from typing import Any, ClassVar

import django_pg_utils  # noqa: F401 - a client's container has what is imported here
import psycopg  # noqa: F401
import psycopg_binary  # noqa: F401
from django.db import close_old_connections, connections

from harness.lock_impls.base import Endpoints, Grant
from harness.lock_impls.origins import use_of
from harness.lock_impls.thirdparty.django_pgware_lock import DjangoPgwareLock


class ClosesOldConnections(DjangoPgwareLock):
    """django-closed: the critical section calls code that ends with ``close_old_connections``, as a task does that is
    run in place, or a handler of another server than Django's own."""

    origin: ClassVar = use_of(
        "django-pgware", "1.0.0", "a critical section that closes old connections", "django/db/__init__.py, line 57"
    )
    max_age_s: ClassVar[int | None] = 0
    """Django's default of ``CONN_MAX_AGE``."""

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        settings: dict[str, Any] = connections.databases[self.database.alias]
        settings["CONN_MAX_AGE"] = self.max_age_s

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        if grant is not None:
            close_old_connections()
        return grant


class PersistentConnections(ClosesOldConnections):
    """django-closed, cured by persistent connections, which are not closed while they work."""

    origin: ClassVar = ClosesOldConnections.origin.fixed("CONN_MAX_AGE is None")
    max_age_s = None
