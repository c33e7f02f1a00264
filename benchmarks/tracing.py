"""Measure what a trace costs: ``python -m benchmarks.tracing [LOCK ...]``.

Each figure compares processor time (of the user and of the system) without and with ``--trace on``: of a simulation
alone, in turn, and of the whole command ``harness run`` with its checks and its report, both at once, since the speed
of a shared machine changes from one second to the next. Decoding is measured, too, which happens when a trace is read.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

import msgspec

from harness.clusters.kinds import KINDS
from harness.documents.messages import LOG, pack_messages
from harness.history import History, Op
from harness.plan import Plan
from harness.run import simulated
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import find_facts
from harness.trace.log import LoggedMessages, Place
from harness.trace.reading import load_trace
from harness.trace.storing import TracedRun, stored_log
from harness.worker.channel import Channel, Frame

T = TypeVar("T")
PAIRS: Final = 7
COMMANDS: Final = 9
SECONDS: Final = 30.0


class _Collected(Channel):
    """Keeps the entries and the log, as the harness does."""

    def __init__(self) -> None:
        self.sent = 0
        self.entries: list[bytes] = []
        self.messages = LoggedMessages()

    def send(self, kind: Frame, body: bytes) -> None:
        if kind is Frame.ENTRY:
            self.entries.append(body)
        elif kind is Frame.MESSAGES:
            self.messages.batches.append(body)
        elif kind is Frame.PLACE:
            self.messages.places.append(msgspec.json.decode(body, type=Place))


class Simulation:
    """A plan that is simulated in this process."""

    def __init__(self, lock: str, seconds: float) -> None:
        self.lock = lock
        self.seconds = seconds
        self._facts = find_facts(lock)
        self._plan = complete(Plan(lock=lock, time_limit=seconds), self._facts)
        self.collected = _Collected()

    def run(self, *, traced: bool) -> float:
        """Return the processor seconds of a simulation, with those of storing its log if it is ``traced``."""
        self.collected = _Collected()
        request = simulated.SimulatedRequest(plan=self._plan, lock=self._facts, watches_keys=True, logs_messages=traced)
        argument = msgspec.json.encode(request)
        taken = timed(lambda: simulated.run(argument, self.collected))
        return taken + (timed(self.log) if traced else 0.0)

    def log(self) -> bytes:
        """Return the file with the log of the last simulation."""
        kind = self._plan.kind
        run = TracedRun(kind, KINDS.find(kind).service, "sim", "on")
        found = stored_log(self.collected.messages, run, History([]), ())
        assert found is not None
        return found

    def history(self) -> History:
        return History(msgspec.json.decode(entry, type=Op) for entry in self.collected.entries)


def timed(work: Callable[[], object]) -> float:
    """Return the processor seconds of this process that ``work`` takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def commands(lock: str, seconds: float, pairs: int) -> tuple[list[float], list[float]]:
    """Return the processor seconds of ``harness run`` without and with a trace, pair by pair; a pair runs at the same
    time. The processes that a command starts and waits for count."""
    taken: dict[str, list[float]] = {"off": [], "on": []}
    for number in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            modes = ("off", "on") if number % 2 else ("on", "off")
            words = ["run", lock, "--time-limit", f"{seconds:g}", "--out", folder, "-q", "--trace"]
            running = {
                mode: subprocess.Popen([sys.executable, "-m", "harness", *words, mode], stdout=subprocess.DEVNULL)
                for mode in modes
            }
            for mode, process in running.items():
                _, _, usage = os.wait4(process.pid, 0)
                process.returncode = 0  # waited for above
                taken[mode].append(usage.ru_utime + usage.ru_stime)
    return taken["off"], taken["on"]


def alternated(cost: Callable[[bool], T], pairs: int) -> tuple[list[T], list[T]]:
    """Return what ``cost`` without and with a trace returns, pair by pair."""
    off: list[T] = []
    on: list[T] = []
    for number in range(pairs):
        for traced in (False, True) if number % 2 else (True, False):
            (on if traced else off).append(cost(traced))
    return off, on


def more(off: Iterable[float], on: Iterable[float]) -> str:
    """Return the median of the relative differences."""
    return f"{median(b / a for a, b in zip(off, on, strict=True)) - 1:+.1%}"


def compared(off: Sequence[float], on: Sequence[float]) -> str:
    """Return the seconds without a trace, and what a trace adds, as text."""
    return f"{median(off):.2f} s, trace on {more(off, on)} (medians of {len(off)} pairs)"


def decoding(simulation: Simulation) -> str:
    """Return what decoding the log of the last simulation costs, as text."""
    history = simulation.history()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / LOG
        path.write_bytes(simulation.log())
        trace = load_trace(path.parent, history)
        assert trace is not None
        taken = min(timed(lambda: load_trace(path.parent, history)) for _ in range(3))
        size, decoded = path.stat().st_size, len(pack_messages(trace))
    each = 1e6 * taken / max(1, trace.total)
    return f"{trace.total:,} messages, {size >> 10} KB ({decoded >> 10} KB decoded), decoding {each:.0f} µs each"


def measure(lock: str, seconds: float, pairs: int, of_commands: int) -> str:
    """Return the figures of a lock as lines."""
    simulation = Simulation(lock, seconds)
    simulation.run(traced=True)
    alone = compared(*alternated(lambda traced: simulation.run(traced=traced), pairs))
    simulation.run(traced=True)
    lines = f"{lock}: simulation {alone}\n  {decoding(simulation)}"
    return f"{lines}\n  harness run {compared(*commands(lock, seconds, of_commands))}" if of_commands else lines


def main() -> None:
    """Print the figures of each lock."""
    parser = argparse.ArgumentParser(description="What a trace of the messages costs.")
    parser.add_argument("locks", nargs="*", default=["redis-token", "redlock"], help="else redis-token and redlock")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of simulations, else {PAIRS}")
    parser.add_argument("--commands", type=int, default=COMMANDS, help=f"pairs of commands, else {COMMANDS}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"simulated time, else {SECONDS:g}")
    given = parser.parse_args()
    for lock in given.locks:
        print(measure(lock, given.seconds, given.pairs, given.commands), flush=True)


if __name__ == "__main__":
    main()
