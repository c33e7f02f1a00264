"""Worker processes of this machine give the results of this process, survive jobs that kill them, and leave nothing
behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.plan import dump
from harness.run.pool import AbandonedJob, open_pool, results, results_of_neighbours
from harness.run.pool.local import DEATHS
from harness.search.request import HuntRequest
from harness.search.rounds import Round, RoundResult, search
from harness.search.vocabulary import learn_vocabulary

from .jobs import SEEDS, MarkJob, TidyJob, digest, fail, gated_jobs, hold, mark, pids, wait_for_gated_job
from .scripts import descendants, start_script, wait_for_workers, wait_until_gone

WORKERS = "pebble_pool_worker"


def worker_ids() -> list[int]:
    return [process.pid for process in multiprocessing.active_children() if process.name == WORKERS and process.pid]


def hears_interrupts(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    blocked = next(line for line in status.splitlines() if line.startswith("SigBlk:"))
    return not int(blocked.split()[1], 16) >> (signal.SIGINT - 1) & 1


@pytest.mark.parametrize(
    ("processors", "tidy", "count"), [(2, False, 2), (1, True, 2), (2, True, 4), (8, True, 10), (8, False, 8)]
)
def test_a_pool_has_a_worker_for_each_processor_and_up_to_two_more_for_containers(
    processors: int, tidy: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    with open_pool(None, tidy=tidy) as pool:
        assert pool.width == count


# Results.


@pytest.mark.slow
def test_only_a_job_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    jobs = [MarkJob(str(tmp_path), number, deadly=number == 1) for number in range(6)]
    with open_pool(2) as pool:
        found = dict(results(jobs, mark, pool))
        assert [hears_interrupts(pid) for pid in worker_ids()] == [False, False]
    assert found.pop(jobs[1]) == AbandonedJob("3 processes died while executing it, the last one by signal SIGKILL")
    assert found == {job: job.number**2 for job in jobs if not job.deadly}
    assert [job.times() for job in jobs] == [1, DEATHS, 1, 1, 1, 1], "no other worker died"
    assert worker_ids() == []


@pytest.mark.slow
def test_worker_processes_give_the_results_of_this_process() -> None:
    here = [(seed, digest(seed)) for seed in SEEDS]
    assert len({text for _, text in here}) == len(SEEDS), "the control: histories differ"
    with open_pool(2) as pool:
        assert list(results(SEEDS, digest, pool)) == here


@pytest.mark.slow
def test_killing_a_worker_loses_no_result(tmp_path: Path) -> None:
    jobs, gate = gated_jobs(tmp_path, 8)
    with open_pool(2) as pool:
        found = results(jobs, mark, pool, at_once=6)
        first = [next(found), next(found)]
        victim = worker_ids()[0]
        wait_for_gated_job(tmp_path, victim)
        os.kill(victim, signal.SIGKILL)
        gate.touch()
        assert first + list(found) == [(job, job.number**2) for job in jobs]
    assert sorted(job.times() for job in jobs) == [1, 1, 1, 1, 1, 1, 1, 2], "only its own job was played again"


@pytest.mark.slow
def test_a_worker_killed_while_idle_is_replaced(tmp_path: Path) -> None:
    with open_pool(2) as pool:
        assert pool.submit(mark, MarkJob(str(tmp_path), 1)).result() == 1
        (victim,) = worker_ids()
        os.kill(victim, signal.SIGKILL)
        later = [pool.submit(mark, MarkJob(str(tmp_path), number)) for number in (2, 3, 4)]
        assert [future.result() for future in later] == [4, 9, 16]


@pytest.mark.slow
def test_errors_of_jobs_are_raised_unchanged() -> None:
    with open_pool(2) as pool:
        with pytest.raises(UsageError, match=r"^one is wrong$"):
            list(results([0, 1], fail, pool))
        with pytest.raises(RuntimeError, match="Strange: 2: is strange"):
            list(results([0, 2], fail, pool))
        with pytest.raises(LookupError, match="three is nowhere") as raised:
            list(results([0, 3], fail, pool))
        assert "in fail" in raised.value.__notes__[0], "the note says where it was raised"
        assert list(results([4], fail, pool)) == [(4, 4)]


@pytest.fixture(scope="module")
def rounds() -> list[tuple[Round, RoundResult]]:
    """Return rounds of one hunt, each with the result of this process."""
    request = HuntRequest(lock="redis-token", faults=("none",), clients=2, schedules=8, stop_at_first=True).completed()
    jobs = [Round(request=request, number=number, vocabulary=learn_vocabulary(request)) for number in range(1, 5)]
    found = [(job, search(job)) for job in jobs]
    plans = [failure.plan for _, searched in found for failure in searched.failures]
    assert len({dump(plan) for plan in plans}) > 1, "the control: rounds find different things"
    return found


@pytest.mark.slow
def test_rounds_give_the_same_results_when_a_worker_is_killed(rounds: list[tuple[Round, RoundResult]]) -> None:
    with open_pool(2) as pool:
        found = results((job for job, _ in rounds), search, pool)
        first = next(found)
        os.kill(worker_ids()[0], signal.SIGKILL)
        assert [first, *found] == rounds


# The end of a pool.


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = start_script(tmp_path)
    wait_for_workers(tmp_path)
    started = descendants(script.pid)
    script.kill()
    script.communicate()
    wait_until_gone(started)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_pool_at_once_and_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    script = start_script(tmp_path)
    wait_for_workers(tmp_path)
    started = descendants(script.pid)
    os.killpg(script.pid, number)  # a terminal interrupts all processes, too
    out, err = script.communicate(timeout=300)  # the jobs have no end
    assert out.startswith("found ")
    assert err == ""
    wait_until_gone(started)


@pytest.mark.slow
def test_starting_workers_ignore_an_interrupt(tmp_path: Path) -> None:
    script = start_script(tmp_path)
    while not descendants(script.pid):
        time.sleep(0.005)  # the first is multiprocessing's resource tracker
    os.killpg(script.pid, signal.SIGINT)
    out, err = script.communicate(timeout=300)
    assert out.startswith("found ")
    assert err == ""


@pytest.mark.slow
def test_a_script_without_a_main_guard_gets_an_explanation(tmp_path: Path) -> None:
    out, err = start_script(tmp_path, start="main()").communicate(timeout=300)
    assert "error: worker processes end as soon as they are started" in out
    assert "__main__" in out
    assert "RuntimeError" in err, "the message refers to it"


# Containers; the tests use a file instead.


@pytest.mark.slow
def test_a_worker_reuses_its_containers_and_removes_them_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELD_IN", str(tmp_path))
    (folder := tmp_path / "marks").mkdir()
    jobs = [TidyJob(str(folder), number) for number in range(4)]
    with open_pool(2, tidy=True) as pool:
        found = {job.number: pid for job, pid in results_of_neighbours(jobs, hold, pool)}
        assert set(found.values()) == pids(folder)
        assert found[0] != found[2], "each of the two began with a part of the jobs"
        assert {path.name for path in tmp_path.glob("held-*")} == {f"held-{pid}" for pid in found.values()}
    assert list(tmp_path.glob("held-*")) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_worker_interrupted_during_a_run_removes_its_containers(tmp_path: Path, number: signal.Signals) -> None:
    """Both workers are in runs of a minute."""
    script = start_script(tmp_path, tidy=True)
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "marks").iterdir())) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    started = descendants(script.pid)
    assert len(list(tmp_path.glob("held-*"))) == 2
    script.send_signal(number)
    script.communicate(timeout=300)
    wait_until_gone(started)
    assert list(tmp_path.glob("held-*")) == []
