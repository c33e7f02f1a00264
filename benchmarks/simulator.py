"""Measure the simulator: ``python -m benchmarks.simulator [--rounds N]``.

Commands a second of the real redis-py on simulated sockets, beside the same redis-py on a socket that answers at once
(all in one run, since machines differ and drift); virtual seconds a second; and the time from ``harness run`` to its
first operation. The goals are half of the bare rate, 50 virtual seconds a second with 5 clients and 5 nodes, and 1 s.
"""

from __future__ import annotations

import argparse
import functools
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import redis

from harness.clusters.sim.cluster import SimCluster
from harness.plan import Plan
from harness.run.runs import run
from harness.worker import world
from harness.worker.resource import Resource

COMMANDS: Final = 4_000
CLIENTS: Final = 5
ROUNDS: Final = 5


class _InstantSocket:
    """Answers every SET with OK and every GET with null, in no time."""

    def __init__(self) -> None:
        self._answer = b""
        self._idle = socket.socketpair()  # hiredis asks the system whether an idle connection has data

    def fileno(self) -> int:
        return self._idle[0].fileno()

    def sendall(self, data: bytes) -> None:
        self._answer = b"_\r\n" if b"\r\nGET\r\n" in data else b"+OK\r\n"

    def recv(self, size: int) -> bytes:
        del size
        answer, self._answer = self._answer, b""
        if not answer:
            raise BlockingIOError(11, "again")
        return answer

    def recv_into(self, buffer: bytearray) -> int:
        answer = self.recv(len(buffer))
        buffer[: len(answer)] = answer
        return len(answer)

    def settimeout(self, timeout: float | None) -> None: ...

    def shutdown(self, how: int) -> None: ...

    def close(self) -> None:
        for one in self._idle:
            one.close()

    def getpeername(self) -> tuple[str, int]:
        return ("instant", 6379)


class _InstantConnection(redis.Connection):
    def _connect(self) -> Any:
        return _InstantSocket()

    def on_connect_check_health(self, check_health: bool = True) -> None:
        del check_health
        self._parser.on_connect(self)


def _lock_commands(client: redis.Redis, count: int) -> None:
    """Send the commands of a lock: half SET NX PX of a busy key, half GET."""
    for _ in range(count // 2):
        client.set("lock", "token", nx=True, px=30_000)
        client.get("lock")


def bare_rate() -> float:
    """Commands a second of redis-py alone."""
    pool = redis.ConnectionPool(connection_class=_InstantConnection)
    client = redis.Redis(connection_pool=pool)
    _lock_commands(client, 200)
    began = time.perf_counter()
    _lock_commands(client, CLIENTS * COMMANDS)
    return CLIENTS * COMMANDS / (time.perf_counter() - began)


def simulated_rate() -> float:
    """Commands a second of the same calls from 5 simulated clients, each to a server of its own."""
    resource = Resource("off", {}).answer
    cluster = SimCluster(
        kind="redis-independent",
        nodes=5,
        clients=CLIENTS,
        seed=0,
        resource=resource,
        options={},
        program=world.run,
    )

    def client_main(number: int) -> Callable[[Callable[[], None]], None]:
        return lambda _: _lock_commands(redis.Redis(host=f"n{number + 1}", socket_timeout=1.0), COMMANDS)

    def control() -> None:
        joins = [cluster.spawn(f"c{number}", client_main(number)) for number in range(CLIENTS)]
        for join in joins:
            join(3600)

    began = time.perf_counter()
    cluster.run(control)
    return CLIENTS * COMMANDS / (time.perf_counter() - began)


def virtual_rate(lock: str) -> float:
    """Virtual seconds a second of a whole run, history and checking included: 5 clients, 5 nodes where it has nodes."""
    began = time.perf_counter()
    run(Plan(lock=lock, time_limit=60.0))
    return 60.0 / (time.perf_counter() - began)


def first_operation() -> float:
    """Seconds from the start of the ``harness`` process to the first call in the history."""
    with tempfile.TemporaryDirectory() as store:
        began = time.perf_counter()
        command = [sys.executable, "-m", "harness", "run", "redlock", "--cluster", "sim", "--quiet", "--out", store]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while not any(path.read_bytes().count(b"\n") > 1 for path in Path(store).glob("*/*/history.jsonl")):
                time.sleep(0.002)
            took = time.perf_counter() - began
            process.terminate()
    return took


def _median(rounds: int, measure: Callable[[], float]) -> float:
    measure()
    return statistics.median(measure() for _ in range(rounds))


def main() -> None:
    """Print a table; medians of several rounds after one to warm up, bare and simulated in turn."""
    parser = argparse.ArgumentParser(description="How quick the simulator is.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of each measurement, else {ROUNDS}")
    rounds = parser.parse_args().rounds
    median = functools.partial(_median, rounds)
    bare_rate(), simulated_rate()
    pairs = [(bare_rate(), simulated_rate()) for _ in range(rounds)]
    bare, simulated = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(mine / theirs for theirs, mine in pairs)
    rows = [
        ("redis-py on a socket that answers at once", f"{bare:,.0f} commands/s", ""),
        ("redis-py in the simulator", f"{simulated:,.0f} commands/s", f"{ratio:.2f} of bare; goal 0.50"),
        ("redlock, 5 clients, 5 nodes", f"{median(lambda: virtual_rate('redlock')):.0f} virtual s/s", "goal 50"),
        ("redis-token, 5 clients", f"{median(lambda: virtual_rate('redis-token')):.0f} virtual s/s", "goal 50"),
        ("from start to first operation", f"{median(first_operation):.2f} s", "goal 1.00"),
    ]
    for what, figure, goal in rows:
        print(f"{what:<44} {figure:>22}  {goal}")


if __name__ == "__main__":
    main()
