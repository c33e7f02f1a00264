"""Shared parts of the memcached locks: opening a pymemcache client, whole seconds, and telling refusals from unknown
outcomes.

A lock on one key derives from :class:`MemcachedLock` and implements ``try_lock`` and ``unlock``.
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

from .base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from .polling import poll

KINDS: Final = ("memcached",)
REQUIRES: Final = ("pymemcache>=3.5",)
TIMEOUT_S: Final = 1.0
"""pymemcache has no time-out by default: it would wait for ever."""
OVERTIME_S: Final = 1.0
"""By how much a lease may outlast its ttl; see :func:`whole_seconds`."""


def whole_seconds(ttl: float) -> int:
    """Return the expiry to request, in seconds, so that no lease is shorter than ``ttl``.

    memcached counts whole seconds by a clock that ticks once a second, so an item with an expiry of n may be gone after
    little more than n - 1 seconds. One second more makes up for that.
    """
    return math.ceil(ttl) + 1


class Unreachable(MemcacheError):  # type: ignore[misc]
    """No connection: nothing was sent."""


class MemcachedClient(PymemcacheClient):  # type: ignore[misc]
    """pymemcache's client, which distinguishes failures to connect from failures of a sent request. It never
    retries."""

    def _connect(self) -> None:
        try:
            super()._connect()
        except OSError as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from error


def open_client(address: tuple[str, int]) -> MemcachedClient:
    """Open a client with ``default_noreply`` off; with it (pymemcache's default) a store returns True before the
    server has seen it."""
    return MemcachedClient(address, connect_timeout=TIMEOUT_S, timeout=TIMEOUT_S, no_delay=True, default_noreply=False)


@contextmanager
def known_outcome() -> Iterator[None]:
    """Turn pymemcache's errors into LockError (nothing was sent, or the server refused) or Indeterminate (anything
    else)."""
    try:
        yield
    except (OSError, MemcacheUnexpectedCloseError) as error:
        raise Indeterminate(f"a request was not answered: {type(error).__name__}: {error}") from error
    except MemcacheError as error:
        raise LockError(f"{type(error).__name__}: {error}") from error


class MemcachedLock(ABC):
    """A lock that is one item of one memcached. Subclasses implement ``try_lock`` and ``unlock``."""

    info: ClassVar[LockInfo]

    def __init__(self, client: MemcachedClient, key: str, ttl: float) -> None:
        self.client = client
        self.key = key
        self.ttl = ttl

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(open_client(endpoints.addresses[0]), key, ttl, **options)

    @abstractmethod
    def try_lock(self) -> Grant | None:
        """Try once; None if another client holds the lock."""

    @abstractmethod
    def unlock(self) -> bool:
        """Give the lock back; False if the server (or the lock itself) says that it was not held."""

    def acquire(self, timeout: float) -> Grant | None:
        with known_outcome():
            return poll(self.try_lock, timeout)

    def release(self) -> None:
        with known_outcome():
            if not self.unlock():
                raise LockError(f"{self.key} is not held by this client")

    @property
    def expiry(self) -> int:
        """The expiry to request, in seconds."""
        return whole_seconds(self.ttl)

    def remaining(self, began: float) -> float:
        """Seconds left of a lease that was requested at ``began``, by the client's monotonic clock."""
        return max(0.0, began + self.ttl - time.monotonic())
