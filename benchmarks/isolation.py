"""Measure what isolation costs: ``python -m benchmarks.isolation``. With and without a worker in turn, in one run.

- A command ``harness run`` of 5 virtual seconds, as a whole process. The goal is at most 0.4 s more with its worker.
- Schedules a second of a round of a hunt, for a lock of the catalogue and for a user's. Without isolation, the round
  runs in this process, and its clients share the modules of the lock. The goal is 0.8 of that.
- Commands a second of redis-py in the simulator. The goal is 0.95 of those in this process.

Figures are medians of several pairs, and ratios are medians of the pairs' ratios, since machines differ and drift. The
bytecode of modules is cached, as in every installation, in a folder of the benchmark's own.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

from harness.cli.main import main as harness_main
from harness.run.processes import workers
from harness.search import in_workers, rounds
from harness.search.request import HuntRequest
from harness.search.rounds import Round, RoundResult
from harness.search.vocabulary import learn_vocabulary
from harness.worker import client_program, world
from harness.worker.channel import Channel

from .simulator import simulated_rate

PAIRS: Final = 7
SCHEDULES: Final = 60
MORE_S, HUNT_SHARE, COMMAND_SHARE = 0.4, 0.8, 0.95
"""The goals."""
IN_PROCESS: Final = "in-process"
RUN: Final = ("run", "redis-token", "--time-limit", "5s", "--quiet", "--out")
USERS_LOCK: Final = """
import uuid


class Lock:
    def __init__(self, client, name, ttl):
        self.client, self.name, self.ttl = client, name, ttl

    def acquire(self, timeout):
        self.token = uuid.uuid4().hex
        return bool(self.client.set(self.name, self.token, nx=True, px=int(self.ttl * 1000)))

    def release(self):
        script = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end"
        self.client.eval(script, 1, self.name, self.token)
"""


class _Here:
    """A channel of a call in this process."""

    def __init__(self, on_frame: workers.OnFrame) -> None:
        self.sent = 0
        self.send = on_frame


def _call_here(function: str, argument: bytes, on_frame: workers.OnFrame, **_options: object) -> bytes:
    """Stand in for :func:`harness.run.processes.workers.call`, without a worker."""
    module, _, name = function.partition(":")
    result: bytes = getattr(importlib.import_module(module), name)(argument, _Here(on_frame))
    return result


def command(*, in_process: bool) -> float:
    """Seconds of a whole ``harness run``."""
    with tempfile.TemporaryDirectory() as store:
        arguments = [sys.executable, "-m", "benchmarks.isolation", *([IN_PROCESS] if in_process else []), *RUN, store]
        began = time.perf_counter()
        done = subprocess.run(arguments, stdout=subprocess.DEVNULL, check=False)
        took = time.perf_counter() - began
    assert done.returncode == 0, done
    return took


def _rate(search: Callable[[Round], RoundResult], round_: Round) -> float:
    began = time.perf_counter()
    found = search(round_)
    assert not found.failures, found.failures
    assert found.schedules > SCHEDULES / 2, found.errors
    return found.schedules / (time.perf_counter() - began)


def _search_here(round_: Round) -> RoundResult:
    """Search in this process, with clients that share the modules of the lock."""
    with mock.patch.object(world.World, "find_lock", lambda _, name: client_program.find_lock(name)):
        return rounds.search(round_)


def hunt_rates(lock: str) -> Callable[[], tuple[float, float]]:
    """Return a function that measures schedules a second without and with isolation."""
    request = HuntRequest(lock=lock, faults=("latency",), workloads=("mutex",), schedules=SCHEDULES).completed()
    round_ = Round(request=request, number=1, vocabulary=learn_vocabulary(request))

    def measure() -> tuple[float, float]:
        return _rate(_search_here, round_), _rate(in_workers.search, round_)

    return measure


def rate_in_worker(argument: bytes, channel: Channel) -> bytes:
    """Measure commands a second; runs in a worker."""
    del argument, channel
    simulated_rate()
    return str(simulated_rate()).encode()


def _isolated_command_rate() -> float:
    return float(workers.call("benchmarks.isolation:rate_in_worker", b"", lambda _kind, _body: None))


def pairs_of(measure: Callable[[], tuple[float, float]]) -> list[tuple[float, float]]:
    """Return pairs (without, with isolation), after one to warm up."""
    measure()
    return [measure() for _ in range(PAIRS)]


def _line(what: str, unit: str, pairs: list[tuple[float, float]], result: str, met: bool) -> None:
    without, isolated = (statistics.median(column) for column in zip(*pairs, strict=True))
    figures = f"{without:9,.4g} {isolated:9,.4g} {unit:11}"
    print(f"{what:38} {figures} {result}: {'met' if met else 'missed'}", flush=True)


def _share_line(what: str, unit: str, pairs: list[tuple[float, float]], goal: float) -> None:
    share = statistics.median(isolated / without for without, isolated in pairs)
    _line(what, unit, pairs, f"{share:.2f}; goal {goal}", share >= goal)


@contextlib.contextmanager
def users_module() -> Iterator[str]:
    """Write a user's lock in a folder that becomes the working directory, and yield its name."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "users_lock_of_benchmark.py").write_text(USERS_LOCK)
        os.chdir(folder)
        try:
            yield "users_lock_of_benchmark:Lock"
        finally:
            os.chdir(before)


@contextlib.contextmanager
def cached_bytecode() -> Iterator[None]:
    """Let all processes that start from here cache bytecode."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        yield


def main() -> None:
    """Print a table."""
    with cached_bytecode():
        _measure()


def _measure() -> None:
    print(f"{'':38} {'without':>9} {'with':>9}")
    pairs = pairs_of(lambda: (command(in_process=True), command(in_process=False)))
    more = statistics.median(isolated - without for without, isolated in pairs)
    _line("harness run redis-token, 5 s", "s", pairs, f"{more:+.2f} s; goal {MORE_S}", more <= MORE_S)
    _share_line("hunt of redis-token", "schedules/s", pairs_of(hunt_rates("redis-token")), HUNT_SHARE)
    with users_module() as lock:
        _share_line("hunt of a user's lock", "schedules/s", pairs_of(hunt_rates(lock)), HUNT_SHARE)
    commands = pairs_of(lambda: (simulated_rate(), _isolated_command_rate()))
    _share_line("redis-py in the simulator, 5 clients", "commands/s", commands, COMMAND_SHARE)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


def run_command(arguments: list[str]) -> Any:
    """Execute a ``harness`` command, as ``python -m harness`` does, perhaps without workers."""
    if arguments[0] == IN_PROCESS:
        workers.call = _call_here
        workers.start_early = lambda: None
        arguments = arguments[1:]
    return harness_main(arguments)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(run_command(sys.argv[1:]))
    main()
