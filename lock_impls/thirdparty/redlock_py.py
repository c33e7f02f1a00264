"""redlock-py's ``Redlock`` (Redis, Python), unmodified; tested with redlock-py 1.0.8 beside redis 8.1.0.

Its documentation promises the algorithm of redlock on several masters. It has no acquire and release methods: this
adapter calls ``lock(resource, ttl)``, which tries three times, and ``unlock``. It computes the remaining ttl from two
readings of the *wall* clock (``time.time()``), where the algorithm requires a clock that does not jump.

A majority is not enough: if any server raised an error, ``lock`` raises ``MultipleRedlockException`` although the
others granted, and leaves the key on them until the ttl is over. With one server down nobody gets the lock, contrary to
what the documentation promises (rlpy-one-down).

Requests: ``SET key value NX PX ms`` on each server in turn · release: ``EVAL`` of "if GET is mine then DEL" on each.
Errors of a release are logged and swallowed; this adapter relies on its answer.
Source: redlock/__init__.py.

Safe for: what redlock is safe for, as long as the client's clock does not jump.

Known failures: rlpy-one-down, rl-client-clock, and those of redlock.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar, Self

import redlock

from harness.lock_impls.base import Endpoints, Grant, LockError, LockInfo
from harness.lock_impls.polling import poll
from harness.lock_impls.redis_client import ANSWER_TIMEOUT, RedisClient, known_grant, open_client_of_each
from harness.lock_impls.redis_failures import EXPIRES, redlocks

# It logs to the root logger, with a traceback, for each server at each release.
logging.getLogger().addFilter(lambda record: not str(record.msg).startswith("Error unlocking resource"))


class RedlockPy:
    info: ClassVar = LockInfo(
        name="redlock-py",
        title="redlock-py's own Redlock, unmodified",
        algorithm=(
            "SET key value NX PX ms on N nodes; held with N//2+1; validity = ttl - elapsed wall-clock time - drift."
        ),
        source="redlock-py 1.0.8, redlock/__init__.py",
        safety="E",
        kinds=("redis-independent",),
        answer_timeout=ANSWER_TIMEOUT,
        requires=("redlock-py==1.0.8", "redis==8.1.0"),
        library="redlock-py 1.0.8",
        promises=(
            "'This python lib implements the Redis-based distributed lock manager algorithm' of redlock, which works "
            "while a majority of the servers is up."
        ),
        on_death=EXPIRES,
        outage="none while a majority of the servers is up",
        no_single_point=True,
        failures=redlocks("redlock-py"),
    )

    def __init__(self, servers: tuple[RedisClient, ...], key: str, ttl: float) -> None:
        self._clients = servers
        self._manager = redlock.Redlock(list(servers))
        self._key, self._ttl = key, ttl
        self._held: Any = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        return cls(open_client_of_each(endpoints), key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        refusals = (redlock.MultipleRedlockException,)
        return known_grant(lambda: poll(self._try, timeout), *self._clients, refusals=refusals)

    def _try(self) -> Grant | None:
        got = self._manager.lock(self._key, int(self._ttl * 1000))
        if not got:
            return None
        self._held = got
        return Grant(valid_for=got.validity / 1000)

    def release(self) -> None:
        """Release; ``unlock`` does not report a key that another client owned by then."""
        held, self._held = self._held, None
        if held is None:
            raise LockError("not held")
        self._manager.unlock(held)
