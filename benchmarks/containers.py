"""Measure real clusters: ``python -m benchmarks.containers [--rounds N] [--json FILE] [--quick] [--strict]``.

The time from ``harness run`` to its first operation, and to start and stop each kind of cluster; lock cycles a second
through the client program beside the same lock in a bare loop in the same container (in turn, since machines differ and
drift); how far the history lags behind; what each fault takes to strike and to heal; memory; and the control channel.
The goals are 15 s, and 0.8 of the bare rate; with ``--strict`` the exit status is 1 if one is missed (a machine that
does something else beside may miss them).

Needs a Docker engine, and builds the images first if they are not there. ``--quick`` leaves out faults and memory.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.containers_cluster import CLIENTS, WORKLOAD, build_images, cluster, launch, seconds
from benchmarks.containers_faults import KINDS, MOMENTS, Strike, needs_on, strikes
from benchmarks.containers_workload import LOCK, WARM_UP
from harness.clusters.abilities import DISKS, TRAFFIC, Needs
from harness.clusters.base import names
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.containers.engine import ROLE, RUN, in_parallel
from harness.clusters.docker.hosts import ContainerClient
from harness.history import HistoryWriter
from harness.run.recorder import Recorder

ROUNDS: Final = 3
SECONDS: Final = 0.7
"""How long cycles are counted for, each time: short, so that what else the machine does meets both sides alike."""
PAIRS: Final = 3
"""Pairs of measurements in a round: cycles with a recorder, and bare ones."""
PINGS: Final = 500
FIRST_OPERATION: Final = 15.0
RATIO: Final = 0.8


@dataclass(frozen=True, slots=True)
class Figure:
    """One line: the median of ``values``. ``met`` is None where there is no goal."""

    group: str
    what: str
    unit: str
    values: list[float]
    note: str = ""
    met: bool | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        if not self.values:
            return f"  {self.what:<52} {'-':>10}  {self.note}"
        digits = 0 if self.median >= 1000 else 2
        spread = f"{min(self.values):,.{digits}f} to {max(self.values):,.{digits}f}" if len(self.values) > 1 else ""
        missed = "MISSED" if self.met is False else ""
        notes = "; ".join(filter(None, (spread, self.note, missed)))
        return f"  {self.what:<52} {self.median:>10,.{digits}f} {self.unit:<9} {notes}"


# Start and stop


def first_operation() -> float:
    """Seconds from the start of the ``harness`` process to the first call in the history."""
    with tempfile.TemporaryDirectory() as store:
        began = time.perf_counter()
        command = [sys.executable, "-m", "harness", "run", "redlock", "--cluster", "docker", "--quiet"]
        with subprocess.Popen([*command, "--out", store], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            while not any(b'"acquire"' in path.read_bytes() for path in Path(store).glob("*/*/history.jsonl")):
                if process.poll() is not None:
                    said = process.stderr.read() if process.stderr else b""
                    raise RuntimeError(f"harness run ended with {process.returncode}: {said.decode().strip()}")
                time.sleep(0.005)
            took = time.perf_counter() - began
            process.send_signal(signal.SIGTERM)  # it removes its containers
    return took


class Started:
    """Clusters that were started in turn, and how long that took."""

    def __init__(self) -> None:
        self._times: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))

    @contextmanager
    def cluster(self, kind: str, with_: str = "", needs: Needs = frozenset()) -> Iterator[DockerCluster]:
        """``with_`` says what it has beside servers and clients."""
        there = cluster(kind, needs)
        starts, stops = self._times[f"{kind}{with_ and ', with '}{with_}"]
        try:
            starts.append(seconds(there.start_all)[0])
            yield there
        finally:
            stops.append(seconds(there.stop_all)[0])

    def figures(self) -> list[Figure]:
        return [
            Figure("start and stop", f"{which}: {what}", "s", values)
            for which, times in sorted(self._times.items())
            for what, values in zip(("start", "stop"), times, strict=True)
        ]


# Cycles


class History:
    """A history as a run keeps it, on disk and in memory, and what is to be known of its making."""

    def __init__(self, there: DockerCluster, folder: Path) -> None:
        self._recorder = Recorder(HistoryWriter(folder / "history.jsonl"), there.clock)
        self.lags: list[float] = []
        """Milliseconds from an entry's own time until it was recorded."""
        self._released: dict[str, list[int]] = defaultdict(list)

    def record(self, **entry: Any) -> None:
        self._recorder.record(**entry)
        self.lags.append((time.monotonic_ns() - entry["time"]) / 1e6)
        if (entry["type_"], entry["f"]) == ("ok", "release"):
            self._released[entry["node"]].append(entry["time"])

    def rate(self) -> float:
        """Cycles a second of all clients together, by their own clocks and once they are warm."""
        rates = []
        for times in self._released.values():
            warm = [at for at in times if at >= times[0] + WARM_UP * 1e9]
            if len(warm) > 1:  # on a busy machine a client may begin too late to get warm
                rates.append((len(warm) - 1) * 1e9 / (warm[-1] - warm[0]))
        return sum(rates)

    def close(self) -> None:
        self._recorder.close()


