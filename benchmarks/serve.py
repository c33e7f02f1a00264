"""Measure ``harness serve`` with many runs: ``python -m benchmarks.serve [RUNS]``.

Makes a store (10,000 runs unless told otherwise), starts the command on it, and asks over real connections: the first
answer, which looks at every run; later ones; ones after a pause, when the store is looked at again; filters and orders;
the status of locks over 60 nightly runs; how soon 50 open lists are told of a new run; 50 requests at once; a zip of a
run of half a gigabyte. Says what memory the server took meanwhile.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.reports import nights
from tests.serve import stores

RUNS: Final = 10_000
NIGHTS: Final = 60
LARGE: Final = 500_000_000
"""Bytes of the history of the large run."""
EVIDENCE: Final = [{"kind": "overlap", "key": "k0", "sentence": "c4 and c3 both held k0. " * 8, "indices": [1, 2]}] * 30
FILTERS: Final = (
    "/?lock=redlock&verdict=invalid", "/?text=number+99", "/?fault=clock-skew&sort=-operations", "/?sort=summary",
    "/?since=2026-11-20&until=2026-11-25&cluster=docker", "/?page=57",
)  # fmt: skip


def make(store: Path, count: int) -> None:
    """Runs whose results are as large as real ones, and an hour old."""
    then = time.time_ns() - 3_600_000_000_000
    for number in range(count):
        document = stores.results(number)
        document["checkers"]["mutual-exclusion"]["evidence"] = EVIDENCE
        folder = store / document["lock"] / stores.name(number)
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps(document))
        (folder / "history.jsonl").write_bytes(stores.OP)
        os.utime(folder / "results.json", ns=(then, then))


@contextmanager
def server(store: Path) -> Iterator[tuple[int, int]]:
    """The command at work: its process and its port."""
    program = [sys.executable, "-m", "harness", "serve", "--port", "0", "--store", str(store)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        yield process.pid, int(said.split("127.0.0.1:")[1].split("/")[0])
        process.terminate()


def ask(port: int, target: str) -> int:
    """Bytes of the answer, read as they come."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", target)
    answer = connection.getresponse()
    assert answer.status == 200, target
    length = 0
    while piece := answer.read(1 << 20):
        length += len(piece)
    connection.close()
    return length


def timed(asked: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    asked()
    return (time.perf_counter() - began) * 1000


def memory(process: int, what: str) -> float:
    """``VmRSS`` (now) or ``VmHWM`` (at most until now) of a process, MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def tell(what: str, times: list[float]) -> None:
    ordered = sorted(times)
    print(
        f"{what:<34} median {statistics.median(ordered):7.1f} ms   p99 {ordered[-1 - len(ordered) // 100]:7.1f} ms   "
        f"most {ordered[-1]:7.1f} ms   ({len(ordered)})"
    )


def paused(port: int) -> float:
    time.sleep(0.6)
    return timed(lambda: ask(port, "/"))


def at_once(port: int, count: int) -> list[float]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda n: timed(lambda: ask(port, FILTERS[n % len(FILTERS)])), range(count)))


def nightly_runs(store: Path) -> None:
    """Store nightly runs with 200 outcomes each: 40 locks under 5 families of faults."""
    outcomes = [
        nights.outcome(f"s{lock}-{fault}", lock=f"lock-{lock}", faults=[f"fault-{fault}"])
        for lock in range(40)
        for fault in range(5)
    ]
    for number in range(NIGHTS):
        began = f"{stores.began(number * 200):%Y-%m-%dT%H:%M:%SZ}"
        nights.add(store / "results.db", {**nights.explored(), "started_at": began, "outcomes": outcomes})


def told(port: int, store: Path, count: int) -> list[float]:
    """Return for each of ``count`` open lists the milliseconds from a new run to its event."""
    streams = []
    for _ in range(count):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/events")
        streams.append(connection.getresponse())
        next_event(streams[-1])
    stores.add(store, 1_000_000)
    added = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda one: (next_event(one), (time.perf_counter() - added) * 1000)[1], streams))


def next_event(stream: http.client.HTTPResponse) -> bytes:
    while line := stream.readline():
        if line.startswith(b"data:"):
            return line
    raise AssertionError("the stream ended")


def zipped(port: int, process: int, store: Path) -> None:
    run = stores.add(store, 0, store / "large" / stores.name(0))
    line = stores.OP * 1000
    with (run / "history.jsonl").open("wb") as file:
        for number in range(LARGE // len(line)):
            file.write(line.replace(b'"index":0', b'"index":%d' % number))
    before = memory(process, "VmHWM")
    lengths: list[int] = []
    took = timed(lambda: lengths.append(ask(port, f"/runs/large/{run.name}.zip")))
    grown = memory(process, "VmHWM") - before
    sent = lengths[0] / 1e6
    print(f"zip of {LARGE / 1e6:.0f} MB: {took / 1000:.1f} s, {sent:.1f} MB sent, memory grew by {grown:.1f} MB")


def measure(store: Path, count: int) -> None:
    with server(store) as (process, port):
        bare = memory(process, "VmRSS")
        print(f"{count:,} runs: first answer {timed(lambda: ask(port, '/')) / 1000:.2f} s")
        tell("later answers", [timed(lambda: ask(port, "/")) for _ in range(300)])
        tell("after a pause (store looked at)", [paused(port) for _ in range(20)])
        for target in FILTERS:
            tell(target[:34], [timed(lambda: ask(port, target)) for _ in range(30)])  # noqa: B023
        run = stores.results(7)["lock"]
        tell("the page of a run", [timed(lambda: ask(port, f"/runs/{run}/{stores.name(7)}/")) for _ in range(100)])
        print(f"the status, first answer: {timed(lambda: ask(port, '/status')):.0f} ms")
        tell("the status of locks", [timed(lambda: ask(port, "/status")) for _ in range(50)])
        tell("a new run, 50 lists told", told(port, store, 50))
        began = time.perf_counter()
        times = at_once(port, 50)
        tell("50 at once, each", times)
        print(f"50 at once, all: {time.perf_counter() - began:.2f} s")
        print(f"memory: {bare:.0f} MB before the first answer, {memory(process, 'VmRSS'):.0f} MB now, "
              f"{memory(process, 'VmHWM'):.0f} MB at most")  # fmt: skip
        zipped(port, process, store)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), count)
        nightly_runs(Path(folder))
        print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        measure(Path(folder), count)


if __name__ == "__main__":
    main()
