"""Shared parts of the locks that use Django's connections to PostgreSQL, with psycopg 3 as their driver."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import django
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError, connections

from harness.lock_impls.base import Endpoints, Indeterminate, LockError
from harness.lock_impls.postgres_client import Unreachable
from harness.lock_impls.thirdparty.libpq import TIMEOUTS

if not settings.configured:
    settings.configure()
django.setup()  # it warns of statements before that

_NUMBERS: Final = itertools.count()


class DjangoConnection:
    """A database of Django's settings for one lock object. As Django has it, each thread has its own connection to it,
    which Django opens when a statement needs it."""

    def __init__(self, endpoints: Endpoints) -> None:
        (host, port), *_ = endpoints.addresses
        database = {
            "ENGINE": "django.db.backends.postgresql", "HOST": host, "PORT": port, "NAME": endpoints.database,
            "USER": endpoints.user, "PASSWORD": endpoints.password, "OPTIONS": dict(TIMEOUTS),
        }  # fmt: skip
        self.alias = f"lock{next(_NUMBERS)}"
        """The name of the database, which the libraries call ``using``."""
        connections.databases[self.alias] = connections.configure_settings({"default": {}, self.alias: database})[
            self.alias
        ]

    def session(self) -> Any:
        """Return the driver's connection of this thread; None if there is none."""
        return connections[self.alias].connection

    @contextmanager
    def outcome(self) -> Iterator[None]:
        """Translate Django's errors: Unreachable without a connection, Indeterminate if it was lost meanwhile, another
        LockError if the server refused. A connection that was lost is closed, as Django does at the end of a
        request."""
        wrapper = connections[self.alias]
        try:
            wrapper.ensure_connection()
        except (OperationalError, InterfaceError) as error:
            raise Unreachable(f"cannot connect: {error}") from error
        try:
            yield
        except DatabaseError as error:
            if wrapper.connection is not None and not wrapper.connection.closed:
                raise LockError(str(error)) from error
            raise Indeterminate(f"{type(error).__name__}: {error}") from error
        finally:
            if wrapper.connection is not None and wrapper.connection.closed:
                wrapper.close()

    def same(self, session: Any) -> bool:
        """Return whether this is still the thread's connection, and the server answers on it."""
        wrapper = connections[self.alias]
        return session is not None and wrapper.connection is session and bool(wrapper.is_usable())