def recorded_cycles(there: DockerCluster, clients: Sequence[str]) -> tuple[float, list[float]]:
    """Cycles a second through the client program, and by how many ms each entry was late."""
    with tempfile.TemporaryDirectory() as folder:
        history = History(there, Path(folder))
        limit = WARM_UP + SECONDS
        joins = [launch(there, client, "Cycles", history.record, lock=LOCK, time_limit=limit) for client in clients]
        if not all(join(limit + 10) for join in joins):
            raise RuntimeError("the cycles do not end")
        time.sleep(0.2)  # what was told last is still to be recorded
        history.close()
        return history.rate(), history.lags


def bare_cycles(there: DockerCluster, client: str) -> float:
    """Cycles a second of the lock alone, in the client's container."""
    (address,) = there.endpoints().addresses
    answer: list[bytes] = []
    ended: list[bool] = []
    box = next(host.box for host in there.hosts if host.name == client)
    command = ["python3", "-m", f"{WORKLOAD}", there.kind, *map(str, address), str(SECONDS)]
    channel = box.start(command, answer.append, on_end=lambda: ended.append(True), environment={"PYTHONPATH": "/user"})
    deadline = time.monotonic() + SECONDS + 20
    while not ended and time.monotonic() < deadline:
        time.sleep(0.05)
    channel.close()
    if not answer:
        raise RuntimeError(f"the bare loop fails: {' | '.join(channel.errors[-3:])}")
    return float(answer[0])


def cycle_figures(there: DockerCluster, rounds: int) -> list[Figure]:
    clients = names(there.hosts, "client")
    pairs = [(bare_cycles(there, clients[0]), recorded_cycles(there, clients[:1])) for _ in range(PAIRS * rounds)]
    together = [recorded_cycles(there, clients) for _ in range(rounds)]
    ratios = [mine / theirs for theirs, (mine, _) in pairs]
    met = statistics.median(ratios) >= RATIO
    best = max(rate for _, (rate, _) in pairs) / max(bare for bare, _ in pairs)
    return [
        Figure("cycles", "1 client, bare loop", "cycles/s", [bare for bare, _ in pairs]),
        Figure("cycles", "1 client, recorded", "cycles/s", [rate for _, (rate, _) in pairs]),
        Figure("cycles", "recorded over bare", "", ratios, f"goal {RATIO:g}", met),
        # Other programs on the machine only ever slow a loop: what it could do without them.
        Figure("cycles", "recorded over bare, the best of each", "", [best]),
        *_lag_figures("1 client", [lags for _, (_, lags) in pairs]),
        Figure(
            "cycles", f"{CLIENTS} clients on keys of their own, recorded", "cycles/s", [rate for rate, _ in together]
        ),
        *_lag_figures(f"{CLIENTS} clients", [lags for _, lags in together]),
    ]


def _lag_figures(who: str, rounds: list[list[float]]) -> Iterator[Figure]:
    medians, worst = [statistics.median(lags) for lags in rounds], [percentile(lags, 99) for lags in rounds]
    yield Figure("cycles", f"{who}: an entry is recorded later by, median", "ms", medians)
    yield Figure("cycles", f"{who}: an entry is recorded later by, p99", "ms", worst)


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


# The control channel


