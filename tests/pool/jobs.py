"""Jobs for the tests of the pool. They are functions of a module, so that every worker can import them."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path

import msgspec

from harness.errors import UsageError
from harness.history import Op
from harness.plan import Plan
from harness.search.trials import run_trial

SEEDS = range(6)


def digest(seed: int) -> str:
    """Return a digest of the bytes of a short run's history, which differ from seed to seed."""
    plan = Plan(lock="redis-setnx", clients=2, time_limit=4.0, settle=1.0, seed=seed)
    lines = [msgspec.json.encode(op) for op in run_trial(plan).history]
    assert isinstance(msgspec.json.decode(lines[0], type=Op), Op)
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


class MarkJob(msgspec.Struct, frozen=True):
    """A job that writes a file into ``folder`` each time it begins. It takes a moment, or until the file ``gate``
    exists; if ``deadly`` it kills its worker."""

    folder: str
    number: int
    deadly: bool = False
    gate: str = ""

    def times(self) -> int:
        """Return how often the job has begun."""
        return len(list(Path(self.folder).glob(f"{self.number}-*")))


def mark(job: MarkJob) -> int:
    Path(job.folder, f"{job.number}-{os.getpid()}-{time.monotonic_ns()}").touch()
    if job.gate:
        while not Path(job.gate).exists():
            time.sleep(0.01)
    else:
        time.sleep(0.2)
    if job.deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return job.number**2


def marks(folder: Path) -> set[str]:
    """Return ``<job>-<pid>`` of every job that has begun."""
    return {path.name.rpartition("-")[0] for path in folder.iterdir()}


def pids(folder: Path) -> set[int]:
    """Return the workers that have begun a job."""
    return {int(name.split("-")[1]) for name in marks(folder)}


def gated_jobs(folder: Path, count: int) -> tuple[list[MarkJob], Path]:
    """Return jobs, and the file for which all but the first two wait, so that a test can act while one is played."""
    gate = folder.parent / f"{folder.name}-gate"
    return [MarkJob(str(folder), number, gate=str(gate) if number >= 2 else "") for number in range(count)], gate


def wait_for_gated_job(folder: Path, pid: int) -> None:
    """Wait until a worker executes one of the jobs that wait."""
    deadline = time.monotonic() + 120
    while not any(name.endswith(f"-{pid}") and int(name.split("-")[0]) >= 2 for name in marks(folder)):
        assert time.monotonic() < deadline, f"{pid} began nothing, others {sorted(marks(folder))}"
        time.sleep(0.01)


class Strange(Exception):
    """Cannot be unpickled."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"{number}: {why}")


def fail(number: int) -> int:
    if number == 1:
        raise UsageError("one is wrong")
    if number == 2:
        raise Strange(2, "is strange")
    if number == 3:
        raise LookupError("three is nowhere")
    return number


class TidyJob(msgspec.Struct, frozen=True):
    """A job that keeps a :class:`Held` and works for ``seconds``, or until SIGTERM, as a run on containers does."""

    folder: str
    number: int
    seconds: float = 0.0


class Held:
    """Stands for containers: a file in the working folder that is removed when the worker ends."""

    def __init__(self) -> None:
        self.folder = Path(os.environ["HELD_IN"])

    def __enter__(self) -> Held:
        (self.folder / f"held-{os.getpid()}").touch()
        return self

    def __exit__(self, *error: object) -> None:
        time.sleep(0.3)
        (self.folder / f"held-{os.getpid()}").unlink()


def hold(job: TidyJob) -> int:
    from harness.run.pool.kept import keep

    interrupted: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: interrupted.append(number))
    try:
        keep(Held)
        mark(MarkJob(job.folder, job.number))
        deadline = time.monotonic() + job.seconds
        while time.monotonic() < deadline and not interrupted:
            time.sleep(0.05)
    finally:
        signal.signal(signal.SIGTERM, before)
    if interrupted:
        raise KeyboardInterrupt
    return os.getpid()
