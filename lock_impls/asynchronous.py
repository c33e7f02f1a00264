"""Call a lock whose methods are coroutines.

A client calls its lock from a thread that waits for each result. The coroutines run in another thread, which has the
event loop of the process: so the lock's own tasks, such as a renewal, go on while the client is in its critical section
or sleeps. One task of this loop awaits all calls of a thread, one after another, as if that thread's code were in
it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Final, cast

from .base import Endpoints, Lock, LockClass
from .contexts import AwaitedContext, Context
from .foreign import ForeignClass

CALLED: Final = ("acquire", "release", "extend", "still_valid", "acquire_shared", "increment")
"""Methods of a lock that the harness calls."""
CANCEL: Final = "harness_cancel"
"""Attribute of the event loop by which a cluster finds the function that cancels a call. It must be called in the loop,
with an :data:`OnCancel`."""
OnCancel = Callable[[str, int], Callable[[], object]]
"""Callback for the moment of a cancellation: it takes the name of the call and the time at which that began (ns,
monotonic), and returns a function to be called if the call has received the cancellation."""


class CallCancelled(Exception):
    """The task that awaited a call was cancelled, by a fault, and the call ended with that; its outcome is unknown."""


class LoopCall:
    """A call that a client's thread makes in the event loop. ``thread`` is the id of the thread, which waits for
    ``over``, and ``task`` awaits the call in the event loop."""

    __slots__ = ("began_ns", "ended", "error", "function", "name", "over", "result", "task", "thread")
    task: asyncio.Task[Any]

    def __init__(self, name: str, function: Callable[[], Any]) -> None:
        self.name = name
        self.function = function
        self.thread = threading.get_ident()
        self.began_ns = 0
        self.result: Any = None
        self.error: BaseException | None = None
        self.ended = False
        self.over = threading.Lock()
        self.over.acquire()


CURRENT_CALL: Final[ContextVar[LoopCall | None]] = ContextVar("harness_current_call", default=None)
"""The last call that the running task has awaited, or inherited from the task that made it. The call may have ended."""


class EventLoopThread:
    """The thread of a process that runs the event loop. It ends with the process.

    Each thread that makes calls has a task of its own in the loop. Only calls of the first thread can be cancelled."""

    def __init__(self) -> None:
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._first = _CallingTask()
        self._first_thread: int | None = None
        self._others: dict[int, _CallingTask] = {}
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="event loop", daemon=True)
        self._thread.start()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        setattr(loop, CANCEL, self._first.cancel)
        self._loop.set_result(loop)
        await self._first.serve()

    def call(self, name: str, function: Callable[[], Any]) -> Any:
        """Call a function in the event loop, await what it returns if that is awaitable, and return the result. Raises
        what it raises, and :class:`CallCancelled`. Only a ``name`` of :data:`CALLED` can be cancelled."""
        return self._task_of_this_thread().call(self._loop.result(), name, function)

    def _task_of_this_thread(self) -> _CallingTask:
        thread = threading.get_ident()
        if self._first_thread is None:
            self._first_thread = thread
        if thread == self._first_thread:
            return self._first
        mine = self._others.get(thread)
        if mine is None:
            mine = self._others[thread] = _CallingTask()
            asyncio.run_coroutine_threadsafe(mine.serve(), self._loop.result())
        return mine

    def end(self) -> None:
        """End the event loop, and wait for that: its main task returns, and asyncio cancels all others."""
        self._first.end(self._loop.result())
        self._thread.join()

    def open(self, lock: LockClass, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Lock:
        """Open a lock whose methods are coroutines. The result has plain methods."""
        if isinstance(lock, ForeignClass):
            return lock.open(endpoints, key, ttl, construct=self._construct, **options)
        return cast("Lock", self._construct(lambda: lock.open(endpoints, key, ttl, **options)))

    def _construct(self, make: Callable[[], Any]) -> Any:
        made = self.call("open", make)
        return AwaitedContext(self.call, made) if isinstance(made, Context) else _Awaited(self, made)


class _CallingTask:
    """A task that awaits the calls of one thread, one after another."""

    def __init__(self) -> None:
        self._calls: deque[LoopCall] = deque()
        self._arrived: asyncio.Event = asyncio.Event()
        self._current: LoopCall | None = None
        self._struck = False
        self._cancels: deque[OnCancel] = deque()
        """Callbacks of requested cancellations that no call has received. Used in the event loop only."""
        self._received: Callable[[], object] | None = None
        self._ended = False

    def call(self, loop: asyncio.AbstractEventLoop, name: str, function: Callable[[], Any]) -> Any:
        """Let the task make a call, and wait for its result."""
        call = LoopCall(name, function)
        self._calls.append(call)
        loop.call_soon_threadsafe(self._arrived.set)
        call.over.acquire()
        if call.error is not None:
            raise call.error
        return call.result

    def end(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ended = True
        loop.call_soon_threadsafe(self._arrived.set)

    def cancel(self, on_cancel: OnCancel) -> None:
        """Cancel the current call, which awaits something and so receives that for sure, or else the next one."""
        call = self._current
        if call is None or self._struck:
            self._cancels.append(on_cancel)
            return
        self._struck = True
        on_cancel(call.name, call.began_ns)()
        self._task.cancel()

    def _note(self, call: LoopCall) -> None:
        self._received = self._cancels[0](call.name, call.began_ns)

    async def serve(self) -> None:
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        while not self._ended:
            await self._arrived.wait()
            self._arrived.clear()
            while self._calls:
                await self._answer(self._calls.popleft())

    async def _answer(self, call: LoopCall) -> None:
        call.task = self._task
        CURRENT_CALL.set(call)
        if call.name in CALLED:
            self._current = call
            call.began_ns = time.monotonic_ns()
            if self._cancels:
                self._struck = True
                self._task.cancel()
                asyncio.get_running_loop().call_soon(self._note, call)  # when the call awaits, and receives it
        try:
            result = call.function()
            call.result = await result if inspect.isawaitable(result) else result
        except BaseException as error:  # noqa: BLE001 - the client decides what is an outcome of a call
            call.error = error
            if isinstance(error, asyncio.CancelledError) and self._struck:
                call.error = CallCancelled(f"the task that awaited {call.name} was cancelled")
        self._current = None
        if self._struck:
            await self._end_cancellation()
        call.ended = True
        call.over.release()

    async def _end_cancellation(self) -> None:
        """Make the task usable again. A call that never waited has not received the cancellation: the next one will."""
        received = True
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            received = False
        self._task.uncancel()
        self._struck = False
        if received and self._received is not None:
            self._cancels.popleft()
            self._received()
        self._received = None


class _Awaited:
    """A lock with plain methods in place of its coroutines. It has the methods that the lock has."""

    def __init__(self, loop: EventLoopThread, lock: Any) -> None:
        for name in CALLED:
            method = getattr(lock, name, None)
            if callable(method):
                setattr(self, name, _plain(loop, name, method))
        if callable(getattr(lock, "reacquire", None)):  # redis-py's name for an extend to the whole ttl
            self.reacquire = _plain(loop, "extend", lock.reacquire)
        if callable(getattr(lock, "context", None)):
            self.context = lambda timeout: AwaitedContext(loop.call, loop.call("open", lambda: lock.context(timeout)))


def _plain(loop: EventLoopThread, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return loop.call(name, lambda: method(*args, **kwargs))

    return call
