"""Replacements that make thread pools work on simulated hosts: those of ``concurrent.futures``, and ``ThreadPool`` of
``multiprocessing``.

``concurrent.futures.thread`` starts threads while it holds one lock of the whole process. On a simulated host a start
waits until the new thread runs. With one shared lock, the pool of one host would block the pools of all other hosts,
for ever if the first host is killed meanwhile. So each host gets a lock of its own.

``concurrent.futures.wait`` returns sets of futures, whose order depends on addresses. The futures of simulated hosts
have hashes that depend on the order of their creation alone.

A thread of each ``ThreadPool`` waits until a pipe of the real machine says that the pool has changed. On a simulated
host it waits for a queue instead.
"""

from __future__ import annotations

import concurrent.futures._base as futures
import concurrent.futures.thread as pools
import itertools
import multiprocessing.pool
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, Final

from greenlet import getcurrent

from .dispatch import Replacement, Virtual, dispatch
from .kernel import Life, SimulationClosed, Task
from .locks import SimLock
from .threads import is_simulated

_CPUS: Final = 4
"""Result of ``os.cpu_count`` on a simulated host. The size of a pool must not depend on the real machine."""

_NUMBER: Final = "_simulated_number"
"""Attribute of a future that a simulated task has made. Other futures do not have it."""


class _PerHostLock:
    """Replacement of a lock: the real one outside the simulation, and a separate one for each life of each host."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._locks: dict[Life, SimLock] = {}

    def _current(self) -> Any:
        task = getcurrent()
        return self._locks.setdefault(task.life, SimLock()) if type(task) is Task else self._real

    def __enter__(self) -> bool:
        return bool(self._current().acquire())

    def __exit__(self, *exc: object) -> None:
        self._current().release()


class _QuietLogger:
    """The logger of ``concurrent.futures``, without the messages of threads that end with the simulation."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def critical(self, *args: Any, **kwargs: Any) -> None:
        if sys.exc_info()[0] is not SimulationClosed:
            self._real.critical(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _number(real: Callable[..., None]) -> Virtual:
    """Return ``Future.__init__``, which gives the future its number."""

    def init(task: Task, future: futures.Future[Any], *args: Any, **kwargs: Any) -> None:
        real(future, *args, **kwargs)
        future.__dict__[_NUMBER] = task.kernel.next_number()

    return init


def _hash_of(future: futures.Future[Any]) -> int:
    number: int | None = future.__dict__.get(_NUMBER)
    return object.__hash__(future) if number is None else number


def _cpu_count(real: Any) -> Any:
    return lambda: _CPUS if type(getcurrent()) is Task else real()


class _ChangeQueue(queue._PySimpleQueue):  # type: ignore[name-defined,misc]
    """The queue by which a ``ThreadPool`` tells one of its threads that the pool has changed."""

    _reader = None  # the pool passes it to _wait_for_updates, as what to wait for


class _PoolContext:
    """The context of ``multiprocessing`` of a simulated ``ThreadPool``, which only makes the queue of its changes."""

    SimpleQueue = _ChangeQueue


def _setup_queues(real: Callable[[Any], None]) -> Virtual:
    def virtual(task: Task, pool: Any) -> None:
        del task
        real(pool)
        pool._ctx = _PoolContext

    return virtual


def _wait_for_updates(real: Callable[..., None]) -> Callable[..., None]:
    def either(sentinels: Any, changes: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(changes, _ChangeQueue):
            real(sentinels, changes, *args, **kwargs)
            return
        changes.get()
        while not changes.empty():
            changes.get()

    return either


def _noted_worker(real: Callable[..., None]) -> Callable[..., None]:
    """Return the function of a pool's thread, which notes the pool for :func:`end_pools`."""

    def worker(task: Task, pool: Callable[[], Executor | None], *args: Any) -> None:
        task.life.pools[threading.current_thread()] = pool
        real(pool, *args)

    return worker


def end_pools(task: Task) -> None:
    """Let the pools of the task's process finish their work, and wait for their threads, as the interpreter does when
    it ends."""
    for pool in task.life.pools.values():
        executor = pool()
        if executor is not None:
            executor.shutdown(wait=False)
    for worker in list(task.life.pools):
        worker.join()


def replacements() -> Iterator[Replacement]:
    """Yield the replacements that thread pools need."""
    yield pools, "_global_shutdown_lock", _PerHostLock(pools._global_shutdown_lock)
    yield pools, "_worker", dispatch(pools._worker, _noted_worker(pools._worker))
    yield futures.Future, "__init__", dispatch(futures.Future.__init__, _number(futures.Future.__init__))
    yield futures.Future, "__hash__", _hash_of
    yield futures, "LOGGER", _QuietLogger(futures.LOGGER)
    for name in ("cpu_count", "process_cpu_count"):  # the latter is new in Python 3.13
        if hasattr(os, name):
            yield os, name, _cpu_count(getattr(os, name))
    yield pools.ThreadPoolExecutor, "_counter", itertools.count().__next__
    thread_pool: Any = multiprocessing.pool.ThreadPool
    yield thread_pool, "_setup_queues", dispatch(thread_pool._setup_queues, _setup_queues(thread_pool._setup_queues))
    base: Any = multiprocessing.pool.Pool
    yield base, "_wait_for_updates", staticmethod(_wait_for_updates(base._wait_for_updates))


def forget_workers() -> None:
    """Remove simulated workers from the table by which the interpreter joins pools at its exit."""
    queues: Any = pools._threads_queues
    for worker in list(queues):
        if is_simulated(worker):
            del queues[worker]
