"""Locks that are released in a thread or task other than the one that acquired them. Most of them do that wrongly."""

from __future__ import annotations

import asyncio
import threading

from tests.workloads.context_locks import AsyncLock, Lock, NotAcquired


class Bound(Lock):
    """A right lock, bound to its thread: it refuses a release in another one."""

    owner = 0

    def acquire(self, timeout: float | None = None) -> bool:
        if not super().acquire(timeout):
            return False
        self.owner = threading.get_ident()
        return True

    def release(self) -> None:
        if self.owner != threading.get_ident():
            raise NotAcquired("held by another thread")
        super().release()


class SaysNothing(Bound):
    """A release in another thread returns, and the key stays."""

    def release(self) -> None:
        if self.owner == threading.get_ident():
            super().release()


class ForgetsItsToken(Bound):
    """A release in another thread is refused, and the lock has then forgotten its token."""

    def release(self) -> None:
        if self.owner != threading.get_ident():
            self.token += "?"
        super().release()

    def acquire(self, timeout: float | None = None) -> bool:
        self.token = self.token.rstrip("?")
        return super().acquire(timeout)


class WaitsForItsThread(Bound):
    """A release in another thread waits for the thread that acquired the lock."""

    free = threading.Event()

    def release(self) -> None:
        if self.owner != threading.get_ident():
            self.free.wait()
        super().release()


class AsyncSaysNothing(AsyncLock):
    """A release in another task returns, and the key stays."""

    owner: asyncio.Task[None] | None = None

    async def acquire(self, timeout: float | None = None) -> bool:
        if not await super().acquire(timeout):
            return False
        self.owner = asyncio.current_task()
        return True

    async def release(self) -> None:
        if asyncio.current_task() is self.owner:
            await super().release()


class AsyncBound(AsyncSaysNothing):
    """A right lock, bound to its task."""

    async def release(self) -> None:
        if asyncio.current_task() is not self.owner:
            raise NotAcquired("held by another task")
        await super().release()
