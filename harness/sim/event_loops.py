"""Event loops of asyncio on simulated threads.

CPython keeps the running event loop, and the hooks for asynchronous generators, once for each thread of the operating
system. All simulated threads are greenlets of one such thread. So a task that runs a loop takes both away when it
waits, and puts them back when it goes on (:meth:`harness.sim.kernel.Task.park`). The loop itself is asyncio's own: its
selector, sockets, clock and executors are simulated as for every other code.

asyncio keeps futures in sets, whose order depends on addresses. The futures and tasks of a simulated loop have hashes
and names that depend on the order of their creation alone.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from greenlet import getcurrent

from .dispatch import Replacement, dispatch
from .hosts import CancelNext
from .kernel import DEAD, Task


class RunningLoop:
    """The event loop that a simulated thread runs, with its hooks for asynchronous generators."""

    __slots__ = ("_hooks", "_set", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, set_running: Callable[[Any], None]) -> None:
        self.loop = loop
        self._set = set_running
        self._hooks = sys.get_asyncgen_hooks()

    def suspend(self) -> None:
        """Let other simulated threads of this process run their loops."""
        self._hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, None)
        self._set(None)

    def resume(self) -> None:
        """Continue in the thread that runs this loop."""
        self._set(self.loop)
        sys.set_asyncgen_hooks(*self._hooks)


class _Future(asyncio.Future[Any]):
    """A future whose place in a set does not depend on its address."""

    def __init__(self, *, loop: SimEventLoop) -> None:
        super().__init__(loop=loop)
        self._number = loop.next_number()

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, loop: SimEventLoop, **options: Any) -> None:
        self._number = loop.next_number()  # first, since the task enters a set when it is created
        super().__init__(coro, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


class SimEventLoop(asyncio.SelectorEventLoop):
    """The event loop that asyncio creates on a simulated host.

    ``harness_cancel`` cancels the call that the client awaits in this loop; see
    :mod:`harness.lock_impls.asynchronous`, which sets it.
    """

    _harness_cancel: CancelNext | None = None

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)
        self._tasks = itertools.count(1)
        self.set_task_factory(_new_task)

    @property
    def harness_cancel(self) -> CancelNext | None:
        return self._harness_cancel

    @harness_cancel.setter
    def harness_cancel(self, cancel: CancelNext) -> None:
        self._harness_cancel = cancel
        task = getcurrent()
        if type(task) is Task and task.host.on_cancellable is not None:
            task.host.on_cancellable(cancel)

    def next_number(self) -> int:
        return next(self._numbers)

    def next_task_name(self) -> str:
        """Return the name of the next unnamed task. The first is Task-1, as in a new process."""
        return f"Task-{next(self._tasks)}"

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report nothing of a process that is over. What its loop does then, and the collection of its tasks, would not
        happen in reality."""
        task = getcurrent()
        if type(task) is Task and not task.kernel.closing and task.life.state != DEAD:
            super().call_exception_handler(context)


def _new_task(loop: Any, coro: Any, **options: Any) -> asyncio.Task[Any]:
    name = options.pop("name", None)
    return _Task(coro, loop=loop, name=name or loop.next_task_name(), **options)


class _Policy(asyncio.DefaultEventLoopPolicy):
    _loop_factory = SimEventLoop


def _set_running(real: Callable[[Any], None]) -> Callable[[Task, Any], None]:
    def virtual(task: Task, loop: asyncio.AbstractEventLoop | None) -> None:
        task.running_loop = None if loop is None else RunningLoop(loop, real)
        real(loop)

    return virtual


def _policy(task: Task) -> asyncio.AbstractEventLoopPolicy:
    """Return the policy of a simulated thread, which remembers the loop that ``set_event_loop`` set there."""
    if task.loop_policy is None:
        task.loop_policy = _Policy()
    policy: asyncio.AbstractEventLoopPolicy = task.loop_policy
    return policy


def _set_policy(task: Task, policy: asyncio.AbstractEventLoopPolicy | None) -> None:
    task.loop_policy = policy


def _get_event_loop(task: Task) -> asyncio.AbstractEventLoop:
    return asyncio.events._get_running_loop() or _policy(task).get_event_loop()


def replacements() -> Iterator[Replacement]:
    """Yield the functions of asyncio that keep state for each thread of the operating system.

    asyncio has each a second time in a C module, and :mod:`harness.sim.captured` finds references to both.
    """
    events: Any = asyncio.events
    yield events, "_set_running_loop", dispatch(events._set_running_loop, _set_running(events._set_running_loop))
    yield events, "get_event_loop_policy", dispatch(events.get_event_loop_policy, _policy)
    yield events, "set_event_loop_policy", dispatch(events.set_event_loop_policy, _set_policy)
    yield events, "get_event_loop", dispatch(events.get_event_loop, _get_event_loop)
