"""rlpy-one-down: Redlock on five servers, and each client finds one of them gone after its first hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Self

from redis.backoff import NoBackoff
from redis.retry import Retry

from lock_impls import redlock
from lock_impls.base import Endpoints, Grant
from lock_impls.redis_client import Client, open_client
from lock_impls.thirdparty import redlock_py

NOBODY_LISTENS: Final = 1
"""A port: who connects to it is refused."""


def _gone(endpoints: Endpoints) -> Client:
    """Of a server that refuses connections; it tries once, as redis-py did before 6.0."""
    host, _ = endpoints.addresses[-1]
    return open_client(replace(endpoints, addresses=((host, NOBODY_LISTENS),)), retry=Retry(NoBackoff(), 0))


class RedlockPy(redlock_py.RedlockPy):
    """redlock-py, unmodified: four say yes, and it is nothing without the fifth."""

    gone: Client

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        lock = super().open(endpoints, key, ttl)
        lock.gone = _gone(endpoints)
        return lock

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        if grant is not None:
            self._manager.servers[-1] = self.gone
        return grant


class Redlock(redlock.Redlock):
    """Cured: a server that does not answer has not voted."""

    gone: Client

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        lock = super().open(endpoints, key, ttl, **options)
        lock.gone = _gone(endpoints)
        return lock

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        if grant is not None:
            self.nodes[-1] = self.gone
        return grant
