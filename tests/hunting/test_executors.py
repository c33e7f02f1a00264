"""Jobs of a hunt are played anywhere, come back in order, and outlive those who play them."""

from __future__ import annotations

import hashlib
import itertools
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.errors import EnvironmentLacking, UsageError
from harness.history import Op
from harness.hunting import on_dask
from harness.hunting.asked import Asked
from harness.hunting.executors import GivenUp, opened, shared
from harness.hunting.on_dask import signature
from harness.hunting.processes import DEATHS
from harness.hunting.rounds import Round, Searched, search
from harness.hunting.trials import play
from harness.hunting.vocabulary import learnt
from harness.hunting.workers import Workers
from harness.plan import Plan, dump
from harness.runs import versions

from .dask_cluster import LOOPBACK, DaskCluster, dask_cluster

ROOT = Path(__file__).parent.parent.parent
SEEDS = range(6)


# Jobs.


def digest(seed: int) -> str:
    """Of the history of a short run, byte for byte; each is another one."""
    plan = Plan(lock="redis-setnx", clients=2, time_limit=4.0, settle=1.0, seed=seed)
    lines = [msgspec.json.encode(op) for op in play(plan).history]
    assert isinstance(msgspec.json.decode(lines[0], type=Op), Op)
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


class Noted(msgspec.Struct, frozen=True):
    """A job that leaves a mark in ``folder`` each time it is begun. It takes a moment, and kills who plays it if it is
    ``deadly``."""

    folder: str
    number: int
    deadly: bool = False

    def times(self) -> int:
        return len(list(Path(self.folder).glob(f"{self.number}-*")))


def noted(job: Noted) -> int:
    Path(job.folder, f"{job.number}-{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(0.2)
    if job.deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return job.number**2


class Strange(Exception):
    """Cannot be made again from what is pickled of it."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"{number}: {why}")


def fails(number: int) -> int:
    if number == 1:
        raise UsageError("one is wrong")
    if number == 2:
        raise Strange(2, "is strange")
    if number == 3:
        raise LookupError("three is nowhere")
    return number


# Order, and how far ahead.


class Threads(Workers):
    """Threads of this process, told how long each job takes."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._threads = ThreadPoolExecutor(width)
        self.submitted = 0

    @property
    def width(self) -> int:
        return self._width

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        return self._threads.submit(fn, *args, **kwargs)

    def outcome(self, future: Future[Any]) -> Any:
        return future.result()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait, cancel_futures=cancel_futures)


def test_results_come_in_the_order_of_the_jobs_whoever_is_quicker() -> None:
    done: list[int] = []

    def work(job: int) -> int:
        time.sleep(0.05 * (job % 4 == 0))
        done.append(job)
        return -job

    with Threads(4) as threads:
        found = list(shared(range(12), work, threads))
    assert found == [(job, -job) for job in range(12)]
    assert done != sorted(done), "the control: they were not done in that order"


def test_here_a_job_is_played_when_its_result_is_asked_for() -> None:
    played: list[int] = []
    found = shared(itertools.count(), played.append, None)
    assert [next(found), next(found)] == [(0, None), (1, None)]
    found.close()
    assert played == [0, 1]


def test_no_more_is_drawn_than_may_be_in_flight_and_the_rest_is_dropped_at_the_end() -> None:
    drawn: list[int] = []
    held = threading.Event()
    played: list[int] = []

    def jobs() -> Iterator[int]:
        for job in itertools.count():
            drawn.append(job)
            yield job

    def work(job: int) -> int:
        if job > 1:
            held.wait(10)
        played.append(job)
        return job

    with Threads(1) as threads:
        found = shared(jobs(), work, threads, at_once=3)
        assert drawn == []
        assert next(found) == (0, 0)
        assert drawn == [0, 1, 2]
        assert next(found) == (1, 1)
        assert drawn == [0, 1, 2, 3]
        found.close()
        held.set()
    assert drawn == [0, 1, 2, 3]
    assert played == [0, 1, 2], "job 2 had begun, job 3 had not"


def test_who_plays() -> None:
    with opened(1) as here:
        assert here is None
    with pytest.raises(UsageError, match="workers must be at least 1, got 0"), opened(0):
        pass
    with pytest.raises(UsageError, match="either their number on this machine or a scheduler"), opened(2, "tcp://a:1"):
        pass


def test_dask_is_asked_for_by_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(EnvironmentLacking, match=r"pip install 'lock-harness\[dask\]'"), opened(1, "tcp://127.0.0.1:1"):
        pass


# Processes of this machine.


@pytest.fixture(scope="module")
def here() -> list[tuple[int, str]]:
    """What this process finds."""
    found = [(seed, digest(seed)) for seed in SEEDS]
    assert len({text for _, text in found}) == len(SEEDS), "the control: histories differ"
    return found


