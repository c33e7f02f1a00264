"""The results of many jobs, in their order or as they come."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from typing import Final, TypeVar

import msgspec

from .base import Pool, WorkerDied

Job = TypeVar("Job")
Result = TypeVar("Result")
CHECK_EVERY: Final = 1.0
"""Seconds between two checks that the pool still has workers."""


class AbandonedJob(msgspec.Struct, frozen=True):
    """Stands in for the result of a job of which several workers died; ``why`` says how many, and how."""

    why: str


def results(
    jobs: Iterable[Job],
    work: Callable[[Job], Result],
    pool: Pool,
    *,
    in_order: bool = True,
    at_once: int = 0,
    started: Callable[[Job], None] = lambda job: None,  # noqa: ARG005
) -> Generator[tuple[Job, Result | AbandonedJob], None, None]:
    """Yield each job with its result: in the order of the jobs, or as soon as each is done.

    ``jobs`` may be endless. At most ``at_once`` of them are submitted and not yet yielded (0: enough to keep every
    worker busy), and no more are drawn. ``started`` is called with each job as it is submitted. Close the generator to
    end early: jobs that have not begun are cancelled. Raises what a job raises.
    """
    todo = iter(jobs)
    submitted: dict[Future[Result], Job] = {}
    try:
        while True:
            room = (at_once or pool.width * (pool.in_advance if in_order else 1)) - len(submitted)
            for job in islice(todo, max(room, 0)):
                started(job)
                submitted[pool.submit(work, job)] = job
            if not submitted:
                return
            future = _next_done(submitted, pool, in_order=in_order)
            result = _result(pool, future)
            yield submitted.pop(future), result
    finally:
        for future in submitted:
            future.cancel()


def _next_done(submitted: dict[Future[Result], Job], pool: Pool, *, in_order: bool) -> Future[Result]:
    awaited = [next(iter(submitted))] if in_order else list(submitted)
    while not (done := wait(awaited, timeout=CHECK_EVERY, return_when=FIRST_COMPLETED).done):
        pool.check()
    return next(future for future in awaited if future in done)


def _result(pool: Pool, future: Future[Result]) -> Result | AbandonedJob:
    try:
        return pool.result(future)
    except WorkerDied as died:
        return AbandonedJob(str(died))
