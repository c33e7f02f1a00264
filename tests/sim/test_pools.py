"""Thread pools on simulated hosts: pools of different hosts do not block each other, and runs are reproducible."""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import threading
import time
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from harness.sim.patches import virtual
from tests.sim.world import TwoHostWorld

LOCK = "tests.sim.pooled_lock:PooledLock"


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_lock_that_uses_a_pool_completes_and_is_reproducible() -> None:
    crash = FaultSpec("client-crash", on="acquire:invoke", nth=4, for_=1.0, params={"restart": True})
    plan = Plan(lock=LOCK, clients=4, time_limit=8.0, faults=(crash,))
    first = run(plan)
    assert sum(call.outcome == "ok" for call in first.history.calls("acquire")) > 10
    assert first.verdicts["mutual-exclusion"].valid is True
    assert list(first.history) == list(run(plan).history)


def test_pools_of_several_tasks_start_threads_at_the_same_time() -> None:
    def main() -> list[int]:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            return list(pool.map(lambda n: n * n, range(5)))

    assert TwoHostWorld().run(main, main, main) == [[0, 1, 4, 9, 16]] * 3


@pytest.mark.timeout(20)
def test_a_host_killed_while_starting_a_thread_blocks_no_other_host() -> None:
    world = TwoHostWorld()

    def starts() -> None:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(time.sleep, 1).result()

    def main() -> Any:
        world.b.spawn(starts)
        world.a.spawn(world.b.kill)  # runs after b has started a thread that has not run yet
        time.sleep(0.1)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: "done").result()

    assert world.run(main) == ["done"]


def test_the_size_of_a_pool_does_not_depend_on_the_real_machine() -> None:
    def main() -> tuple[int, str]:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            name = pool.submit(lambda: threading.current_thread().name).result()
            return pool._max_workers, name

    assert TwoHostWorld().run(main) == TwoHostWorld().run(main) == [(8, "ThreadPoolExecutor-0_0")]


@pytest.mark.timeout(60)
def test_a_pool_of_multiprocessing_waits_in_virtual_time() -> None:
    def sleep(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    def main() -> list[Any]:
        with ThreadPool(2) as pool:
            log: list[Any] = [pool.map(sleep, [0.3, 0.2, 0.2]), round(time.monotonic(), 6)]
            log.append(list(pool.imap_unordered(sleep, [0.3, 0.1])))
        rest = ThreadPool(1)
        result = rest.apply_async(sleep, (5.0,))
        rest.close()
        rest.join()
        return [*log, result.get(), round(time.monotonic(), 6)]

    assert TwoHostWorld().run(main) == [[[0.3, 0.2, 0.2], 1000.4, [0.1, 0.3], 5.0, 1005.7]]
    with virtual(), ThreadPool(1) as pool:
        assert pool.apply(abs, (-1,)) == 1, "outside the simulation the pool is the real one"


@pytest.mark.slow
def test_pools_left_open_neither_print_nor_block_at_exit() -> None:
    program = (
        "from harness.plan import Plan; from harness.run.runs import run; "
        f"run(Plan(lock={LOCK!r}, clients=2, time_limit=3.0))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