def hunting() -> list[int]:
    return [process.pid for process in multiprocessing.active_children() if process.name == "hunting" and process.pid]


def hears_interrupts(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    blocked = next(line for line in status.splitlines() if line.startswith("SigBlk:"))
    return not int(blocked.split()[1], 16) >> (signal.SIGINT - 1) & 1


def marks(folder: Path) -> set[str]:
    """Which jobs have been begun, and in which processes."""
    return {mark.name.rpartition("-")[0] for mark in folder.iterdir()}


def wait_for_mark(folder: Path, pid: int) -> None:
    """Until a process begins a job."""
    before, deadline = marks(folder), time.monotonic() + 20
    while not any(mark.endswith(f"-{pid}") for mark in marks(folder) - before):
        assert time.monotonic() < deadline, f"{pid} began nothing, but {sorted(marks(folder))} were"
        time.sleep(0.01)


@pytest.mark.slow
def test_processes_find_what_this_one_finds(here: list[tuple[int, str]]) -> None:
    with opened(2) as processes:
        assert list(shared(SEEDS, digest, processes)) == here
        assert [hears_interrupts(pid) for pid in hunting()] == [False, False]
    assert hunting() == []


@pytest.mark.slow
def test_a_process_that_is_killed_loses_no_result(tmp_path: Path) -> None:
    jobs = [Noted(str(tmp_path), number) for number in range(8)]
    with opened(2) as processes:
        found = shared(jobs, noted, processes, at_once=6)
        results = [next(found), next(found)]
        victim = hunting()[0]
        wait_for_mark(tmp_path, victim)
        os.kill(victim, signal.SIGKILL)
        results += found
    assert results == [(job, job.number**2) for job in jobs]
    assert sorted(job.times() for job in jobs) == [1, 1, 1, 1, 1, 1, 1, 2], "only what it was at was played again"


@pytest.mark.slow
def test_a_job_that_kills_whoever_plays_it_is_given_up(tmp_path: Path) -> None:
    jobs = [Noted(str(tmp_path), number, deadly=number == 1) for number in range(6)]
    with opened(2) as processes:
        found = dict(shared(jobs, noted, processes))
    given_up = found.pop(jobs[1])
    assert given_up == GivenUp("3 processes that played it died, the last one by signal SIGKILL")
    assert found == {job: job.number**2 for job in jobs if not job.deadly}
    assert [job.times() for job in jobs] == [1, DEATHS, 1, 1, 1, 1], "nobody else's process died"


@pytest.mark.slow
def test_errors_of_jobs_are_raised_as_they_are() -> None:
    with opened(2) as processes:
        with pytest.raises(UsageError, match=r"^one is wrong$"):
            list(shared([0, 1], fails, processes))
        with pytest.raises(RuntimeError, match="Strange: 2: is strange"):
            list(shared([0, 2], fails, processes))
        with pytest.raises(LookupError, match="three is nowhere") as told:
            list(shared([0, 3], fails, processes))
        assert "in fails" in told.value.__notes__[0], "where it was raised is told too"
        assert list(shared([4], fails, processes)) == [(4, 4)]


SCRIPT = """
import itertools, sys
sys.path.insert(0, {root!r})
from contextlib import closing
from harness.errors import HarnessError
from harness.hunting.executors import opened, shared
from harness.lanes import terminable
from tests.hunting.test_executors import Noted, noted

def main():
    jobs = (Noted({folder!r}, number) for number in itertools.count())
    found = 0
    try:
        with terminable(), opened({workers}) as processes, closing(shared(jobs, noted, processes)) as results:
            for _ in results:
                found += 1
    except KeyboardInterrupt:
        print("found", found)
    except HarnessError as error:
        print("error:", error)

{start}
"""
GUARDED = "if __name__ == '__main__':\n    main()"


def started(folder: Path, *, start: str = GUARDED, scheduler: str = "") -> subprocess.Popen[str]:
    """A script that hunts without end, with two processes or on a Dask cluster."""
    marks_in = folder / "marks"
    marks_in.mkdir()
    script = folder / "hunt.py"
    workers = f"1, {scheduler!r}" if scheduler else "2"
    script.write_text(SCRIPT.format(root=str(ROOT), folder=str(marks_in), start=start, workers=workers))
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, str(script)], stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def workers_of(folder: Path) -> set[int]:
    """The processes that have played something, once there are two."""
    deadline = time.monotonic() + 30
    while len(pids := {int(mark.split("-")[1]) for mark in marks(folder / "marks")}) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return pids


