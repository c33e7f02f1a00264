"""redis-py's own ``Lock`` in programs that make documented mistakes with it, and the cure of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final, Self

import redis
from redis.backoff import NoBackoff
from redis.exceptions import LockNotOwnedError
from redis.lock import Lock
from redis.retry import Retry

from harness.lock_impls.base import Endpoints, Grant
from harness.lock_impls.origins import use_of
from harness.lock_impls.redis_client import RedisClient, RedisLock, known_outcome, open_client

OVERRUN: Final = 1.25
"""A late worker takes this many times its lease."""
PATIENCE_S: Final = 3.0


def overrun(lock: Callable[[], Any], unlock: Callable[[Any], object], ttl: float) -> threading.Thread:
    """Start another worker of this program: it tries once for the lock, works longer than its lease, and unlocks.

    ``unlock`` is called with the result of ``lock``. Returns when the worker has tried.
    """
    tried = threading.Event()

    def work() -> None:
        try:
            held = lock()
        finally:
            tried.set()
        if held:
            time.sleep(OVERRUN * ttl)
            unlock(held)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    tried.wait()
    return worker


class PlainLock(RedisLock):
    """Not a mistake: redis-py's lock as in its documentation, with a lease."""

    origin: ClassVar = use_of("redis-py", "the installed release", "the lock as in its documentation", "redis/lock.py")
    kinds: ClassVar = ("redis-single",)
    thread_local: ClassVar = True
    leased: ClassVar = True

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self.lock = Lock(client, key, timeout=ttl if self.leased else None, thread_local=self.thread_local)

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        if not self.lock.acquire(blocking=False):
            return None
        return Grant(valid_for=self.remaining(began)) if self.leased else Grant()

    def unlock(self) -> bool:
        self.lock.release()
        return True


class TokenOnObject(PlainLock):
    """rpy-token-on-object: two threads share one lock object, and the token is stored on the object.

    So it was in redis-py up to 2.10.1, and so it is with ``thread_local=False``. During its first acquire another
    thread of the program already holds the lock. That thread is late, and unlocks with whatever token it finds.
    """

    origin: ClassVar = use_of(
        "redis-py",
        "the installed release",
        "threads that share one lock object and its token, as releases up to 2.10.1 did",
        "redis/lock.py (thread_local=False); redis/redis-py#489",
    )
    thread_local: ClassVar = False
    _other: threading.Thread | None = None

    def acquire(self, timeout: float) -> Grant | None:
        if self._other is None:
            self._other = overrun(lambda: self.lock.acquire(blocking=False), self._unlock_late, self.ttl)
        return super().acquire(timeout)

    def _unlock_late(self, _held: bool) -> None:
        try:
            self.lock.release()
        except redis.exceptions.LockError:
            return  # the refusal is right: it is no longer the owner


class TokenOfThread(TokenOnObject):
    """rpy-token-on-object, cured: each thread sees only its own token, as in redis-py since 2.10.2."""

    origin: ClassVar = TokenOnObject.origin.fixed("each thread has its own token (thread_local=True, since 2.10.2)")
    thread_local: ClassVar = True


class ReleasedByOtherThread(PlainLock):
    """rpy-handoff: one thread acquires and another one, which has no token, releases. Without a timeout, redis-py's
    default, the key stays for ever."""

    origin: ClassVar = use_of(
        "redis-py",
        "the installed release",
        "a thread that releases the lock of another",
        "redis/lock.py; redis/redis-py#656, #3540",
    )
    leased: ClassVar = False

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self._worker = ThreadPoolExecutor(1)

    def try_lock(self) -> Grant | None:
        return self._worker.submit(super().try_lock).result()


class ReleasedByOtherThreadWithToken(ReleasedByOtherThread):
    """rpy-handoff, cured: with ``thread_local=False`` the token belongs to the lock object."""

    origin: ClassVar = ReleasedByOtherThread.origin.fixed("the token belongs to the object (thread_local=False)")
    thread_local: ClassVar = False


class ReleaseForgets(PlainLock):
    """rpy-release-error: ``release()`` forgets the token before it asks the server, so a release that failed with a
    connection error cannot be repeated (redis-py up to 8.1.0)."""

    origin: ClassVar = use_of(
        "redis-py",
        "the installed release",
        "a release that is repeated after a connection error",
        "redis/lock.py; redis/redis-py, pull request 4258",
    )
    leased: ClassVar = False

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        # Without redis-py's own retries, so that a connection error is not hidden.
        client = open_client(endpoints, socket_timeout=0.5, socket_connect_timeout=0.5, retry=Retry(NoBackoff(), 0))
        return cls(client, key, ttl, **options)

    def unlock(self) -> bool:
        token, until = self.lock.local.token, time.monotonic() + PATIENCE_S
        while True:
            try:
                return super().unlock()
            except (redis.ConnectionError, redis.TimeoutError):
                if time.monotonic() > until:
                    raise
                self._failed(token)
                time.sleep(0.1)

    def _failed(self, token: Any) -> None:
        """Handle a release that failed with an error; here it does nothing."""


class ReleaseRemembers(ReleaseForgets):
    """rpy-release-error, cured as in the library's pull request 4258: after an error the token is restored."""

    origin: ClassVar = ReleaseForgets.origin.fixed("the token is restored after an error (pull request 4258)")

    def _failed(self, token: Any) -> None:
        self.lock.local.token = token


class DeletesToBeSure(PlainLock):
    """rpy-lost-release, by a careless client: when release says that the lock is not its own, it deletes the key so
    that nothing is left of the failed hold."""

    origin: ClassVar = use_of(
        "redis-py",
        "the installed release",
        "a client that deletes the key when its release is refused",
        "redis/lock.py",
    )

    def release(self) -> None:
        with known_outcome(self.client):
            try:
                self.lock.release()
            except LockNotOwnedError:
                self.client.delete(self.key)
