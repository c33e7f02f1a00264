"""Open a lock for a client, which calls plain methods whatever the lock's own methods are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from .base import Endpoints, Lock, LockClass


class OpenLock(Protocol):
    """Opens a lock against a cluster, for a key and with a ttl in seconds."""

    def __call__(self, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Lock: ...


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens locks in this process. ``end_loop`` ends the event loop that locks with coroutines share, as
    ``asyncio.run`` does when its main task ends; it does nothing for other locks."""

    open: OpenLock
    end_loop: Callable[[], None] = lambda: None


def opener(lock: LockClass) -> Opener:
    """Return what opens a lock in this process."""
    if not lock.info.asynchronous:
        return Opener(lock.open)
    from .asynchronous import EventLoopThread  # here, since asyncio is slow to import

    loop = EventLoopThread()
    return Opener(partial(loop.open, lock), loop.end)
