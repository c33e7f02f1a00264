"""Measure what ``--trace on`` costs a run on containers: ``python -m benchmarks.tracing_containers [LOCK ...]``.

Runs with and without it in turn, on the same containers: lock calls a second of clients that never wait, and the
processor time for each call, of all containers and of the harness. Needs a Docker engine.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from harness.documents.messages import TraceMode
from harness.plan import Plan
from harness.run.containers.cluster_pool import ClusterPool
from harness.run.runs import run

PAIRS: Final = 5
SECONDS: Final = 6.0
CLIENTS: Final = 2


class Cost(NamedTuple):
    """``rate`` is the number of lock calls a second, ``processor_ms`` the processor time for each."""

    rate: float
    processor_ms: float


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


def cost(lock: str, mode: TraceMode, meter: _Meter, seconds: float) -> Cost:
    """Run a lock with a key for each client, so that nobody waits."""
    plan = Plan(lock=lock, cluster="docker", clients=CLIENTS, keys=CLIENTS, hold=1e-6, rest=1e-6, time_limit=seconds)
    before = process_s()
    with tempfile.TemporaryDirectory() as store:
        result = run(plan, store=Path(store), trace=mode, open_cluster=meter.open)
    used = process_s() - before + meter.used_s
    calls = sum(f in ("acquire", "release") for f in result.history.f) // 2
    return Cost(calls / seconds, 1e3 * used / calls)


def measure(lock: str, pairs: int, seconds: float) -> str:
    """Return the figures of a lock as text."""
    off: list[Cost] = []
    on: list[Cost] = []
    with ClusterPool() as pool:
        meter = _Meter(pool)
        cost(lock, "off", meter, 1.0)  # makes the containers
        for number in range(pairs):
            modes: tuple[TraceMode, ...] = ("off", "on") if number % 2 else ("on", "off")
            for mode in modes:
                (on if mode == "on" else off).append(cost(lock, mode, meter, seconds))
    rates = median(b.rate / a.rate for a, b in zip(off, on, strict=True)) - 1
    used = median(b.processor_ms / a.processor_ms for a, b in zip(off, on, strict=True)) - 1
    rate, each = median(one.rate for one in off), median(one.processor_ms for one in off)
    return (
        f"{lock}: {rate:,.0f} calls a second, with a trace {rates:+.1%}; {each:.2f} ms of processor time a call, "
        f"with a trace {used:+.1%} (medians of {pairs} pairs)"
    )


def main() -> None:
    """Print the figures of each lock."""
    parser = argparse.ArgumentParser(description="What a trace of a run on containers costs.")
    parser.add_argument("locks", nargs="*", default=["redis-token"], help="else redis-token")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of runs, else {PAIRS}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"length of a run, else {SECONDS:g}")
    given = parser.parse_args()
    for lock in given.locks:
        print(measure(lock, given.pairs, given.seconds), flush=True)


if __name__ == "__main__":
    main()
