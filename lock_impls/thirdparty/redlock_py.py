"""redlock-py's ``Redlock``, unmodified; tested with redlock-py 1.0.8.

Its documentation promises the algorithm of redlock on several masters. It has no acquire and release of its own: this
adapter calls ``lock(resource, ttl)``, which tries three times, and ``unlock``. What is left of the ttl it works out of
two readings of the *wall* clock (``time.time()``), where the algorithm asks for one that does not jump.

A majority is not enough for it: if any server raised, ``lock`` raises ``MultipleRedlockException`` although the others
granted, and leaves the key on them until the ttl is over. With one server gone nobody gets the lock, against what the
documentation promises (``harness compare --locks redlock-py`` shows it).

Source: redlock/__init__.py.

Safe for: what redlock is, as long as the client's clock does not jump.
Known failures: rl-client-clock, and those of redlock.
"""

from __future__ import annotations

from typing import Any, ClassVar

import redlock

from lock_impls.base import Endpoints, Failure, Grant, LockError, LockInfo
from lock_impls.polling import poll
from lock_impls.redis_failures import EXPIRES, overrun


class RedlockPy:
    info: ClassVar = LockInfo(
        name="redlock-py",
        title="redlock-py's own Redlock, unmodified",
        algorithm="SET key value NX PX ms on N nodes; N//2+1 = held; validity = ttl - elapsed wall-clock time - drift.",
        source="redlock-py 1.0.8, redlock/__init__.py",
        safety="E",
        kinds=("redis-independent",),
        on_death=EXPIRES,
        outage="nothing: it needs a majority of the servers",
        no_single_point=True,
        failures=(
            Failure(
                "ttl-pause-write",
                "its holder stands still for longer than the ttl",
                "harness run redlock-py --nemesis client-pause",
            ),
            overrun("redlock-py"),
        ),
    )

    def __init__(self, servers: list[dict[str, Any]], key: str, ttl: float) -> None:
        self._manager = redlock.Redlock(servers)
        self._key, self._ttl = key, ttl
        self._held: Any = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> RedlockPy:
        return cls([{"host": host, "port": port, "db": 0} for host, port in endpoints.addresses], key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        return poll(self._try, timeout)

    def _try(self) -> Grant | None:
        got = self._manager.lock(self._key, int(self._ttl * 1000))
        if not got:
            return None
        self._held = got
        return Grant(valid_for=got.validity / 1000)

    def release(self) -> None:
        """``unlock`` says nothing of a key that was another one's by then."""
        held, self._held = self._held, None
        if held is None:
            raise LockError("not held")
        self._manager.unlock(held)
