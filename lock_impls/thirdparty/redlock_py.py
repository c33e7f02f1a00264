"""redlock-py's ``Redlock``, unmodified; tested with redlock-py 1.0.8 beside redis 8.1.0.

Its documentation promises the algorithm of redlock on several masters. It has no acquire and release of its own: this
adapter calls ``lock(resource, ttl)``, which tries three times, and ``unlock``. What is left of the ttl it works out of
two readings of the *wall* clock (``time.time()``), where the algorithm asks for one that does not jump.

A majority is not enough for it: if any server raised, ``lock`` raises ``MultipleRedlockException`` although the others
granted, and leaves the key on them until the ttl is over. With one server gone nobody gets the lock, against what the
documentation promises (rlpy-one-down).

Requests: ``SET key value NX PX ms`` on each server in turn · release: ``EVAL`` of "if GET is mine then DEL" on each.
Errors of a release are logged and swallowed; this adapter takes it at its word.
Source: redlock/__init__.py.

Safe for: what redlock is, as long as the client's clock does not jump.
Known failures: rlpy-one-down, rl-client-clock, and those of redlock.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar, Self

import redlock

from lock_impls.base import Endpoints, Grant, LockError, LockInfo
from lock_impls.polling import poll
from lock_impls.redis_client import Client, known_grant, open_client_of_each
from lock_impls.redis_failures import EXPIRES, redlocks

# To the root logger, with its traceback, for each server at each release.
logging.getLogger().addFilter(lambda record: not str(record.msg).startswith("Error unlocking resource"))


class RedlockPy:
    info: ClassVar = LockInfo(
        name="redlock-py",
        title="redlock-py's own Redlock, unmodified",
        algorithm="SET key value NX PX ms on N nodes; N//2+1 = held; validity = ttl - elapsed wall-clock time - drift.",
        source="redlock-py 1.0.8, redlock/__init__.py",
        safety="E",
        kinds=("redis-independent",),
        library="redlock-py 1.0.8",
        promises="'This python lib implements the Redis-based distributed lock manager algorithm' of redlock, which "
        "goes on while a majority of the servers is up.",
        on_death=EXPIRES,
        outage="nothing: it needs a majority of the servers",
        no_single_point=True,
        failures=redlocks("redlock-py"),
    )

    def __init__(self, servers: tuple[Client, ...], key: str, ttl: float) -> None:
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
        """``unlock`` says nothing of a key that was another one's by then."""
        held, self._held = self._held, None
        if held is None:
            raise LockError("not held")
        self._manager.unlock(held)
