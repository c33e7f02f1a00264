"""tooz's own lock on PostgreSQL, for names whose hashes begin alike. psycopg2 is a C library, so it runs on containers
only."""

from __future__ import annotations

import logging
from typing import Any, ClassVar, Final, Self

import psycopg2  # noqa: F401 - tooz's driver needs it, and a client's container has what is imported here
from stevedore import DriverManager
from tooz import ToozError, coordination

from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError
from harness.lock_impls.origins import use_of
from harness.lock_impls.polling import poll

DriverManager("tooz.backends", "postgresql", invoke_on_load=False)
"""Fill stevedore's cache before the run, as for tooz-memcached."""
GROUP: Final = "group-152465"
"""Prefix of the names; the hashes of k0 and k1 in it begin alike."""

logging.getLogger("tooz").addHandler(logging.NullHandler())


class TwoNames:
    """pg-adv-collision: the program takes ``coordinator.get_lock(name)`` for one lock a name."""

    origin: ClassVar = use_of("tooz", "9.1.0", "names whose hashes begin alike", "tooz/drivers/pgsql.py, line 110")
    kinds: ClassVar = ("postgres",)

    def __init__(self, url: str, key: str) -> None:
        self._lock: Any = coordination.get_coordinator(url, b"client").get_lock(f"{GROUP}/{key}".encode())

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        """Ignore ``ttl``: the lock lasts as long as the connection."""
        host, port = endpoints.addresses[0]
        return cls(f"postgresql://{endpoints.account}@{host}:{port}/{endpoints.account}", key)

    def acquire(self, timeout: float) -> Grant | None:
        try:
            return poll(self._try, timeout)
        except ToozError as error:
            raise Indeterminate(str(error)) from error

    def _try(self) -> Grant | None:
        return Grant() if self._lock.acquire(blocking=False) else None

    def release(self) -> None:
        try:
            released = self._lock.release()
        except ToozError as error:
            raise Indeterminate(str(error)) from error
        if not released:
            raise LockError("not held")
