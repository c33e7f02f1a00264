"""One history through ours: ``python -m benchmarks.linearizability.ours FILE MODEL SECONDS WARM``.

A process of its own for each history, so that its memory is that of this one; on the small history WARM first, with
machine code, since numba loads or compiles that at the first call. Prints one JSON object.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.linearizability.generate import PERMITS
from harness.checkers.linearizability.check import check, quick_algorithm
from harness.checkers.linearizability.problem import Budget, QuickResult, problem
from harness.checkers.linearizability.repair import decided
from harness.checkers.models import MODELS, Model, Semaphore
from harness.history import compiled
from harness.history.calls import Calls
from harness.history.files import read_calls

ROUNDS: Final = 9
ENOUGH: Final = 2.0
"""Seconds, after which no further round is begun; but there are three, unless the first takes longer than this."""
MEMORY: Final = 2**30
"""Bytes that a search may take for what it remembers."""


def decide(calls: Calls, model: Model, seconds: float) -> bool | None:
    """The verdict alone, by the same algorithms: nothing is explained, as Porcupine does not."""
    quick = quick_algorithm(model)
    outcome = quick(calls) if quick else QuickResult(undecided=tuple(range(len(calls.keys))))
    if outcome.failures:
        return False
    budget = Budget(seconds, MEMORY)
    answers = [decided(problem(calls, model, key), model, budget)[1].valid for key in outcome.undecided]
    return False if False in answers else None if None in answers else True


def once(path: Path, model: Model, seconds: float) -> tuple[bool | None, int, list[float]]:
    """The verdict, on how many calls, the seconds of the processor that reading, the verdict and then the whole check
    took, and those of reading and checking by the clock on the wall. What is not decided is not checked again."""
    began, begun = time.perf_counter(), time.process_time()
    calls = read_calls(path, model.wants)
    read, read_wall = time.process_time(), time.perf_counter()
    valid = decide(calls, model, seconds)
    decided, decided_wall = time.process_time(), time.perf_counter()
    if valid is None:
        return valid, len(calls), [read - begun, decided - read, decided - read, decided_wall - began]
    checked = check(calls, model, budget=Budget(seconds, MEMORY), workers=1)
    if checked.verdict.valid is (not valid):  # it may have run out of time just where the other had not
        raise AssertionError(f"{path}: {checked.verdict.explanation}, but the algorithm alone says {valid}")
    wall = read_wall - began + time.perf_counter() - decided_wall
    return valid, len(calls), [read - begun, decided - read, time.process_time() - decided, wall]


def measure(path: Path, model: Model, seconds: float) -> dict[str, Any]:
    """The medians of some rounds, or the only one if it takes long."""
    times: list[list[float]] = []
    while not _enough(times):
        valid, calls, took = once(path, model, seconds)
        times.append(took)
    names = ("read", "decide", "seconds", "wall")
    medians = {name: statistics.median(column) for name, column in zip(names, zip(*times, strict=True), strict=True)}
    verdict = {True: "Ok", False: "Illegal", None: "Unknown"}[valid]
    return {"verdict": verdict, "calls": calls, **medians, "peak": peak()}


def _enough(times: list[list[float]]) -> bool:
    spent = sum(took[-1] for took in times)
    return len(times) == ROUNDS or (spent > ENOUGH and len(times) in {1, *range(3, ROUNDS)})


def peak() -> int:
    """The resident memory of this process at its highest, bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def main() -> None:
    """Print what was measured."""
    path, name, seconds, warm = sys.argv[1:]
    model = Semaphore(PERMITS) if name == Semaphore.name else MODELS[name]()
    usual, compiled.limits = compiled.limits, compiled.ALWAYS
    for _ in range(2):
        once(Path(warm), model, float(seconds))
    compiled.limits = usual
    print(msgspec.json.encode(measure(Path(path), model, float(seconds))).decode())


if __name__ == "__main__":
    main()
