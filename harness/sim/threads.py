"""What ``threading`` is built on, for tasks: locks, thread starts, identifiers.

``threading.Thread``, ``Event``, ``Condition``, ``Timer`` and ``queue.Queue`` are the standard library's own, running
on these.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from .kernel import FIRST_IDENT, SECOND, Task


def _timeout_ns(blocking: bool, timeout: float) -> int | None:
    if not blocking:
        if timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        return 0
    if timeout == -1:
        return None
    if timeout < 0:
        raise ValueError("timeout value must be a non-negative number")
    return math.ceil(timeout * SECOND)  # as CPython does: who wakes early by a nanosecond would have to spin


class SimLock:
    """``threading.Lock`` for tasks; served in the order of arrival."""

    __slots__ = ("_held", "_waiters")

    def __init__(self) -> None:
        self._held = False
        self._waiters: deque[Task] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._held:
            self._held = True
            return True
        limit = _timeout_ns(blocking, timeout)
        if limit == 0:
            return False
        task = getcurrent()
        if not isinstance(task, Task):
            raise RuntimeError("a lock of the simulation was waited for outside it")
        return self._wait(task, limit)

    def _wait(self, task: Task, limit: int | None) -> bool:
        deadline = None if limit is None else task.kernel.now + limit
        self._waiters.append(task)
        try:
            while self._held:
                left = None if deadline is None else deadline - task.kernel.now
                if not task.park(left) and self._held:
                    return False
            self._held = True
            return True
        finally:
            self._waiters.remove(task)

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False
        if self._waiters:
            self._waiters[0].wake()

    def locked(self) -> bool:
        return self._held

    __enter__ = acquire

    def __exit__(self, *exc: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]


class SimRLock:
    """``threading.RLock`` for tasks."""

    __slots__ = ("_count", "_lock", "_owner")

    def __init__(self) -> None:
        self._lock = SimLock()
        self._owner: object = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = getcurrent()
        if self._owner is me:
            self._count += 1
            return True
        if self._lock.acquire(blocking, timeout):
            self._owner = me
            self._count = 1
            return True
        return False

    def release(self) -> None:
        if self._owner is not getcurrent():
            raise RuntimeError("cannot release un-acquired lock")
        if self._count > 1:
            self._count -= 1
            return
        self._count = 0
        self._owner = None
        self._lock.release()

    def __enter__(self) -> bool:
        me = getcurrent()
        if self._owner is me:
            self._count += 1
            return True
        if self._lock.acquire():
            self._owner = me
            self._count = 1
        return True

    def __exit__(self, *exc: object) -> None:
        self.release()

    # threading.Condition uses these three of its lock.

    def _is_owned(self) -> bool:
        return self._owner is getcurrent()

    def _release_save(self) -> tuple[int, object]:
        state = (self._count, self._owner)
        self._count, self._owner = 0, None
        self._lock.release()
        return state

    def _acquire_restore(self, state: tuple[int, object]) -> None:
        self._lock.acquire()
        self._count, self._owner = state


def start_thread(parent: Task, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """``_thread.start_new_thread`` on the parent's host."""
    task = parent.kernel.spawn(parent.host, parent.life, lambda: fn(*args, **kwargs))
    return task.ident


def sentinel(task: Task) -> SimLock:
    """``_thread._set_sentinel``: a lock that is released when the task has ended."""
    lock = SimLock()
    task.on_exit.append(lambda: lock.release() if lock.locked() else None)
    return lock


def forget() -> None:
    """Take simulated threads out of ``threading``'s books, so that the interpreter does not wait for them at exit."""
    active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
    # Copies: the process's own threads come and go meanwhile.
    for ident in list(active):
        if FIRST_IDENT < ident < 2 * FIRST_IDENT:
            del active[ident]
    starting: dict[threading.Thread, threading.Thread] = threading._limbo  # type: ignore[attr-defined]
    for thread in list(starting):  # their host was killed before they took a step
        if isinstance(thread._started._cond._lock, SimLock):  # type: ignore[attr-defined]
            del starting[thread]
    pending: set[Any] = threading._shutdown_locks  # type: ignore[attr-defined]
    pending.difference_update([lock for lock in pending.copy() if isinstance(lock, SimLock)])
