"""The results of many jobs: in their order, as they come, or with neighbours on the same worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice, pairwise
from typing import Final, Generic, TypeVar

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


def results_of_neighbours(
    jobs: Sequence[Job],
    work: Callable[[Job], Result],
    pool: Pool,
    *,
    started: Callable[[Job], None] = lambda job: None,  # noqa: ARG005
) -> Generator[tuple[Job, Result | AbandonedJob], None, None]:
    """Yield each job with its result as soon as it is done, as :func:`results` does. Each worker gets jobs that follow
    each other, so it can keep containers from one to the next, and workers need the same kind of servers less often at
    the same time."""
    lanes = pool.lanes
    shares = Shares(jobs, len(lanes))
    submitted: dict[Future[Result], tuple[int, Job]] = {}

    def submit_next(lane: int) -> None:
        for job in shares.take(lane):
            started(job)
            submitted[lanes[lane].submit(work, job)] = lane, job

    try:
        for lane in range(len(lanes)):
            submit_next(lane)
        while submitted:
            future = _first_done(list(submitted), pool)
            result = _result(pool, future)
            lane, job = submitted.pop(future)
            yield job, result
            submit_next(lane)
    finally:
        for future in submitted:
            future.cancel()


class Shares(Generic[Job]):
    """A sequence of jobs, divided into as many parts of equal length as there are workers."""

    def __init__(self, jobs: Sequence[Job], workers: int) -> None:
        ends = [len(jobs) * worker // workers for worker in range(workers + 1)]
        self._shares = [deque(jobs[begin:end]) for begin, end in pairwise(ends)]

    def take(self, worker: int) -> list[Job]:
        """Remove and return the next job of a worker (none when all are taken). One that has no more gets the second
        half of the longest share."""
        own = self._shares[worker]
        if not own:
            longest = max(self._shares, key=len)
            own.extendleft([longest.pop() for _ in range((len(longest) + 1) // 2)])
        return [own.popleft()] if own else []


def _next_done(submitted: dict[Future[Result], Job], pool: Pool, *, in_order: bool) -> Future[Result]:
    return _first_done([next(iter(submitted))] if in_order else list(submitted), pool)


def _first_done(awaited: Sequence[Future[Result]], pool: Pool) -> Future[Result]:
    while not (done := wait(awaited, timeout=CHECK_EVERY, return_when=FIRST_COMPLETED).done):
        pool.check()
    return next(future for future in awaited if future in done)


def _result(pool: Pool, future: Future[Result]) -> Result | AbandonedJob:
    try:
        return pool.result(future)
    except WorkerDied as died:
        return AbandonedJob(str(died))
