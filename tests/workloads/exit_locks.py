"""Locks that renew their lease in a thread or a task. Most of them are wrong when their process ends."""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tests.workloads.context_locks import UNLOCK, AsyncLock, Lock

EXTEND = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"
)


class RenewedLock(Lock):
    """A right lock: its renewer is a daemon, so it ends with the process."""

    daemon = True
    held = False

    def acquire(self, timeout: float | None = None) -> bool:
        if not super().acquire(timeout):
            return False
        self.held = True
        self.start()
        return True

    def start(self) -> None:
        threading.Thread(target=self.renew, name="renewer", daemon=self.daemon).start()

    def renew(self) -> None:
        while self.held:
            self.redis.eval(EXTEND, 1, self.key, self.token, int(self.ttl * 1000))
            time.sleep(self.ttl / 3)

    def release(self) -> None:
        self.held = False
        super().release()


class RenewsForEver(RenewedLock):
    """The renewer is no daemon, so that the interpreter waits for it, and it renews the lease meanwhile."""

    daemon = False


class RenewsInPool(RenewedLock):
    """The renewer runs in a pool, which the interpreter lets finish its work."""

    def start(self) -> None:
        ThreadPoolExecutor(1).submit(self.renew)


class WaitsForRenewer(RenewedLock):
    """A function of ``atexit`` waits for the renewer, which nobody stops."""

    def start(self) -> None:
        renewer = threading.Thread(target=self.renew, daemon=True)
        renewer.start()
        atexit.register(renewer.join)


class StopsWithMainThread(RenewedLock):
    """A right lock: its renewer is no daemon, but looks whether the main thread runs."""

    daemon = False

    def renew(self) -> None:
        while self.held and threading.main_thread().is_alive():
            self.redis.eval(EXTEND, 1, self.key, self.token, int(self.ttl * 1000))
            time.sleep(self.ttl / 10)


class ReleasesAtExit(RenewedLock):
    """A right lock: ``atexit`` releases it."""

    def start(self) -> None:
        super().start()
        atexit.register(self.release)

    def release(self) -> None:
        atexit.unregister(self.release)
        super().release()


class ReleasesOnlyAtExit(ReleasesAtExit):
    """The key has no end of its own. Only ``atexit`` releases it, and SIGTERM without a handler skips that."""

    def start(self) -> None:
        self.redis.persist(self.key)
        atexit.register(self.release)


class AsyncRenewed(AsyncLock):
    """A right lock: its renewer is a task, which asyncio cancels."""

    async def acquire(self, timeout: float | None = None) -> bool:
        if not await super().acquire(timeout):
            return False
        self.renewer = asyncio.create_task(self.renew())
        return True

    async def renew(self) -> None:
        while True:
            await self.redis.eval(EXTEND, 1, self.key, self.token, int(self.ttl * 1000))
            await asyncio.sleep(self.ttl / 3)

    async def release(self) -> None:
        self.renewer.cancel()
        if not await self.redis.eval(UNLOCK, 1, self.key, self.token):
            raise RuntimeError(self.key)


class AsyncIgnoresCancellation(AsyncRenewed):
    """The renewer goes on when asyncio cancels it at the end of the program, which then waits for it."""

    released = False

    async def renew(self) -> None:
        while not self.released:
            with suppress(asyncio.CancelledError):
                await self.redis.eval(EXTEND, 1, self.key, self.token, int(self.ttl * 1000))
                await asyncio.sleep(self.ttl / 3)

    async def release(self) -> None:
        self.released = True
        await super().release()
