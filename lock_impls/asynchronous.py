"""Call a lock whose methods are coroutines.

A client calls its lock from a thread that waits for each result. The coroutines run in another thread, which has the
event loop of the process: so the lock's own tasks, such as a renewal, go on while the client is in its critical section
or sleeps. One task of this loop awaits all calls, one after another, as if the client's code were written in it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, cast

from .base import Endpoints, Lock, LockClass
from .foreign import ForeignClass

CALLED: Final = ("acquire", "release", "extend", "still_valid", "acquire_shared", "increment")
"""Methods of a lock that the harness calls."""


class _Call:
    """A call that a client's thread makes in the event loop. ``over`` is locked until it has ended."""

    __slots__ = ("error", "function", "over", "result")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.result: Any = None
        self.error: BaseException | None = None
        self.over = threading.Lock()
        self.over.acquire()


class EventLoopThread:
    """The thread of a process that runs the event loop. It ends with the process."""

    def __init__(self) -> None:
        self._calls: deque[_Call] = deque()
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._arrived: asyncio.Event = asyncio.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve()), name="event loop", daemon=True).start()

    def call(self, function: Callable[[], Any]) -> Any:
        """Call a function in the event loop, await what it returns if that is awaitable, and return the result. Raises
        what it raises."""
        call = _Call(function)
        self._calls.append(call)
        self._loop.result().call_soon_threadsafe(self._arrived.set)
        call.over.acquire()
        if call.error is not None:
            raise call.error
        return call.result

    def open(self, lock: LockClass, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Lock:
        """Open a lock whose methods are coroutines. The result has plain methods."""
        if isinstance(lock, ForeignClass):
            return lock.open(endpoints, key, ttl, construct=self._construct, **options)
        return cast("Lock", self._construct(lambda: lock.open(endpoints, key, ttl, **options)))

    def _construct(self, make: Callable[[], Any]) -> Any:
        return _Awaited(self, self.call(make))

    async def _serve(self) -> None:
        self._loop.set_result(asyncio.get_running_loop())
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._calls:
                await _answer(self._calls.popleft())


async def _answer(call: _Call) -> None:
    try:
        result = call.function()
        call.result = await result if inspect.isawaitable(result) else result
    except BaseException as error:  # noqa: BLE001 - the client decides what is an outcome of a call
        call.error = error
    call.over.release()


class _Awaited:
    """A lock with plain methods in place of its coroutines. It has the methods that the lock has."""

    def __init__(self, loop: EventLoopThread, lock: Any) -> None:
        for name in CALLED:
            method = getattr(lock, name, None)
            if callable(method):
                setattr(self, name, _plain(loop, method))


def _plain(loop: EventLoopThread, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return loop.call(lambda: method(*args, **kwargs))

    return call
