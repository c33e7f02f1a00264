"""Results come in the order of the jobs or of their completion, and no more jobs are drawn than needed."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from harness.errors import EnvironmentLacking, UsageError
from harness.run.pool import Pool, open_pool, results
from harness.run.pool.in_process import InProcess


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
