"""Worker processes on this machine, started and watched by Pebble.

Each worker is a Pebble pool of one process. It has pipes of its own, so a worker that is killed while it sends a result
cannot damage the others; and it can be given the job to remove its containers. A thread for each worker gives it one
job at a time, and executes the job again when the process dies of it.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import pickle
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Final

from pebble import ProcessExpired, ProcessPool

from harness.errors import EnvironmentLacking

from .base import Params, Pool, Result, WorkerDied
from .worker import begin, call, end, unpack

DEATHS: Final = 3
"""A job is given up when this many processes have died of it."""
TIDY_WITHIN: Final = 120.0
"""Seconds that a worker may take to end its run and to remove its containers."""
CHECK_EVERY: Final = 1.0
"""Seconds between two checks that Pebble is still at work."""
SPAWN: Final = multiprocessing.get_context("spawn")
"""A forked process would inherit the locks of this process's threads in whatever state they are."""


class LocalPool(Pool):
    """At most ``width`` processes, each started when there is a job for it.

    Closing kills them at once. Those of a ``tidy`` pool are interrupted instead, and remove their containers first.
    """

    def __init__(self, width: int, *, tidy: bool = False) -> None:
        self._width = width
        self._tidy = tidy
        self._threads = _threads(width)
        self._lanes: list[_Lane] = []
        self._own = threading.local()
        self._starting = threading.Lock()
        self._workers: list[_Worker] = []
        self._closed = False
        self._deadline = math.inf
        self._lifeline, self._held_end = SPAWN.Pipe(duplex=False)

    @property
    def width(self) -> int:
        return self._width

    @property
    def lanes(self) -> Sequence[Pool]:
        if not self._lanes:
            self._lanes = [_Lane(self._execute) for _ in range(self._width)]
        return self._lanes

    def submit(self, work: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs) -> Future[Result]:
        return self._threads.submit(self._execute, pickle.dumps((work, args, kwargs)))

    def close(self) -> None:
        """Also waits until every process is gone."""
        with self._starting:
            self._closed = True
        self._deadline = time.monotonic() + TIDY_WITHIN
        self._held_end.close()  # kills or interrupts every worker
        self._threads.shutdown(wait=True, cancel_futures=True)
        for lane in self._lanes:
            lane.close()
        if self._workers:
            with ThreadPoolExecutor(len(self._workers)) as threads:
                list(threads.map(lambda worker: worker.end(tidy=self._tidy), self._workers))
        self._lifeline.close()

    def _execute(self, job: bytes) -> Any:
        """Called in one of the pool's threads."""
        deaths: list[str] = []
        begun = False
        while len(deaths) < DEATHS:
            worker = self._worker()
            try:
                return worker.execute(job, lambda: self._deadline)
            except ProcessExpired as death:
                begun = True
                deaths.append(_exit_description(death.exitcode))
            except BrokenProcessPool:
                worker.end(tidy=False)
                self._own.worker = None
                deaths.append("before it could begin")
        if not begun:
            raise EnvironmentLacking(
                "worker processes end as soon as they are started; see their output above. A script that uses "
                "workers must do so under `if __name__ == '__main__':`"
            )
        raise WorkerDied(f"{len(deaths)} processes died while executing it, the last one {deaths[-1]}")

    def _worker(self) -> _Worker:
        """Return this thread's own."""
        with self._starting:
            if self._closed:
                raise WorkerDied("the pool is closed")
            worker: _Worker | None = getattr(self._own, "worker", None)
            if worker is None:
                self._own.worker = worker = _Worker(self._lifeline, tidy=self._tidy)
                self._workers.append(worker)
        return worker


class _Lane(Pool):
    """One thread, and so one worker, of a :class:`LocalPool`, which closes it."""

    width = 1

    def __init__(self, execute: Callable[[bytes], Any]) -> None:
        self._execute = execute
        self._thread = _threads(1)

    def submit(self, work: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs) -> Future[Result]:
        return self._thread.submit(self._execute, pickle.dumps((work, args, kwargs)))

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)


class _Worker:
    """One process. Pebble starts another one in its place when it dies."""

    def __init__(self, lifeline: Connection, *, tidy: bool) -> None:
        self._pool = ProcessPool(1, initializer=begin, initargs=(lifeline, tidy), context=SPAWN)

    def execute(self, job: bytes, deadline: Callable[[], float]) -> Any:
        """Raises what the job raises, ProcessExpired if the process dies of it, BrokenProcessPool if it dies before,
        and WorkerDied after the ``deadline``, which is asked for again and again."""
        try:
            future = self._pool.schedule(call, (job,))
        except RuntimeError as error:
            if self._pool.active:  # asked a second time, what cannot be started raises the same again
                raise
            raise BrokenProcessPool from error  # the process died while it had nothing to do
        while not wait([future], timeout=CHECK_EVERY).done:
            if not self._pool.active:
                raise BrokenProcessPool
            if time.monotonic() > deadline():
                raise WorkerDied("it did not end in time")
        return unpack(future.result())

    def end(self, *, tidy: bool) -> None:
        """Wait until the process is gone. It may remove what it has kept if it is ``tidy``, and is killed if not."""
        if tidy:
            with contextlib.suppress(Exception):  # a process that died or hangs leaves what it had
                self._pool.schedule(end).result(TIDY_WITHIN)
        self._pool.stop()
        self._pool.join()


def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="pool", initializer=_block_interrupts)


def _exit_description(exit_code: int) -> str:
    return f"by signal {signal.Signals(-exit_code).name}" if exit_code < 0 else f"with exit status {exit_code}"


def _block_interrupts() -> None:
    """Have every process that this thread starts ignore SIGINT from its first instruction on: a terminal sends it to
    all processes of a command, and only the one that the user started ends the others. On Windows they ignore it a
    moment later (:func:`harness.run.pool.worker.begin`).

    Starting multiprocessing's resource tracker unblocks the signal, so that is done first.
    """
    if not hasattr(signal, "pthread_sigmask"):
        return
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
