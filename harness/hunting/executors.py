"""Where the jobs of a hunt are played: in this process, in others beside it, or on a Dask cluster.

All are :class:`concurrent.futures.Executor`, and from all the results come in the order of the jobs, so that what is
made of them does not depend on how many workers there are and which of them was quicker.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from typing import Final, TypeVar

import msgspec

from ..errors import UsageError
from .workers import WorkerDied, Workers

Job = TypeVar("Job")
Result = TypeVar("Result")
AHEAD: Final = 2
"""Jobs in flight for each worker: one that is done with its own need not wait until an earlier one is."""


class GivenUp(msgspec.Struct, frozen=True):
    """Comes instead of a result: every worker that played the job died of it; ``why`` says how many, and of what."""

    why: str


def shared(
    jobs: Iterable[Job], work: Callable[[Job], Result], executor: Workers | None, *, at_once: int = 0
) -> Generator[tuple[Job, Result | GivenUp], None, None]:
    """Each job with its result, in the order of the jobs, of which there may be any number.

    ``work`` is a function of a module; jobs and results go to other processes and back. At most ``at_once`` jobs are
    in flight (0: enough to keep all workers busy), and no more are drawn than that. Without an executor they are
    played here, each when its result is asked for. Close the generator to end early: what has not begun is cancelled.
    Raises what a job raises.
    """
    if executor is None:
        for job in jobs:
            yield job, work(job)
        return
    todo = iter(jobs)
    flying: deque[tuple[Job, Future[Result]]] = deque()
    try:
        while True:
            room = (at_once or AHEAD * executor.width) - len(flying)
            flying.extend((job, executor.submit(work, job)) for job in islice(todo, max(room, 0)))
            if not flying:
                return
            job, future = flying[0]
            result = _result(executor, future)
            flying.popleft()
            yield job, result
    finally:
        for _, future in flying:
            future.cancel()


def _result(executor: Workers, future: Future[Result]) -> Result | GivenUp:
    try:
        return executor.outcome(future)
    except WorkerDied as died:
        return GivenUp(str(died))


@contextlib.contextmanager
def opened(workers: int, scheduler: str | None = None) -> Iterator[Workers | None]:
    """So many processes on this machine, the workers of the Dask cluster at an address, or (one worker and no address)
    None: this process. On leaving, what is still being played is dropped, and the processes are gone.

    Raises UsageError, and EnvironmentLacking for a cluster that does not answer or has workers that are not like this
    process. SIGTERM ends a hunt as Ctrl-C does inside :func:`harness.lanes.terminable`.
    """
    if workers < 1:
        raise UsageError(f"workers must be at least 1, got {workers}")
    if scheduler is not None and workers > 1:
        raise UsageError("workers are those of the cluster: give either their number on this machine or a scheduler")
    if scheduler is not None:
        from .on_dask import connected

        with connected(scheduler) as cluster:
            yield cluster
    elif workers == 1:
        yield None
    else:
        from .processes import Processes

        with Processes(workers) as processes:
            yield processes
