"""aiozk's asyncio lock (ZooKeeper), ``client.recipes.Lock``, unmodified; tested with aiozk 0.32.0.

Its documentation promises "recipes" of ZooKeeper's, a lock among them, and that "a lock is for coordination between
processes": one task at a time may call it. ``acquire`` returns nothing: it raises TimeoutError if its time is over, and
also returns if its session was lost and its time is over then, so this adapter reads ``locked()``. With a timeout of 0
it would request nothing, so the adapter waits for at least :data:`SHORTEST_WAIT_S`. A timeout is measured with the
client's *wall* clock. A session that was lost is only logged: ``locked()`` stays True, and a release is confirmed when
the node is gone. The session's time-out is the ttl. A call waits without limit while no server answers. A ping may take
two thirds of the time-out, and is sent after one third: a client notices a silent server when its session is over.

It issues no fence. This adapter uses the czxid of the node that the recipe made, which it reads as a user would (one
request more than the lock makes).

Requests: ``srvr`` · the recipe of zookeeper-sequential, with ``exists`` for the watch. If the answer to ``create`` was
lost, the library deletes the node in a task of its own.
Source: aiozk/recipes/lock.py, base_lock.py, sequential.py.

Safe for: correctness, if the resource refuses a czxid below the highest it has seen.

Known failures: zk-pause, zk-stale-flag, and those in docs/findings: watches that are not set again, orphaned nodes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from aiozk import ZKClient
from aiozk.exc import NodeExists, NoNode, ZKError
from aiozk.exc import TimeoutError as TimedOut

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.zookeeper_client import DEATH, KINDS, paused_holder

SHORTEST_WAIT_S: Final = 0.1
LABEL: Final = "lock"
"""The library's default label of nodes."""
logging.getLogger("aiozk").addHandler(logging.NullHandler())  # it logs each connection that breaks
logging.getLogger("aiozk").propagate = False


class AiozkLock:
    info: ClassVar = LockInfo(
        name="aiozk-lock",
        title="aiozk's own Lock recipe, unmodified",
        algorithm="create lock-UUID-N (ephemeral, sequential); the lowest N holds; others watch their predecessor.",
        source="aiozk 0.32.0, aiozk/recipes/lock.py",
        safety="F",
        kinds=KINDS,
        requires=("aiozk==0.32.0",),
        fence=True,
        queue=True,
        on_death=DEATH,
        outage="the lock of a client whose server is silent is lost with its session",
        asynchronous=True,
        library="aiozk 0.32.0",
        promises="'This lock is for coordination between processes through network. Not for tasks in a process.'",
        failures=(
            paused_holder("aiozk-lock"),
            Failure(
                "zk-stale-flag",
                "its session has ended, but locked() stays True",
                "harness run aiozk-lock --nemesis client-pause --discipline checking --hold 1s",
            ),
        ),
    )

    def __init__(self, client: Any, key: str) -> None:
        self._client = client
        self._lock: Any = client.recipes.Lock(f"/locks/{key}")

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> AiozkLock:
        servers = ",".join(f"{host}:{port}" for host, port in endpoints.addresses)
        return cls(ZKClient(servers, session_timeout=ttl), key)

    async def acquire(self, timeout: float) -> Grant | None:
        with _known_outcome():
            await self._client.start()
            try:
                await self._lock.acquire(timeout=max(timeout, SHORTEST_WAIT_S))
            except TimedOut as error:
                if LABEL in self._lock.owned_paths:
                    raise Indeterminate("the connection was lost, and the node may still be in the queue") from error
                return None
            return Grant(fence=await self._czxid()) if self._lock.locked() else None

    async def _czxid(self) -> int:
        path = self._lock.owned_paths[LABEL]
        try:
            await self._client.get_data(path)
        except NoNode as error:
            raise LockError("the session has ended, and the node with it") from error
        return int(self._client.stat_cache[path].created_zxid)

    async def release(self) -> None:
        """Release the lock, or repeat a release that failed: only then the library still knows the node."""
        if LABEL not in self._lock.owned_paths:
            raise LockError(f"{self._lock.base_path} is not held by this client")
        with _known_outcome():
            await self._lock.release()

    async def still_valid(self) -> bool:
        return bool(self._lock.locked())


@contextmanager
def _known_outcome() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # another call has been cancelled, and the library counts it as under way
        raise LockError(str(error)) from error
    except NodeExists as error:  # an earlier call has failed to delete its node
        raise LockError("an earlier node of this client is still in the queue") from error
    except ZKError as error:
        raise Indeterminate(f"{type(error).__name__}: {error}") from error
