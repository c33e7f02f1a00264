"""Measure the start of commands: ``python -m benchmarks.startup``. Whole processes, user and system CPU seconds.

The goals, on a quiet machine: ``harness --help`` in 0.3 s of CPU, and ``harness check`` of 1,000 calls in 0.5 s as a
cold process. CPU seconds are judged rather than wall time. The status is 1 beyond three times a goal: the same work was
seen to take 0.6 to 0.9 s of CPU on one machine, by its load, so a smaller factor would judge the machine.

The bytecode of modules is cached, as in every installation, in a folder of the benchmark's own. Without it, as under
PYTHONDONTWRITEBYTECODE, each process takes 0.1 s more.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.plan import Plan
from harness.run.runs import run

TIMES: Final = 5
CALLS: Final = 1_000
HELP_S: Final = 0.3
CHECK_S: Final = 0.5
FAILED: Final = 3.0
"""The status is 1 beyond this multiple of a goal."""


def measured(arguments: Sequence[str], bytecode: Path) -> tuple[float, float]:
    """Return the least (CPU seconds, wall seconds) of several processes, which cache bytecode in a folder."""
    figures = []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    command = [sys.executable, "-m", "harness", *arguments]
    for _ in range(TIMES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False, env=environment)
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        figures.append((after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall))
    return min(cpu for cpu, _ in figures), min(wall for _, wall in figures)


def recorded(folder: Path) -> Path:
    """Return a run's folder whose history has about a thousand calls of a lock."""
    plan = Plan(lock="redis-token", clients=5, hold=0.01, rest=0.0, time_limit=30.0, sections=CALLS // 10)
    stored = run(plan, store=folder).folder
    assert stored is not None
    return stored


def main() -> int:
    with tempfile.TemporaryDirectory() as temporary:
        history, bytecode = recorded(Path(temporary, "store")), Path(temporary, "bytecode")
        rows = [
            ("harness --help", HELP_S, measured(["--help"], bytecode)),
            ("harness check", CHECK_S, measured(["check", str(history), "--model", "mutex"], bytecode)),
        ]
    late = False
    for name, goal, (cpu, wall) in rows:
        late = late or cpu > goal * FAILED
        verdict = "met" if cpu <= goal else "missed"
        print(f"{name:16} {cpu:6.2f} s CPU, {wall:6.2f} s wall; goal {goal} s CPU: {verdict}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