def gone(pids: set[int], within: float) -> bool:
    deadline = time.monotonic() + within
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("to", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_at_once_and_leaves_nothing(tmp_path: Path, to: signal.Signals) -> None:
    hunt = started(tmp_path)
    pids = workers_of(tmp_path)
    since = time.monotonic()
    os.killpg(hunt.pid, to)  # as a terminal does: all processes get it
    out, err = hunt.communicate(timeout=20)
    assert time.monotonic() - since < 3
    assert out.startswith("found ")
    assert err == ""
    assert gone(pids, within=1)


@pytest.mark.slow
def test_an_interrupt_while_processes_start_is_heard_by_none_of_them(tmp_path: Path) -> None:
    hunt = started(tmp_path)
    children = Path(f"/proc/{hunt.pid}/task")
    while not any(list_.read_text().split()[1:] for list_ in children.glob("*/children")):
        time.sleep(0.005)  # the first is that of multiprocessing's own, which looks after semaphores
    os.killpg(hunt.pid, signal.SIGINT)
    out, err = hunt.communicate(timeout=20)
    assert (out, err) == ("found 0\n", "")


@pytest.mark.slow
def test_processes_end_when_who_started_them_was_killed(tmp_path: Path) -> None:
    hunt = started(tmp_path)
    pids = workers_of(tmp_path)
    hunt.kill()
    hunt.communicate()
    assert gone(pids, within=3)


@pytest.mark.slow
def test_a_script_that_each_of_its_processes_runs_again_is_told_so(tmp_path: Path) -> None:
    out, err = started(tmp_path, start="main()").communicate(timeout=60)
    assert "error: processes end as soon as they are started (with exit status 1)" in out
    assert "__main__" in out
    assert "RuntimeError" in err, "what it says above"


# Dask.


@pytest.fixture(autouse=True, scope="module")
def _no_commit() -> Iterator[None]:
    """What git says of this checkout may change while tests run; versions remain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_DIR", os.devnull)
        versions.cache_clear()
        signature.cache_clear()
        yield
    versions.cache_clear()
    signature.cache_clear()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A cluster of two workers that nobody kills."""
    with dask_cluster(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[DaskCluster]:
    """A cluster of two workers whose processes tests may kill."""
    (folder := tmp_path / "dask").mkdir()
    with dask_cluster(folder) as cluster:
        yield cluster


@pytest.mark.slow
def test_a_dask_cluster_finds_what_this_process_finds(here: list[tuple[int, str]], standing: DaskCluster) -> None:
    with opened(1, standing.address) as workers:
        assert workers is not None
        assert workers.width == 2
        assert list(shared(SEEDS, digest, workers)) == here


@pytest.mark.slow
def test_a_dask_worker_of_several_threads_finds_what_this_process_finds(
    here: list[tuple[int, str]], tmp_path: Path
) -> None:
    with dask_cluster(tmp_path, workers=0) as cluster:
        cluster.add("--nthreads", "2")
        with opened(1, cluster.address) as workers:
            assert list(shared(SEEDS, digest, workers, at_once=4)) == here


@pytest.mark.slow
def test_a_dask_worker_that_is_killed_loses_no_result(tmp_path: Path, mortal: DaskCluster) -> None:
    (folder := tmp_path / "marks").mkdir()
    jobs = [Noted(str(folder), number) for number in range(10)]
    victim = mortal.workers[0]
    with opened(1, mortal.address) as workers:
        found = shared(jobs, noted, workers, at_once=8)
        results = [next(found), next(found)]
        wait_for_mark(folder, victim.pid)
        victim.kill()
        results += found
    assert results == [(job, job.number**2) for job in jobs]
    assert sum(job.times() for job in jobs) > len(jobs), "something was played again"


@pytest.mark.slow
def test_a_job_that_kills_whoever_plays_it_is_given_up_on_dask_too(tmp_path: Path) -> None:
    (folder := tmp_path / "marks").mkdir()
    jobs = [Noted(str(folder), number, deadly=number == 1) for number in range(6)]
    with dask_cluster(tmp_path, workers=3, may_fail=1) as cluster, opened(1, cluster.address) as workers:
        found = dict(shared(jobs, noted, workers))
    given_up = found.pop(jobs[1])
    assert isinstance(given_up, GivenUp)
    assert given_up.why.startswith("2 workers that played it died, the last one tcp://127.0.0.1:")
    assert found == {job: job.number**2 for job in jobs if not job.deadly}
    assert jobs[1].times() == 2


@pytest.mark.slow
def test_errors_of_jobs_on_dask_are_raised_as_they_are(standing: DaskCluster) -> None:
    with opened(1, standing.address) as workers:
        with pytest.raises(UsageError, match=r"^one is wrong$"):
            list(shared([0, 1], fails, workers))
        with pytest.raises(LookupError, match="three is nowhere"):
            list(shared([0, 3], fails, workers))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "refusal"),
    [
        ("import sys; sys.modules['harness'] = None", r"cannot load the harness .*pip install 'lock-harness\[dask\]'"),
        (
            "from harness.hunting import on_dask; mine = on_dask.signature() | {'redis': '0.1'}\n"
            "on_dask.signature = lambda: mine",
            r"has redis 0\.1 \(here \d\S+\): it might find something else",
        ),
    ],
)
def test_workers_that_would_not_play_alike_are_refused(tmp_path: Path, before: str, refusal: str) -> None:
    with dask_cluster(tmp_path, workers=0) as cluster:
        cluster.add(before=before)
        with pytest.raises(EnvironmentLacking, match=refusal), opened(1, cluster.address):
            pass


