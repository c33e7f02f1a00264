"""Waits for a processor, of programs that are started for the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.clusters.docker.helper.namespaces import processes_of
from harness.clusters.docker.helper.processes import state
from harness.record import processor_waits
from harness.record.processor_waits import ProcessorWaits, descendants, worst_waits

BUSY = "while True: pass"
IDLE = "import time; time.sleep(600)"


@pytest.fixture
def programs() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(programs: ExitStack, code: str, processor: int) -> int:
    command = ["taskset", "-c", str(processor), sys.executable, "-c", code]
    process = programs.enter_context(subprocess.Popen(command))
    programs.callback(process.kill)
    return process.pid


def wait_channel(pid: int) -> str:
    """Return the name of the kernel's function in which a process sleeps."""
    return Path(f"/proc/{pid}/wchan").read_text()


def processor_time_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def waited_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def test_programs_that_share_a_processor_wait_as_long_as_the_others_run(programs: ExitStack) -> None:
    processor = min(os.sched_getaffinity(0))
    pids = [start(programs, BUSY, processor) for _ in range(3)]
    waits = ProcessorWaits(lambda: pids, every_s=0.2)
    before = [processor_time_s(pid) for pid in pids]
    while min(processor_time_s(pid) - since for pid, since in zip(pids, before, strict=True)) < 0.3:
        time.sleep(0.05)
    samples = waits.stop()
    assert sum(wait for _, wait in samples) > 0.5e9, "each waits while the two others run"
    times = [at for at, _ in samples]
    assert times == sorted(times)
    assert abs(times[-1] - time.monotonic_ns()) < 60e9


def test_a_program_that_a_sample_does_not_see_brings_no_earlier_waits(programs: ExitStack) -> None:
    processor = min(os.sched_getaffinity(0))
    pids = [start(programs, BUSY, processor) for _ in range(3)]
    while min(waited_s(pid) for pid in pids) < 1.0:
        time.sleep(0.05)
    seen = iter(([], pids))
    began = time.monotonic_ns()
    waits = ProcessorWaits(lambda: next(seen), every_s=600)
    samples = waits.stop()
    assert max((wait for _, wait in samples), default=0) <= time.monotonic_ns() - began


def test_a_thread_that_ends_meanwhile_hides_no_other_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir
    ended = SimpleNamespace(name="0", path="/proc/self/task/0")
    monkeypatch.setattr(os, "scandir", lambda path: [ended, *real(path)])
    assert (os.getpid(), str(os.getpid())) in processor_waits._delays([os.getpid()])


def test_a_program_that_sleeps_or_is_stopped_does_not_wait(programs: ExitStack) -> None:
    processor = min(os.sched_getaffinity(0))
    sleeping = start(programs, IDLE, processor)
    stopped = start(programs, BUSY, processor)
    os.kill(stopped, signal.SIGSTOP)
    while "sleep" not in wait_channel(sleeping) or state(stopped) != "T":
        time.sleep(0.05)
    waits = ProcessorWaits(lambda: [sleeping, stopped], every_s=0.1)
    time.sleep(0.5)
    assert waits.stop() == []


def test_processes_that_end_are_left_out(programs: ExitStack) -> None:
    pid = start(programs, IDLE, min(os.sched_getaffinity(0)))
    listed = processes_of([pid])
    assert pid in listed()
    waits = ProcessorWaits(listed, every_s=0.05)
    programs.close()
    waits.stop()
    assert pid not in listed()


def test_descendants_are_found_over_several_generations(programs: ExitStack) -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {IDLE!r}])"
    pid = start(programs, code, min(os.sched_getaffinity(0)))
    while len(found := descendants(pid)) < 1:
        time.sleep(0.05)
    programs.callback(os.kill, found[0], signal.SIGKILL)
    assert {pid, *found} <= set(descendants(os.getpid()))
    assert os.getpid() not in descendants(os.getpid())
    assert descendants(found[0]) == []


def test_the_waits_of_machines_are_not_added_up() -> None:
    second = 10**9
    first, other = [(5 * second, 300), (6 * second, 20)], [(5 * second + 7, 100), (8 * second, 50)]
    assert worst_waits([first, other]) == [(5 * second, 300), (6 * second, 20), (8 * second, 50)]
