"""A Dask cluster gives the results of this process, survives the loss of workers, and reports each problem in one
message."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import EnvironmentLacking, UsageError
from harness.run.pool import AbandonedJob, dask, open_pool, results
from harness.run.pool.dask import signature
from harness.run.verdicts.judging import versions

from .dask_cluster import LOOPBACK, DaskCluster, dask_cluster
from .jobs import SEEDS, MarkJob, digest, fail, gated_jobs, mark, wait_for_gated_job
from .scripts import start_script, wait_for_workers

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _no_commit() -> Iterator[None]:
    """Leave out the commit, which may change while tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_DIR", os.devnull)
        versions.cache_clear()
        signature.cache_clear()
        yield
    versions.cache_clear()
    signature.cache_clear()


@pytest.fixture(scope="module")
def here() -> list[tuple[int, str]]:
    """Return what this process finds."""
    return [(seed, digest(seed)) for seed in SEEDS]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Start a cluster of two workers for all tests that kill none."""
    with dask_cluster(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[DaskCluster]:
    """Start a cluster of two workers for one test, which may kill them."""
    (folder := tmp_path / "dask").mkdir()
    with dask_cluster(folder) as cluster:
        yield cluster


def test_a_cluster_gives_the_results_of_this_process(here: list[tuple[int, str]], standing: DaskCluster) -> None:
    with open_pool(1, standing.address) as pool:
        assert pool.width == 2
        assert list(results(SEEDS, digest, pool)) == here


def test_a_worker_with_several_threads_gives_the_results_of_this_process(
    here: list[tuple[int, str]], tmp_path: Path
) -> None:
    with dask_cluster(tmp_path, workers=0) as cluster:
        cluster.add("--nthreads", "2")
        with open_pool(1, cluster.address) as pool:
            assert list(results(SEEDS, digest, pool, at_once=4)) == here


def test_killing_a_worker_loses_no_result(tmp_path: Path, mortal: DaskCluster) -> None:
    (folder := tmp_path / "marks").mkdir()
    jobs, gate = gated_jobs(folder, 10)
    victim = mortal.workers[0]
    with open_pool(1, mortal.address) as pool:
        found = results(jobs, mark, pool, at_once=8)
        first = [next(found), next(found)]
        wait_for_gated_job(folder, victim.pid)
        victim.kill()
        gate.touch()
        assert first + list(found) == [(job, job.number**2) for job in jobs]
    assert sum(job.times() for job in jobs) > len(jobs), "a job was played again"


def test_only_a_job_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    (folder := tmp_path / "marks").mkdir()
    jobs = [MarkJob(str(folder), number, deadly=number == 1) for number in range(6)]
    with dask_cluster(tmp_path, workers=3, may_fail=1) as cluster, open_pool(1, cluster.address) as pool:
        found = dict(results(jobs, mark, pool))
    given_up = found.pop(jobs[1])
    assert isinstance(given_up, AbandonedJob)
    assert given_up.why.startswith("2 workers died while executing it, the last one tcp://127.0.0.1:")
    assert found == {job: job.number**2 for job in jobs if not job.deadly}
    assert jobs[1].times() == 2


def test_errors_of_jobs_are_raised_unchanged(standing: DaskCluster) -> None:
    with open_pool(1, standing.address) as pool:
        with pytest.raises(UsageError, match=r"^one is wrong$"):
            list(results([0, 1], fail, pool))
        with pytest.raises(LookupError, match="three is nowhere"):
            list(results([0, 3], fail, pool))


@pytest.mark.parametrize(
    ("before", "refusal"),
    [
        ("import sys; sys.modules['harness'] = None", r"cannot load the harness .*pip install 'lock-harness\[dask\]'"),
        (
            "from harness.run.pool import dask; mine = dask.signature() | {'redis': '0.1'}\n"
            "dask.signature = lambda: mine",
            r"has redis 0\.1 \(here \d\S+\): its results might differ",
        ),
    ],
)
def test_workers_that_differ_from_this_process_are_refused(tmp_path: Path, before: str, refusal: str) -> None:
    with dask_cluster(tmp_path, workers=0) as cluster:
        cluster.add(before=before)
        with pytest.raises(EnvironmentLacking, match=refusal), open_pool(1, cluster.address):
            pass


def test_a_different_worker_that_joins_later_is_refused(mortal: DaskCluster) -> None:
    with open_pool(1, mortal.address) as pool:
        for process in mortal.workers:
            process.kill()
        mortal.add(before="from harness.run.pool import dask; dask.signature = lambda: {'python': '2.7'}")
        with pytest.raises(EnvironmentLacking, match=r"python \d\S+ \(on the Dask worker 2\.7\)"):
            list(results(SEEDS, digest, pool))


def with_pool(address: str) -> None:
    with open_pool(1, address):
        pass


def test_an_address_without_a_scheduler_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dask, "ANSWERS_WITHIN", 1.0)
    with socket.create_server((LOOPBACK, 0)) as mute:
        silent = f"tcp://{LOOPBACK}:{mute.getsockname()[1]}"
        for address in (f"tcp://{LOOPBACK}:9", "nonsense", "foo://x:1", silent):
            with (
                pytest.raises(EnvironmentLacking, match=r"^no Dask scheduler answers at ") as told,
                open_pool(1, address),
            ):
                pass
            assert "\n" not in str(told.value)
            assert address in str(told.value)
    assert capfd.readouterr() == ("", "")


def test_a_cluster_without_workers_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dask, "RETURNS_WITHIN", 2.0)
    with dask_cluster(tmp_path, workers=0) as cluster:
        no_workers = "has no workers: start some with `dask worker tcp://"
        with pytest.raises(EnvironmentLacking, match=no_workers), open_pool(1, cluster.address):
            pass
        worker = cluster.add()
        cluster.wait()
        with open_pool(1, cluster.address) as pool:
            worker.kill()
            with pytest.raises(EnvironmentLacking, match="has had no worker for 2 s"):
                list(results(SEEDS, digest, pool))
    assert capfd.readouterr() == ("", "")


def test_the_loss_of_the_scheduler_is_one_message(tmp_path: Path, mortal: DaskCluster) -> None:
    script = start_script(tmp_path, scheduler=mortal.address)
    wait_for_workers(tmp_path)
    mortal.scheduler.kill()
    out, err = script.communicate(timeout=300)
    gone = f"error: the Dask scheduler at {mortal.address} is gone, or does not answer any more\n"
    assert (out, err) == (gone, "")


def test_an_interrupt_ends_the_pool_at_once(tmp_path: Path, standing: DaskCluster) -> None:
    script = start_script(tmp_path, scheduler=standing.address)
    wait_for_workers(tmp_path)
    script.send_signal(signal.SIGINT)
    out, err = script.communicate(timeout=300)  # the jobs have no end
    assert out.startswith("found ")
    assert err == ""


def test_a_folder_visible_to_every_worker_is_shared(tmp_path: Path, standing: DaskCluster) -> None:
    with open_pool(1, standing.address) as pool:
        assert pool.shared(tmp_path / "store") == tmp_path / "store"
    assert list((tmp_path / "store").iterdir()) == []


def test_a_folder_invisible_to_a_worker_is_refused(tmp_path: Path) -> None:
    another_machine = "import pathlib; pathlib.Path.exists = lambda path: False"
    with dask_cluster(tmp_path, workers=0) as cluster:
        cluster.add(before=another_machine)
        with (
            open_pool(1, cluster.address) as pool,
            pytest.raises(EnvironmentLacking, match=r"does not see .*/store, where"),
        ):
            pool.shared(tmp_path / "store")