@pytest.mark.slow
def test_a_worker_that_comes_later_and_would_not_play_alike_is_refused(mortal: DaskCluster) -> None:
    with opened(1, mortal.address) as workers:
        for process in mortal.workers:
            process.kill()
        mortal.add(before="from harness.hunting import on_dask; on_dask.signature = lambda: {'python': '2.7'}")
        with pytest.raises(EnvironmentLacking, match=r"python \d\S+ \(on the Dask worker 2\.7\)"):
            list(shared(SEEDS, digest, workers))


@pytest.mark.slow
def test_nobody_at_the_address_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(on_dask, "ANSWERS_WITHIN", 1.0)
    with socket.create_server((LOOPBACK, 0)) as mute:
        says_nothing = f"tcp://{LOOPBACK}:{mute.getsockname()[1]}"
        for address in (f"tcp://{LOOPBACK}:9", "nonsense", "foo://x:1", says_nothing):
            since = time.monotonic()
            with pytest.raises(EnvironmentLacking, match=r"^no Dask scheduler answers at ") as told, opened(1, address):
                pass
            assert "\n" not in str(told.value)
            assert address in str(told.value)
            assert time.monotonic() - since < 4
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_cluster_without_workers_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(on_dask, "ANSWERS_WITHIN", 2.0)
    monkeypatch.setattr(on_dask, "RETURNS_WITHIN", 2.0)
    with dask_cluster(tmp_path, workers=0) as cluster:
        no_workers = "has no workers: start some with `dask worker tcp://"
        with pytest.raises(EnvironmentLacking, match=no_workers), opened(1, cluster.address):
            pass
        worker = cluster.add()
        cluster.wait()
        with opened(1, cluster.address) as workers:
            worker.kill()
            with pytest.raises(EnvironmentLacking, match="has had no worker for 2 s"):
                list(shared(SEEDS, digest, workers))
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_scheduler_that_goes_is_said_in_one_line(tmp_path: Path, mortal: DaskCluster) -> None:
    hunt = started(tmp_path, scheduler=mortal.address)
    workers_of(tmp_path)
    mortal.scheduler.kill()
    out, err = hunt.communicate(timeout=30)
    gone = f"error: the Dask scheduler at {mortal.address} is gone, or does not answer any more\n"
    assert (out, err) == (gone, "")


@pytest.mark.slow
def test_an_interrupt_of_a_hunt_on_dask_ends_it_at_once(tmp_path: Path, standing: DaskCluster) -> None:
    hunt = started(tmp_path, scheduler=standing.address)
    workers_of(tmp_path)
    since = time.monotonic()
    hunt.send_signal(signal.SIGINT)
    out, err = hunt.communicate(timeout=20)
    assert time.monotonic() - since < 5
    assert out.startswith("found ")
    assert err == ""


# Real rounds.


@pytest.fixture(scope="module")
def rounds() -> list[tuple[Round, Searched]]:
    """Of one hunt, with what this process finds in each."""
    asked = Asked(lock="redis-token", faults=("none",), clients=2, schedules=8).completed()
    jobs = [Round(asked=asked, number=number, vocabulary=learnt(asked)) for number in range(1, 5)]
    found = [(job, search(job)) for job in jobs]
    plans = [failure.plan for _, searched in found for failure in searched.failures]
    assert len({dump(plan) for plan in plans}) > 1, "the control: rounds find different things"
    return found


@pytest.mark.slow
def test_rounds_find_the_same_in_processes_of_which_one_is_killed(rounds: list[tuple[Round, Searched]]) -> None:
    with opened(2) as processes:
        found = shared((job for job, _ in rounds), search, processes)
        results = [next(found)]
        os.kill(hunting()[0], signal.SIGKILL)
        results += found
    assert results == rounds


@pytest.mark.slow
def test_rounds_find_the_same_on_dask_of_which_a_worker_is_killed(
    rounds: list[tuple[Round, Searched]], mortal: DaskCluster
) -> None:
    with opened(1, mortal.address) as workers:
        found = shared((job for job, _ in rounds), search, workers)
        results = [next(found)]
        mortal.workers[0].kill()
        results += found
    assert results == rounds
