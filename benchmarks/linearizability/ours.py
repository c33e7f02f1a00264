"""One history through ours: ``python -m benchmarks.linearizability.ours FILE MODEL SECONDS WARM``.

A process of its own for each history, so that its memory is that of this one; on the small history WARM first, since
the loops come from numba's cache at their first call. Prints one JSON object.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from checkers.linearizability.check import Checked, check
from checkers.linearizability.search import Budget
from checkers.models import MODELS, Model
from harness.history.files import read_calls

ROUNDS: Final = 9
ENOUGH: Final = 2.0
"""Seconds, after which no further round is begun; but there are three, unless the first takes longer than this."""
MEMORY: Final = 2**30
"""Bytes that a search may take for what it remembers."""


def once(path: Path, model: Model, seconds: float) -> tuple[Checked, int, list[float]]:
    """What was found, in how many calls, the seconds of the processor that reading and checking took, and those that
    both took by the clock on the wall."""
    began, begun = time.perf_counter(), time.process_time()
    calls = read_calls(path, model.wants)
    read = time.process_time()
    checked = check(calls, model, budget=Budget(seconds, MEMORY), workers=1)
    return checked, len(calls), [read - begun, time.process_time() - read, time.perf_counter() - began]


def measure(path: Path, model: Model, seconds: float) -> dict[str, Any]:
    """The medians of some rounds, or the only one if it takes long."""
    times: list[list[float]] = []
    while not _enough(times):
        checked, calls, took = once(path, model, seconds)
        times.append(took)
        verdict = {True: "Ok", False: "Illegal", None: "Unknown"}[checked.verdict.valid]
        del checked
    read, took_s, wall = (statistics.median(column) for column in zip(*times, strict=True))
    return {"verdict": verdict, "calls": calls, "read": read, "seconds": took_s, "wall": wall, "peak": peak()}


def _enough(times: list[list[float]]) -> bool:
    spent = sum(wall for _, _, wall in times)
    return len(times) == ROUNDS or (spent > ENOUGH and len(times) in {1, *range(3, ROUNDS)})


def peak() -> int:
    """The resident memory of this process at its highest, bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def main() -> None:
    """Print what was measured."""
    path, name, seconds, warm = sys.argv[1:]
    model = MODELS[name]()
    for _ in range(2):
        once(Path(warm), model, float(seconds))
    print(msgspec.json.encode(measure(Path(path), model, float(seconds))).decode())


if __name__ == "__main__":
    main()
