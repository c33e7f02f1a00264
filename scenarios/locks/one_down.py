"""rlpy-one-down: Redlock on five servers, where each client cannot reach one of them after its first hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final, Self

from redis.backoff import NoBackoff
from redis.retry import Retry

from harness.lock_impls import redlock
from harness.lock_impls.base import Endpoints, Grant
from harness.lock_impls.origins import use_of, variant_of
from harness.lock_impls.redis_client import RedisClient, open_client
from harness.lock_impls.thirdparty import redlock_py

NOBODY_LISTENS: Final = 1
"""A port on which connections are refused."""


def _client_of_dead_server(endpoints: Endpoints) -> RedisClient:
    """Open a client of a server that refuses connections; it tries once, as redis-py did before 6.0."""
    host, _ = endpoints.addresses[-1]
    return open_client(replace(endpoints, addresses=((host, NOBODY_LISTENS),)), retry=Retry(NoBackoff(), 0))


class RedlockPyOneDown(redlock_py.RedlockPy):
    """redlock-py, unmodified: four servers grant the lock, but it fails without the fifth."""

    origin: ClassVar = use_of(
        "redlock-py", "1.0.8", "one server that refuses connections", "redlock/__init__.py, line 112"
    )
    gone: RedisClient

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        lock = super().open(endpoints, key, ttl)
        lock.gone = _client_of_dead_server(endpoints)
        return lock

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        if grant is not None:
            self._manager.servers[-1] = self.gone
        return grant


class RedlockOneDown(redlock.Redlock):
    """Cured: a server that does not answer counts as no vote."""

    origin: ClassVar = variant_of("redlock", "one server that refuses connections")
    gone: RedisClient

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        lock = super().open(endpoints, key, ttl, **options)
        lock.gone = _client_of_dead_server(endpoints)
        return lock

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        if grant is not None:
            self.nodes[-1] = self.gone
        return grant
