"""The worker pool of hunt, nightly, compare and sweep: it executes many independent runs and returns their results.

Jobs are executed in this process, in processes of this machine, or on a Dask cluster. A job is executed again when its
worker dies. The results do not depend on where and by how many workers the jobs are executed::

    with open_pool(workers=4) as pool:
        for job, result in results(jobs, execute, pool):
            ...
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

from harness.errors import UsageError

from .base import Pool, WorkerDied
from .results import AbandonedJob, results, results_of_neighbours

__all__ = ["AbandonedJob", "Pool", "WorkerDied", "open_pool", "results", "results_of_neighbours"]

MORE_IF_TIDY: Final = 2
"""Runs on containers wait for most of their time: four at once use about half of two processors."""


@contextlib.contextmanager
def open_pool(workers: int | None = 1, scheduler: str | None = None, *, tidy: bool = False) -> Iterator[Pool]:
    """Open the pool of so many ``workers`` on this machine (None: one for each processor, and up to
    :data:`MORE_IF_TIDY` more in a ``tidy`` pool; 1: this process itself), or of a Dask ``scheduler``
    (``tcp://host:port``).

    On leaving, jobs that are not done are dropped, and no worker process is left. The workers of a ``tidy`` pool may
    :func:`~harness.run.pool.kept.keep` containers, which mostly wait, and remove them before they end. Raises
    UsageError, and EnvironmentLacking for a Dask cluster that does not answer or whose workers differ from this
    process.
    """
    count = _usual_width(tidy=tidy) if workers is None else workers
    if count < 1:
        raise UsageError(f"workers must be at least 1, got {count}")
    if scheduler is not None and workers is not None and workers > 1:
        raise UsageError("workers are those of the cluster: give either their number on this machine or a scheduler")
    with contextlib.ExitStack() as stack:
        yield _opened(stack, count, scheduler, tidy=tidy)


def _usual_width(*, tidy: bool) -> int:
    processors = os.cpu_count() or 1
    return processors + (min(processors, MORE_IF_TIDY) if tidy else 0)


def _opened(stack: contextlib.ExitStack, count: int, scheduler: str | None, *, tidy: bool) -> Pool:
    if scheduler is not None:
        from .dask import connect

        return stack.enter_context(connect(scheduler))
    if count == 1:
        from .in_process import InProcess

        return stack.enter_context(contextlib.closing(InProcess()))
    from .local import LocalPool

    return stack.enter_context(contextlib.closing(LocalPool(count, tidy=tidy)))
