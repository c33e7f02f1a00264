"""redlock-ng's ``Redlock`` (Redis, Python), unmodified; tested with redlock-ng 2.0.4 beside redis 8.1.0.

It installs as ``redlock``, as redlock-py does, so no environment can have both: this folder contains the wheel as PyPI
publishes it, and imports it under another name. It requires redis 5, whose client repeats no request; here it gets
clients of redis 8.1.0 that do not repeat either.

Its documentation promises to be "production-grade" and "resilient to single node failures", and tells users to look at
``lock.valid``, which stays True until the lock is released: :meth:`still_valid` is that flag. ``extend`` replaces the
remaining time by the given time. It computes the remaining ttl from two readings of the *wall* clock.

Requests: ``SET key token NX PX ms`` on each server in turn, which has 0.1 s to answer; four tries, 0.1 to 0.3 s apart ·
release: ``EVAL`` of "if GET is mine then DEL" on each. Errors of a release are swallowed, even if all servers fail;
this adapter relies on its answer.
Source: redlock/lock.py.

Safe for: what redlock is safe for, as long as the client's clock does not jump.

Known failures: rlng-valid, rlng-release, rl-client-clock, rl-clock-jump, rl-restart, ttl-pause-write, ttl-overrun.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Final

import pydantic  # noqa: F401 - the wheel needs it, and a client's container has what is imported here
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness.lock_impls.base import Endpoints, Grant, LockError, LockInfo
from harness.lock_impls.polling import poll
from harness.lock_impls.redis_client import RedisClient, known_grant, open_client_of_each
from harness.lock_impls.redis_failures import EXPIRES, redlocks

WHEEL: Final = Path(__file__).parent / "wheels" / "redlock_ng-2.0.4-py3-none-any.whl"
SHA256: Final = "3f7919c29acc3e1f04df83198b89e5470978022003151536fc2163b9b195b2cd"
"""SHA-256 of the wheel as PyPI publishes it."""


def _import_wheel(name: str) -> Any:
    """Import the wheel's package ``redlock`` as the module ``name``; its own imports are all relative."""
    package = ModuleType(name)
    package.__path__ = [f"{WHEEL}/redlock"]
    sys.modules[name] = package
    return importlib.import_module(f"{name}.lock")


redlock_ng: Final = _import_wheel("_redlock_ng")


class RedlockNg:
    info: ClassVar = LockInfo(
        name="redlock-ng",
        title="redlock-ng's own Redlock, unmodified",
        algorithm=(
            "SET key token NX PX ms on N nodes; held with N//2+1; validity = ttl - elapsed wall-clock time - drift."
        ),
        source="redlock-ng 2.0.4, redlock/lock.py",
        safety="E",
        kinds=("redis-independent",),
        requires=("pydantic>=2.5", "redis==8.1.0"),
        library="redlock-ng 2.0.4",
        promises=(
            "'A production-grade [...] implementation of the Redis Redlock algorithm', 'resilient to single node "
            "failures'; lock.valid says whether the lock is held."
        ),
        on_death=EXPIRES,
        outage="none while a majority of the servers is up",
        no_single_point=True,
        failures=redlocks("redlock-ng"),
    )

    def __init__(self, addresses: tuple[tuple[str, int], ...], key: str, ttl: float) -> None:
        self._manager = redlock_ng.Redlock([f"redis://{host}:{port}/0" for host, port in addresses])
        self._key, self._ttl_ms = key, int(ttl * 1000)
        self._clients = self._count_answers(addresses)
        self._held: Any = None

    def _count_answers(self, addresses: tuple[tuple[str, int], ...]) -> tuple[RedisClient, ...]:
        config = self._manager.client.config
        clients = open_client_of_each(
            Endpoints("redis-independent", addresses),
            socket_timeout=config.socket_timeout,
            socket_connect_timeout=config.socket_connect_timeout,
            retry=Retry(NoBackoff(), 0),
        )
        self._manager.client.instances = list(clients)
        return clients

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> RedlockNg:
        return cls(endpoints.addresses, key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: poll(self._try, timeout), *self._clients)

    def _try(self) -> Grant | None:
        got = self._manager.acquire(self._key, self._ttl_ms)
        if got is None:
            return None
        self._held = got
        return Grant(valid_for=got.validity / 1000)

    def release(self) -> None:
        """Release; the library reports neither servers that did not answer nor a key that another client owned by
        then."""
        if not self.still_valid():
            raise LockError("not held")
        self._manager.release(self._held)

    def still_valid(self) -> bool:
        return self._held is not None and bool(self._held.valid)

    def extend(self) -> bool:
        return self.still_valid() and bool(self._manager.extend(self._held, self._ttl_ms))
