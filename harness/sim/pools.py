"""Thread pools of the standard library on simulated hosts.

``concurrent.futures.thread`` starts threads while it holds one lock of the whole process. On a simulated host a start
waits for the new thread's first step, and hosts are processes of their own: each needs a lock of its own, or the pool
of one host stops all the others, for ever if the host is killed meanwhile.
"""

from __future__ import annotations

import concurrent.futures._base as futures
import concurrent.futures.thread as pools
import itertools
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

from greenlet import getcurrent

from .kernel import FIRST_IDENT, Closed, Life, Task
from .threads import SimLock

_CPUS: Final = 4
"""What ``os.cpu_count`` answers on a simulated host: how many threads a pool has must not depend on this machine."""


class _LockOfEachHost:
    """Stands for a real lock: itself outside the simulation, and another one in each life of each host."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._locks: dict[Life, SimLock] = {}

    def _mine(self) -> Any:
        task = getcurrent()
        return self._locks.setdefault(task.life, SimLock()) if type(task) is Task else self._real

    def __enter__(self) -> bool:
        return bool(self._mine().acquire())

    def __exit__(self, *exc: object) -> None:
        self._mine().release()


class _Log:
    """The logger of ``concurrent.futures``: threads that end because the simulation does end in silence."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def critical(self, *args: Any, **kwargs: Any) -> None:
        if sys.exc_info()[0] is not Closed:
            self._real.critical(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _cpu_count(real: Any) -> Any:
    return lambda: _CPUS if type(getcurrent()) is Task else real()


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """(module or class, attribute, what stands there while a simulation runs)."""
    yield pools, "_global_shutdown_lock", _LockOfEachHost(pools._global_shutdown_lock)
    yield futures, "LOGGER", _Log(futures.LOGGER)
    yield os, "cpu_count", _cpu_count(os.cpu_count)
    yield pools.ThreadPoolExecutor, "_counter", itertools.count().__next__


def forget() -> None:
    """Take simulated workers out of the books by which the interpreter waits for pools at its exit."""
    books: Any = pools._threads_queues
    for worker in list(books):
        if FIRST_IDENT < (worker.ident or 0) < 2 * FIRST_IDENT:
            del books[worker]
