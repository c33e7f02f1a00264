"""Results come in the order of the jobs or of their completion, and no more jobs are drawn than needed."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from harness.errors import EnvironmentLacking, UsageError
from harness.run.pool import AbandonedJob, Pool, WorkerDied, open_pool, results, results_of_neighbours
from harness.run.pool.in_process import InProcess
from harness.run.pool.results import Shares


class Threads(Pool):
    """A pool of threads of this process."""

    width = 0

    def __init__(self, width: int) -> None:
        self.width = width
        self._threads = ThreadPoolExecutor(width)

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._threads.submit(work, *args, **kwargs)

    def close(self) -> None:
        self._threads.shutdown()


def test_results_come_in_the_order_of_the_jobs() -> None:
    done: list[int] = []
    one_is_done = threading.Event()

    def work(job: int) -> int:
        if job == 0:
            one_is_done.wait(60)
        done.append(job)
        if job == 1:
            one_is_done.set()
        return -job

    found = list(results(range(12), work, threads := Threads(4)))
    threads.close()
    assert found == [(job, -job) for job in range(12)]
    assert done != sorted(done), "the control: they were not done in that order"


def test_unordered_results_come_as_jobs_complete() -> None:
    first_may_end = threading.Event()
    began: list[int] = []

    def work(job: int) -> int:
        if job == 0:
            first_may_end.wait(60)
        return job

    threads = Threads(2)
    found = results(range(5), work, threads, in_order=False, started=began.append)
    assert [next(found)[0] for _ in range(4)] == [1, 2, 3, 4], "job 0 holds up nobody"
    first_may_end.set()
    assert list(found) == [(0, 0)]
    assert began == [0, 1, 2, 3, 4]
    threads.close()


def test_in_process_a_job_is_played_when_its_result_is_requested() -> None:
    executed: list[int] = []
    found = results(itertools.count(), executed.append, InProcess())
    assert [next(found), next(found)] == [(0, None), (1, None)]
    found.close()
    assert executed == [0, 1]


def test_in_process_an_error_comes_after_earlier_results() -> None:
    found = results([4, 2, 0], lambda number: 8 // number, InProcess())
    assert [next(found), next(found)] == [(4, 2), (2, 4)]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_only_submittable_jobs_are_drawn_and_unstarted_ones_are_cancelled() -> None:
    drawn: list[int] = []
    may_go_on = threading.Event()
    executed: list[int] = []

    def jobs() -> Iterator[int]:
        for job in itertools.count():
            drawn.append(job)
            yield job

    def work(job: int) -> int:
        if job > 1:
            may_go_on.wait(60)
        executed.append(job)
        return job

    found = results(jobs(), work, threads := Threads(1), at_once=3)
    assert drawn == []
    assert next(found) == (0, 0)
    assert drawn == [0, 1, 2]
    assert next(found) == (1, 1)
    assert drawn == [0, 1, 2, 3]
    found.close()
    may_go_on.set()
    threads.close()
    assert drawn == [0, 1, 2, 3]
    assert executed == [0, 1, 2], "job 2 had begun, job 3 had not"


class Lanes(Pool):
    """A pool whose workers are pools of one thread each."""

    width = 0

    def __init__(self, width: int) -> None:
        self.width = width
        self._threads = [Threads(1) for _ in range(width)]

    @property
    def lanes(self) -> Sequence[Pool]:
        return self._threads

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise NotImplementedError

    def close(self) -> None:
        for threads in self._threads:
            threads.close()


def test_a_worker_gets_neighbours_and_then_the_second_half_of_the_longest_share() -> None:
    shares = Shares(range(10), 3)
    assert [shares.take(worker) for worker in (0, 1, 2)] == [[0], [3], [6]]
    assert [shares.take(0) for _ in range(3)] == [[1], [2], [8]], "6 to 9 is the longest, of which 7, 8, 9 are left"
    assert [shares.take(2), shares.take(2)] == [[7], [5]]
    assert [shares.take(worker) for worker in (1, 0, 1, 2)] == [[4], [9], [], []]
    assert Shares([], 2).take(1) == []


def test_jobs_of_a_share_are_done_by_one_worker() -> None:
    by_thread: dict[int, list[int]] = {}
    together = threading.Barrier(4)

    def work(job: int) -> int:
        together.wait(60)
        by_thread.setdefault(threading.get_ident(), []).append(job)
        return -job

    began: list[int] = []
    pool = Lanes(4)
    found = dict(results_of_neighbours(range(12), work, pool, started=began.append))
    pool.close()
    assert found == {job: -job for job in range(12)}
    assert sorted(by_thread.values()) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert sorted(began) == list(range(12))


def test_an_abandoned_job_leaves_its_worker_the_next_one() -> None:
    def work(job: int) -> int:
        if job == 1:
            raise WorkerDied("3 processes died")
        return -job

    found = dict(results_of_neighbours(range(3), work, InProcess()))
    assert found == {0: 0, 1: AbandonedJob("3 processes died"), 2: -2}


def test_neighbours_that_have_not_begun_are_dropped() -> None:
    executed: list[int] = []
    found = results_of_neighbours(range(9), executed.append, InProcess())
    assert next(found) == (0, None)
    found.close()
    assert executed == [0]


def test_one_worker_runs_jobs_in_this_process() -> None:
    with open_pool(1) as pool:
        assert isinstance(pool, InProcess)


def test_invalid_numbers_of_workers_are_refused() -> None:
    with pytest.raises(UsageError, match="workers must be at least 1, got 0"), open_pool(0):
        pass
    with pytest.raises(UsageError, match="either their number on this machine or a scheduler"), open_pool(2, "tcp://a"):
        pass


def test_a_scheduler_without_dask_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(EnvironmentLacking, match=r"pip install 'lock-harness\[dask\]'"),
        open_pool(1, "tcp://127.0.0.1:1"),
    ):
        pass
