"""``threading.Lock`` and ``threading.RLock`` for simulated tasks.

``Event``, ``Condition``, ``Semaphore``, ``Barrier`` and ``queue.Queue`` on simulated hosts are the standard library's
own classes, running on these locks.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import Any, Final

from greenlet import getcurrent

from .kernel import SECOND, Task
from .missing import missing_attribute

_LOCK: Final = threading.Lock()
_RLOCK: Final = threading.RLock()


def _timeout_ns(blocking: bool, timeout: float) -> int | None:
    if not blocking:
        if timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        return 0
    if timeout == -1:
        return None
    if timeout < 0:
        raise ValueError("timeout value must be a non-negative number")
    return math.ceil(timeout * SECOND)  # as CPython does: a wait that ends early would make its caller spin


class SimLock:
    """``threading.Lock`` for tasks. Waiting tasks get it in the order of arrival."""

    __slots__ = ("__weakref__", "_held", "_waiters")

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
            raise RuntimeError("code outside the simulation waited for a lock of a simulated host")
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

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute(self, name, _LOCK, "threading.Lock")


class SimRLock:
    """``threading.RLock`` for tasks."""

    __slots__ = ("__weakref__", "_count", "_lock", "_owner")

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

    def _recursion_count(self) -> int:
        """Return how often the caller holds the lock. Some releases of Python use it."""
        return self._count if self._is_owned() else 0

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute(self, name, _RLOCK, "threading.RLock")

    # threading.Condition calls these three methods of its lock.

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
