"""What the memcached locks share: opening a pymemcache client, whole seconds, and telling "no" from "nobody knows".

A lock on one key derives from :class:`MemcachedLock` and writes its two halves, ``try_lock`` and ``unlock``.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Self

from pymemcache.client.base import Client as PymemcacheClient
from pymemcache.exceptions import MemcacheError, MemcacheUnexpectedCloseError

from lock_impls.base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from lock_impls.polling import poll

KINDS: Final = ("memcached",)
TIMEOUT_S: Final = 1.0
"""pymemcache's own is none at all: it would wait for ever."""
OVERTIME_S: Final = 1.0
"""By how much a lease may outlast its ttl; see :func:`whole_seconds`."""


def whole_seconds(ttl: float) -> int:
    """What to ask for: memcached counts whole seconds by a clock that ticks once in each, so that an item with an
    expiry of n may be gone after little more than n - 1 seconds. One more, and no lease is shorter than asked."""
    return math.ceil(ttl) + 1


class Unreachable(MemcacheError):  # type: ignore[misc]
    """No connection: nothing was asked."""


class Client(PymemcacheClient):  # type: ignore[misc]
    """pymemcache's client, whose failures to connect differ from those of a request that has left. It repeats
    nothing by itself."""

    def _connect(self) -> None:
        try:
            super()._connect()
        except OSError as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from error


def open_client(address: tuple[str, int]) -> Client:
    """``default_noreply`` is off: with it (pymemcache's default) a store says True before the server has seen it."""
    return Client(address, connect_timeout=TIMEOUT_S, timeout=TIMEOUT_S, no_delay=True, default_noreply=False)


@contextmanager
def known_outcome() -> Iterator[None]:
    """Turns pymemcache's errors into the seam's: nothing left or the server refused → LockError, else Indeterminate."""
    try:
        yield
    except (OSError, MemcacheUnexpectedCloseError) as error:
        raise Indeterminate(f"a request was not answered: {type(error).__name__}: {error}") from error
    except MemcacheError as error:
        raise LockError(f"{type(error).__name__}: {error}") from error


class MemcachedLock(ABC):
    """A lock that is one item of one memcached. ``try_lock`` and ``unlock`` are the lock; the rest is the seam."""

    info: ClassVar[LockInfo]

    def __init__(self, client: Client, key: str, ttl: float) -> None:
        self.client = client
        self.key = key
        self.ttl = ttl

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(open_client(endpoints.addresses[0]), key, ttl, **options)

    @abstractmethod
    def try_lock(self) -> Grant | None:
        """One try; None when somebody else holds the lock."""

    @abstractmethod
    def unlock(self) -> bool:
        """Gives the lock back; False when the server (or the lock itself) says that it was not held."""

    def acquire(self, timeout: float) -> Grant | None:
        with known_outcome():
            return poll(self.try_lock, timeout)

    def release(self) -> None:
        with known_outcome():
            if not self.unlock():
                raise LockError(f"{self.key} is not held by this client")

    @property
    def expiry(self) -> int:
        """What to ask for, in seconds."""
        return whole_seconds(self.ttl)

    def remaining(self, began: float) -> float:
        """What is left of a lease that was asked for at ``began``, by the client's monotonic clock."""
        return max(0.0, began + self.ttl - time.monotonic())
