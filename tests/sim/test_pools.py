"""Thread pools on simulated hosts: no host's pool waits for another's, and the same seed gives the same history."""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from harness.plan import FaultSpec, Plan
from harness.runs import run
from tests.sim.world import World

LOCK = "tests.sim.pooled_lock:PooledLock"


@pytest.mark.timeout(60)
def test_a_lock_with_a_pool_runs_to_its_end_and_again_the_same() -> None:
    crash = FaultSpec("client-crash", on="acquire:invoke", nth=4, for_=1.0, params={"restart": True})
    plan = Plan(lock=LOCK, clients=4, time_limit=8.0, faults=(crash,))
    first = run(plan)
    assert sum(call.outcome == "ok" for call in first.history.calls("acquire")) > 10
    assert first.verdicts["mutual-exclusion"].valid is True
    assert list(first.history) == list(run(plan).history)


def test_pools_of_two_hosts_start_threads_at_the_same_time() -> None:
    def main() -> list[int]:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            return list(pool.map(lambda n: n * n, range(5)))

    assert World().run(main, main, main) == [[0, 1, 4, 9, 16]] * 3


@pytest.mark.timeout(20)
def test_a_host_killed_in_the_middle_of_a_start_stops_no_other() -> None:
    world = World()

    def starts() -> None:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(time.sleep, 1).result()

    def main() -> Any:
        world.b.spawn(starts)
        world.a.spawn(world.b.kill)  # its turn comes when b has started a thread that has not taken a step
        time.sleep(0.1)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: "done").result()

    assert world.run(main) == ["done"]


def test_how_many_workers_a_pool_has_does_not_depend_on_this_machine() -> None:
    def main() -> tuple[int, str]:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            name = pool.submit(lambda: threading.current_thread().name).result()
            return pool._max_workers, name

    assert World().run(main) == World().run(main) == [(8, "ThreadPoolExecutor-0_0")]


def test_pools_that_nobody_shuts_down_neither_speak_nor_wait_at_the_end() -> None:
    program = (
        "from harness.plan import Plan; from harness.runs import run; "
        f"run(Plan(lock={LOCK!r}, clients=2, time_limit=3.0))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
