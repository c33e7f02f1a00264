"""pottery's ``Redlock`` (Redis, Python), unmodified; tested with pottery 3.0.1 beside redis 8.1.0.

Its documentation promises that it "safely and reliably provides a mutually-exclusive locking primitive to protect a
resource shared across threads, processes, and even machines, without a single point of failure". The ttl is its
``auto_release_time``. :meth:`still_valid` is ``locked()``, which asks the servers, and :meth:`extend` is the library's
(at most three times for a hold).

Requests: on all masters at the same time, each from its own thread, ``SET redlock:key uuid NX PX ms`` · a majority in
time is the lock · release: ``EVALSHA`` of "if GET is mine then DEL". A master's error is logged and counts as a
refusal; acquire does not wait for the others once a majority has answered.
Source: pottery/redlock.py.

Safe for: what redlock is safe for.

Known failures: pottery-double, rl-clock-jump, rl-restart, ttl-pause-write, ttl-overrun.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import ClassVar

import pottery
from pottery.exceptions import ExtendUnlockedLock, QuorumNotAchieved, ReleaseUnlockedLock, TooManyExtensions

from harness.lock_impls.base import Endpoints, Grant, LockError, LockInfo
from harness.lock_impls.contexts import Context
from harness.lock_impls.redis_client import ANSWER_TIMEOUT, RedisClient, known_grant, known_outcome, open_client_of_each
from harness.lock_impls.redis_failures import EXPIRES, redlocks

logging.getLogger("pottery").setLevel(logging.CRITICAL)  # it logs each error of a master with a traceback


class PotteryRedlock:
    info: ClassVar = LockInfo(
        name="pottery-redlock",
        title="pottery's own Redlock, unmodified",
        algorithm="SET redlock:key uuid NX PX ms on N masters at once; held if a majority grants it in time.",
        source="pottery 3.0.1, pottery/redlock.py",
        safety="E",
        kinds=("redis-independent",),
        answer_timeout=ANSWER_TIMEOUT,
        requires=("pottery==3.0.1", "redis==8.1.0"),
        library="pottery 3.0.1",
        lease="ttl",
        promises="It 'safely and reliably provides a mutually-exclusive locking primitive [...] without a single point "
        "of failure'.",
        on_death=EXPIRES,
        outage="none while a majority of the servers is up",
        no_single_point=True,
        failures=redlocks("pottery-redlock"),
    )

    def __init__(self, clients: tuple[RedisClient, ...], key: str, ttl: float) -> None:
        self._clients = clients
        self._new = partial(pottery.Redlock, key=key, masters=clients, auto_release_time=ttl)
        self._lock = self._new()

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> PotteryRedlock:
        return cls(open_client_of_each(endpoints), key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: Grant() if self._wait(timeout) else None, *self._clients)

    def _wait(self, timeout: float) -> bool:
        return bool(self._lock.acquire(timeout=timeout) if timeout > 0 else self._lock.acquire(blocking=False))

    def release(self) -> None:
        with known_outcome(*self._clients, refusals=(ReleaseUnlockedLock,)):
            self._lock.release()

    def context(self, timeout: float) -> Context:
        lock = self._new(context_manager_timeout=timeout)
        refusals = (QuorumNotAchieved, ReleaseUnlockedLock)
        return Context(lock, lambda: known_outcome(*self._clients, refusals=refusals), timeout)

    def still_valid(self) -> bool:
        return bool(self._lock.locked() > 0)

    def extend(self) -> bool:
        try:
            with known_outcome(*self._clients, refusals=(ExtendUnlockedLock, TooManyExtensions)):
                self._lock.extend()
        except LockError:
            return False
        return True
