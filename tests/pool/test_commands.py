"""Each command that executes many runs gives the same result with any number of workers, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.plan import Plan
from harness.run.pool.dask import signature
from harness.run.verdicts.judging import versions
from harness.scenarios import catalogue
from harness.search import request as hunts
from harness.search.hunt import hunt
from harness.studies.compare import compare
from harness.studies.compare import plans as comparisons
from harness.studies.nightly import nightly
from harness.studies.sweep import Grid, sweep

from .dask_cluster import dask_cluster
from .scripts import descendants, wait_until_gone

ROOT = Path(__file__).parent.parent.parent
SLOW = [pytest.mark.slow, pytest.mark.timeout(600)]
TIMES = {"seconds", "real_seconds", "started_at"}


def normal(document: Any, store: Path) -> Any:
    """Return a document without times of day, and without the names of folders, which contain them."""
    if isinstance(document, dict):
        return {name: normal(value, store) for name, value in document.items() if name not in TIMES}
    if isinstance(document, list | tuple):
        return [normal(value, store) for value in document]
    if isinstance(document, str):
        return re.sub(r"\d{8}T\d{6}Z-(\d+)(-\d+)?", r"time-\1", document.replace(str(store), "store"))
    return document


def hunt_document(store: Path, **where: Any) -> Any:
    asked = hunts.HuntRequest(lock="redis-token", faults=("none",), clients=2, schedules=8)
    document = msgspec.to_builtins(hunt(asked, rounds=4, keep_going=True, store=store, **where).document)
    del document["folder"]
    assert document["findings"], "the control: something is found"
    return document


def nightly_document(store: Path, **where: Any) -> Any:
    names = ("ttl-overrun", "setnx-crash", "ttl-overrun.safe", "setnx-crash.safe")
    document = msgspec.to_builtins(nightly("smoke", "sim", store=store, scenarios=map(catalogue.find, names), **where))
    assert document["status"] == 0
    return document


def comparison_document(store: Path, **where: Any) -> Any:
    asked = comparisons.ComparisonRequest(locks=("redis-token",), nemeses=("client-pause",), runs=2, time_limit=10.0)
    return msgspec.to_builtins(compare(asked, store=store, **where)[0])


def swept(store: Path, **where: Any) -> Any:
    plan = Plan(lock="redis-token", clients=3, time_limit=9.0, rest=0.02)
    grid = Grid(ttl=(0.5, 3.0), hold=(0.2,), pause=(1.5,), every=2.0, seeds=2)
    document = msgspec.to_builtins(sweep(plan, grid, **where))
    assert [point["violated"] for point in document["points"]] == [2, 0], "the control: points differ"
    return document


COMMANDS = {"hunt": hunt_document, "nightly": nightly_document, "compare": comparison_document, "sweep": swept}
Command = Callable[..., Any]


@pytest.mark.parametrize(
    "command", [pytest.param(function, id=name, marks=SLOW) for name, function in COMMANDS.items()]
)
def test_the_number_of_workers_does_not_change_the_result(command: Command, tmp_path: Path) -> None:
    found = [
        json.dumps(normal(command(tmp_path / str(workers), workers=workers), tmp_path / str(workers)))
        for workers in (1, 2, 3)
    ]
    assert found[1] == found[0]
    assert found[2] == found[0]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a Dask cluster of two workers. The commit, which may change while tests run, does not count."""
    with pytest.MonkeyPatch.context() as patch, dask_cluster(tmp_path_factory.mktemp("dask")) as cluster:
        patch.setenv("GIT_DIR", os.devnull)
        versions.cache_clear()
        signature.cache_clear()
        yield cluster.address
    versions.cache_clear()
    signature.cache_clear()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_dask_cluster_gives_the_result_of_this_process(command: Command, tmp_path: Path, scheduler: str) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    found = normal(command(there, scheduler=scheduler), there)
    assert json.dumps(found) == json.dumps(normal(command(here, workers=1), here))


@pytest.mark.slow
@pytest.mark.parametrize("signal_", [pytest.param("KILL"), pytest.param("TERM", marks=pytest.mark.slow)])
def test_a_killed_command_leaves_no_process(signal_: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "nightly", "--suite", "full", "--workers", "2"]
    command += ["--only", "redis-*", "--out", str(tmp_path)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, stdout=log, cwd=ROOT)
    deadline = time.monotonic() + 300
    while b"2 of" not in (tmp_path / "log").read_bytes():
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.1)
    started = descendants(process.pid)
    assert len(started) >= 2
    subprocess.run(["kill", f"-{signal_}", str(process.pid)], check=True)
    process.wait(timeout=300)
    wait_until_gone(started)