def ping_figures(there: DockerCluster) -> list[Figure]:
    """Round trips to a client program that has nothing else to do."""
    conversation = next(host.conversation for host in there.hosts if isinstance(host, ContainerClient))
    trips = [seconds(partial(conversation.ask, "ping"))[0] * 1e6 for _ in range(PINGS)]
    return [
        Figure("control channel", "ping, median", "µs", [statistics.median(trips)]),
        Figure("control channel", "ping, p99", "µs", [percentile(trips, 99)]),
    ]


# Memory


def memory_figures(there: DockerCluster, which: str) -> list[Figure]:
    """Return the memory of the containers of each role, without reclaimable page cache, as ``docker stats`` does."""
    client = there.deployment.client
    boxes = client.containers.list(filters={"label": f"{RUN}={there.deployment.id}"})

    def megabytes(box: str) -> float:
        about = client.api.stats(box, stream=False, one_shot=True)["memory_stats"]
        # cgroup v2 and v1 have different names for it
        cache = about["stats"].get("inactive_file", about["stats"].get("total_inactive_file", 0))
        return float(about["usage"] - cache) / 1e6

    used: dict[str, list[float]] = defaultdict(list)
    for box, size in zip(boxes, in_parallel([partial(megabytes, str(box.id)) for box in boxes]), strict=True):
        used[box.labels[ROLE]].append(size)
    total = sum(map(sum, used.values()))
    return [
        *(
            Figure("memory", f"{which}: {role}, each", "MB", values, f"{len(values)} of them")
            for role, values in used.items()
        ),
        Figure("memory", f"{which}: all", "MB", [total]),
    ]


# All of it


def variants(kind: str, *, quick: bool) -> dict[str, Needs]:
    """What is started beside servers and clients, and what for; the last can be struck by all faults of its kind."""
    found: dict[str, Needs] = {"": frozenset(), "proxies": frozenset({TRAFFIC})}
    if not quick and needs_on(kind):
        last = "proxies and disks" if DISKS in needs_on(kind) else "proxies"
        found[last] = needs_on(kind) | {TRAFFIC}
    return found


def measure(rounds: int, *, quick: bool) -> tuple[list[Figure], list[Strike]]:
    first = [first_operation() for _ in range(rounds)]
    met = statistics.median(first) < FIRST_OPERATION
    figures = [Figure("start and stop", "harness run to first operation", "s", first, f"goal {FIRST_OPERATION:g}", met)]
    started = Started()
    rest: list[Figure] = []
    found: list[Strike] = []
    for kind in KINDS:
        for with_, needs in variants(kind, quick=quick).items():
            with started.cluster(kind, with_, needs) as there:
                if kind == "redis-single" and not with_:
                    rest += ping_figures(there) + cycle_figures(there, rounds)
                if not quick:
                    rest += memory_figures(there, f"{kind}{with_ and ' with '}{with_}")
                    found += strikes(there) if needs >= needs_on(kind) else []
    return [*figures, *started.figures(), *rest], found


def show(figures: list[Figure], found: list[Strike]) -> None:
    group = ""
    for figure in sorted(figures, key=lambda figure: figure.group):
        if figure.group != group:
            group = figure.group
            print(f"\n{group}")
        print(figure)
    if found:
        print("\nfaults, ms")
        print(f"  {'':<39}{''.join(f'{moment:>12}' for moment in MOMENTS)}")
        for strike in found:
            print(strike)


def main() -> int:
    """Print the table; with ``--strict`` 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description="How quick real clusters are.")
    parser.add_argument("--rounds", type=int, default=0, help=f"{ROUNDS}, or 1 with --quick, if nothing is said")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="one round, without faults and memory")
    parser.add_argument("--strict", action="store_true", help="fail if a goal is missed")
    asked = parser.parse_args()
    before = os.getloadavg()[0]
    build_images()
    took, (figures, found) = seconds(lambda: measure(asked.rounds or (1 if asked.quick else ROUNDS), quick=asked.quick))
    show(figures, found)
    machine = {"cores": os.cpu_count(), "load_before": before, "load_after": os.getloadavg()[0], "seconds": took}
    print(f"\n{machine['cores']} cores, load {before:.1f} before and {machine['load_after']:.1f} after, {took:.0f} s")
    if asked.json is not None:
        document = {"machine": machine, "figures": figures, "faults": found}
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
    return int(asked.strict and any(figure.met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
