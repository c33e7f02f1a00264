"""Open a lock for a client, which calls plain methods whatever the lock's own methods are."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from .base import Endpoints, Lock, LockClass


class OpenLock(Protocol):
    """Opens a lock against a cluster, for a key and with a ttl in seconds."""

    def __call__(self, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Lock: ...


def opener(lock: LockClass) -> OpenLock:
    """Return what opens a lock in this process. Locks whose methods are coroutines share an event loop."""
    if not lock.info.asynchronous:
        return lock.open
    from .asynchronous import EventLoopThread  # here, since asyncio is slow to import

    return partial(EventLoopThread().open, lock)
