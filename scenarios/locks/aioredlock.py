"""aioredlock's own manager in a program whose tasks share it, and the cure.

One task of the program uses a fixed lease, another one a lease that aioredlock's watchdog renews.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from aioredlock import Aioredlock as Manager
from aioredlock import LockError as Refused

from harness.lock_impls.base import Endpoints, Grant
from harness.lock_impls.origins import use_of
from harness.lock_impls.thirdparty.aioredlock import Aioredlock

from .redis_py import OVERRUN


class TasksShareManager(Aioredlock):
    """aiorl-watchdog: aioredlock stores its watchdogs by the name of the resource.

    During the first acquire another task of the program holds the lock, with its own time-out and without a watchdog.
    It is late, and its unlock stops the watchdog of the newer lock, which still reports itself as valid.
    """

    info: ClassVar = replace(Aioredlock.info, kinds=("redis-single",), lease="")  # a watchdog renews the lease
    origin: ClassVar = use_of(
        "aioredlock", "0.7.3", "two tasks that share a manager", "aioredlock/algorithm.py, line 190"
    )
    _late: asyncio.Task[None] | None = None
    _began = False

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl)
        self._manager = self._new_manager(endpoints)
        self._endpoints = endpoints

    def _new_manager(self, endpoints: Endpoints) -> Manager:
        servers = [{"host": host, "port": port} for host, port in endpoints.addresses]
        return Manager(servers, internal_lock_timeout=self._ttl)

    def manager_of_other(self) -> Manager:
        """Return the manager that the other task uses."""
        return self._manager

    async def acquire(self, timeout: float) -> Grant | None:
        if not self._began:
            self._began, manager = True, self.manager_of_other()
            with suppress(Refused):
                held = await manager.lock(self._key, lock_timeout=self._ttl)
                self._late = asyncio.ensure_future(self._unlock_late(manager, held))
        return await super().acquire(timeout)

    async def lock(self) -> Any:
        """Lock without a time-out of its own, so that a watchdog renews the lease."""
        return await self._manager.lock(self._key)

    def still_valid(self) -> bool:
        return self._held is not None and bool(self._held.valid)

    async def _unlock_late(self, manager: Manager, held: Any) -> None:
        await asyncio.sleep(OVERRUN * self._ttl)
        with suppress(Refused):
            await manager.unlock(held)


class ManagerOfEachTask(TasksShareManager):
    """aiorl-watchdog, cured: each task has a manager of its own, and with it its own watchdogs."""

    origin: ClassVar = TasksShareManager.origin.fixed("a manager for each task")

    def manager_of_other(self) -> Manager:
        return self._new_manager(self._endpoints)
