"""python-redis-lock's own ``Lock`` (4.0.1, unmodified) in situations where it fails its callers, and the cure of
each."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from typing import Any, ClassVar, Self

import redis_lock

from harness.lock_impls.base import Endpoints, Grant, LockError
from harness.lock_impls.origins import use_of
from harness.lock_impls.redis_client import RedisClient, RedisLock, open_client

logging.getLogger("redis_lock.acquire").setLevel(logging.ERROR)  # it logs a warning for each failed try


def _renew_quietly(*arguments: Any, **named: Any) -> None:
    """Run the library's renewal, which ends as usual, but without a traceback for those who run scenarios."""
    with contextlib.suppress(redis_lock.NotAcquired):
        redis_lock.Lock._lock_renewer(*arguments, **named)


class Renewed(RedisLock):
    """prl-renewer-dead: with ``auto_renewal``, after the renewing thread has died of an error, the next acquire sets
    the key and then raises AlreadyStarted. The key is set, but its caller does not have the lock."""

    origin: ClassVar = use_of(
        "python-redis-lock",
        "4.0.1",
        "auto_renewal whose thread has died",
        "redis_lock/__init__.py; ionelmc/python-redis-lock#85",
    )
    kinds: ClassVar = ("redis-single",)

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self.lock = self.make_lock()

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        # No time-out: it waits in a command that may take for ever.
        return cls(open_client(endpoints, socket_timeout=None), key, ttl, **options)

    def make_lock(self) -> Any:
        lock = redis_lock.Lock(self.client, self.key, expire=self.ttl_whole_s, auto_renewal=True)
        lock._lock_renewer = _renew_quietly
        return lock

    def try_lock(self) -> Grant | None:
        try:
            return Grant() if self.lock.acquire(blocking=False) else None
        except (redis_lock.AlreadyStarted, redis_lock.AlreadyAcquired) as error:
            raise LockError(f"{type(error).__name__}: {error}") from error

    def unlock(self) -> bool:
        try:
            self.lock.release()
        except redis_lock.NotAcquired:
            return False
        return True


class RenewedByNewObject(Renewed):
    """prl-renewer-dead, cured by the user: a new lock object for each hold."""

    origin: ClassVar = Renewed.origin.fixed("a new lock object for each hold")

    def try_lock(self) -> Grant | None:
        self.lock = self.make_lock()
        return super().try_lock()


class SleepsThroughExpiry(Renewed):
    """prl-waiter-asleep: waiters without an expiry wait for the holder's signal with ``BLPOP`` 0. The first client's
    lock has an expiry; when that client dies its key expires, and nobody sends a signal."""

    origin: ClassVar = use_of(
        "python-redis-lock", "4.0.1", "waiters without an expiry behind a holder with one", "redis_lock/__init__.py"
    )
    _answered: threading.Event | None = None

    def make_lock(self) -> Any:
        return redis_lock.Lock(self.client, self.key, expire=self.ttl_whole_s if self.expires() else None)

    def expires(self) -> bool:
        return socket.gethostname() == "c0"

    def acquire(self, timeout: float) -> Grant | None:
        """Wait for the library, which waits for ever in its own thread. A caller that gives up and asks again waits
        for the same answer."""
        if self._answered is None:
            self._answered = threading.Event()
            threading.Thread(target=self._wait, args=(self._answered,), daemon=True).start()
        if not self._answered.wait(timeout):
            return None
        self._answered = None
        return Grant()

    def _wait(self, answered: threading.Event) -> None:
        self.lock.acquire()
        answered.set()


class WakesAtExpiry(SleepsThroughExpiry):
    """prl-waiter-asleep, cured: every lock has an expiry, and its waiters check again when that is over."""

    origin: ClassVar = SleepsThroughExpiry.origin.fixed("every lock has an expiry")

    def expires(self) -> bool:
        return True
