"""Measure what ``--trace on`` costs a run on containers: ``python -m benchmarks.tracing_containers [LOCK ...]``.

Runs with and without it in turn, on the same containers. Of clients that never wait: lock calls a second, and the
processor time for each call, of all containers and of the harness. Of a run as ``harness run`` makes it: its processor
time. Needs a Docker engine.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from harness.documents.messages import TraceMode
from harness.plan import Plan
from harness.run.containers.cluster_pool import ClusterPool
from harness.run.runs import run

from .tracing import alternated, more

PAIRS: Final = 5
SECONDS: Final = 6.0
CLIENTS: Final = 2


class Cost(NamedTuple):
    """Number of lock calls, and processor seconds, of a run."""

    calls: int
    processor_s: float


class _Meter:
    """Opens clusters of a pool, and measures what their containers use while their clients run."""

    def __init__(self, pool: ClusterPool) -> None:
        self._pool = pool
        self.used_s = 0.0
        """Processor seconds of the containers in the last run."""

    def open(self, plan: Plan, report: Callable[[str], None]) -> Any:
        cluster: Any = self._pool.open(plan, report)
        run_cluster = cluster.run

        def run_measured(main: Callable[[], None]) -> None:
            def both() -> None:
                before = _containers_s(cluster)
                main()
                self.used_s = _containers_s(cluster) - before

            run_cluster(both)

        cluster.run = run_measured
        return cluster


def _containers_s(cluster: Any) -> float:
    boxes = cluster._boxes.values()
    stats = [box.client.api.stats(box.id, stream=False, one_shot=True) for box in (*boxes, cluster._helper._box)]
    used: int = sum(one["cpu_stats"]["cpu_usage"]["total_usage"] for one in stats)
    return used / 1e9


def process_s() -> float:
    """Return the processor seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def busy(lock: str, seconds: float) -> Plan:
    """Return a plan with a key for each client, so that nobody waits."""
    return Plan(lock=lock, cluster="docker", clients=CLIENTS, keys=CLIENTS, hold=1e-6, rest=1e-6, time_limit=seconds)


def usual(lock: str, seconds: float) -> Plan:
    """Return a plan with the defaults of ``harness run``."""
    return Plan(lock=lock, cluster="docker", time_limit=seconds)


def cost(plan: Plan, mode: TraceMode, meter: _Meter) -> Cost:
    """Run a plan, and return what it cost."""
    before = process_s()
    with tempfile.TemporaryDirectory() as store:
        result = run(plan, store=Path(store), trace=mode, open_cluster=meter.open)
    calls = sum(f in ("acquire", "release") for f in result.history.f) // 2
    return Cost(calls, process_s() - before + meter.used_s)


def compared(plan: Plan, pairs: int, meter: _Meter) -> tuple[list[Cost], list[Cost]]:
    """Return what the plan costs without and with a trace, pair by pair."""
    cost(plan, "off", meter)  # makes the containers
    return alternated(lambda traced: cost(plan, "on" if traced else "off", meter), pairs)


def measure(lock: str, pairs: int, seconds: float) -> Iterator[str]:
    """Yield the figures of a lock as lines."""
    with ClusterPool() as pool:
        meter = _Meter(pool)
        off, on = compared(busy(lock, seconds), pairs, meter)
        rates = [[one.calls / seconds for one in costs] for costs in (off, on)]
        each = [[1e3 * one.processor_s / one.calls for one in costs] for costs in (off, on)]
        yield (
            f"{lock}: {median(rates[0]):,.0f} calls a second, with a trace {more(*rates)}; "
            f"{median(each[0]):.2f} ms of processor time a call, with a trace {more(*each)} (medians of {pairs} pairs)"
        )
        off, on = compared(usual(lock, seconds), pairs, meter)
        whole = [[one.processor_s for one in costs] for costs in (off, on)]
        yield f"{lock}, defaults: {median(whole[0]):.2f} s of processor time, with a trace {more(*whole)}"


def main() -> None:
    """Print the figures of each lock."""
    parser = argparse.ArgumentParser(description="What a trace of a run on containers costs.")
    parser.add_argument("locks", nargs="*", default=["redis-token"], help="else redis-token")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of runs, else {PAIRS}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"length of a run, else {SECONDS:g}")
    given = parser.parse_args()
    for lock in given.locks:
        for line in measure(lock, given.pairs, given.seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
