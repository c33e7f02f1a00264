"""A script that executes jobs until it is ended, for tests that interrupt or kill it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from .jobs import pids

ROOT = Path(__file__).parent.parent.parent
GUARDED = "if __name__ == '__main__':\n    main()"
SCRIPT = """
import itertools, sys
sys.path.insert(0, {root!r})
from contextlib import closing
from harness.errors import HarnessError
from harness.run.pool import open_pool, results, results_of_neighbours
from harness.run.processes.signals import sigterm_interrupts
from tests.pool.jobs import MarkJob, TidyJob, hold, mark

def main():
    jobs = {jobs}
    found = 0
    try:
        with sigterm_interrupts(), open_pool({workers}) as pool, closing({results}(jobs, {work}, pool)) as executed:
            for _ in executed:
                found += 1
    except KeyboardInterrupt:
        print("found", found)
    except HarnessError as error:
        print("error:", error)

{start}
"""


def start_script(
    folder: Path, *, start: str = GUARDED, scheduler: str = "", tidy: bool = False
) -> subprocess.Popen[str]:
    """Start it with two workers or a Dask scheduler, in a process group of its own; jobs leave files in
    ``folder/marks``."""
    marks_in = str(folder / "marks")
    Path(marks_in).mkdir()
    script = folder / "executes.py"
    workers = f"1, {scheduler!r}" if scheduler else f"2, tidy={tidy}"
    done = (
        {
            "jobs": f"[TidyJob({marks_in!r}, number, 0 if number < 2 else 60) for number in range(20)]",
            "results": "results_of_neighbours",
            "work": "hold",
        }
        if tidy
        else {
            "jobs": f"(MarkJob({marks_in!r}, number) for number in itertools.count())",
            "results": "results",
            "work": "mark",
        }
    )
    script.write_text(SCRIPT.format(root=str(ROOT), start=start, workers=workers, **done))
    environment = {**os.environ, "HELD_IN": str(folder)}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, str(script)], stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=environment
    )


def wait_for_workers(folder: Path) -> set[int]:
    """Wait until two workers have begun a job, and return the ids of their processes."""
    deadline = time.monotonic() + 120
    while len(found := pids(folder / "marks")) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def wait_until_gone(processes: set[int], within: float = 120.0) -> None:
    deadline = time.monotonic() + within
    while left := [pid for pid in processes if _runs(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    """Say whether a process exists and is no zombie, which a slow init process may leave for a while."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> set[int]:
    """Return the ids of the processes that a process has started, and of those that these have."""
    found: set[int] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            found |= {child, *descendants(child)}
    return found
