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
from harness.clusters.programs import await_stop
from harness.clusters.ssh.helper.processes import members
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


@pytest.mark.slow
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
    assert (os.getpid(), str(os.getpid())) in processor_waits._threads([os.getpid()])


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


def test_a_process_whose_name_is_cut_inside_a_character_is_read_like_others(programs: ExitStack) -> None:
    code = f"import ctypes; ctypes.CDLL(None).prctl(15, b'caf\\xc3', 0, 0, 0); {IDLE}"
    pid = start(programs, code, min(os.sched_getaffinity(0)))
    while b"(caf\xc3)" not in Path(f"/proc/{pid}/stat").read_bytes():
        time.sleep(0.01)
    assert pid in descendants(os.getpid())
    assert (pid, str(pid)) in processor_waits._threads([pid])
    assert state(pid) in ("R", "S")
    assert pid in members(os.getpgid(pid))
    os.kill(pid, signal.SIGSTOP)
    await_stop(pid)
    assert state(pid) == "T"


SECOND = 10**9


def waits_of(monkeypatch: pytest.MonkeyPatch, *seen: tuple[float, float, int, bool]) -> list[tuple[float, float]]:
    """Return the waits (time and length, s) of a thread of which samples see (time, sum of waits, times it was given a
    processor, whether it is runnable)."""
    now = 0.0
    threads: dict[tuple[int, str], processor_waits._Seen] = {}
    monkeypatch.setattr(processor_waits, "time", SimpleNamespace(monotonic_ns=lambda: int(now * SECOND)))
    monkeypatch.setattr(processor_waits, "_threads", lambda _: threads)
    waits: ProcessorWaits | None = None
    for at, waited, slices, runnable in seen:
        now, threads = at, {(1, "1"): processor_waits._Seen(int(waited * SECOND), slices, runnable)}
        if waits is None:
            waits = ProcessorWaits(tuple, every_s=600)
        else:
            waits._sample()
    assert waits is not None
    return [(at / SECOND, wait / SECOND) for at, wait in waits.stop()]


def test_a_sleep_that_the_kernel_counts_as_a_wait_is_no_longer_than_since_it_was_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As on Linux 6.18: a thread of ZooKeeper that polls for 3 s woke once, and its waits had become 3 s longer.
    asleep = [(at, 0.1, 11, False) for at in (0, 1, 2, 3)]
    assert waits_of(monkeypatch, *asleep, (4, 3.1, 12, False)) == [(4, 1)]


def test_a_wait_of_several_seconds_counts_whole_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = [(at, 0.1, 11, True) for at in (1, 2, 3)]
    assert waits_of(monkeypatch, (0, 0.1, 11, False), *waiting, (4, 3.6, 12, True)) == [(4, 3.5)]
    assert waits_of(monkeypatch, (0, 0.1, 11, False), (1, 0.1, 12, True), (2, 1.9, 13, True)) == [(2, 1.8)]


def test_a_wait_after_a_sleep_begins_no_earlier_than_the_sample_before(monkeypatch: pytest.MonkeyPatch) -> None:
    asleep = [(at, 0.1, 11, False) for at in (0, 1, 2, 3)]
    assert waits_of(monkeypatch, *asleep, (4, 0.1, 11, True), (5, 4.0, 12, False)) == [(5, 2)]


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
