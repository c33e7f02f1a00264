"""Histories that are followed give the verdict of the whole history, and double holders are found at once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import pytest

from harness import Plan, check, run
from harness.checkers.base import Violation
from harness.run.check.checking import find_model
from harness.run.check.following import Follower, follow
from tests.record.drawn import MS, ORIGIN_NS, DrawnCall, recorded, write_recordings
from tests.record.test_recordings import ERROR_NS, OVERLAP, draw_gaps, drawn, holds

ONLINE = ("owner-mutex", "fenced-mutex", "lease-mutex")


def in_parts(random: Random, follower: Follower, paths: list[Path]) -> Violation | None:
    """Give the lines of the files to a follower, some lines at a time, from one file or the other."""
    waiting = {path: path.read_bytes().splitlines(keepends=True) for path in paths}
    while waiting:
        path = random.choice(list(waiting))
        count = random.randint(1, 6)
        text, waiting[path] = b"".join(waiting[path][:count]), waiting[path][count:]
        if not waiting[path]:
            del waiting[path]
        if (found := follower.take(follower.source(path), text)) is not None:
            return found
    return None


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 360), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("model", ONLINE)
def test_a_violation_that_is_found_online_is_one_of_the_whole_history(tmp_path: Path, model: str, seeds: range) -> None:
    """The check of the whole may find one only as the clocks read, since it widens each call by itself, and forgets the
    order of a process's calls. The control: most violations are found online."""
    online = offline = 0
    for seed in seeds:
        random = Random(seed)
        calls = drawn(seed, model)
        gaps = draw_gaps(random, calls)
        one_clock = random.random() < 0.5
        shifts = [random.randint(-ERROR_NS, ERROR_NS) for _ in range(2)]
        paths = write_recordings(
            tmp_path, recorded(calls, gaps), shifts=shifts, error_ns=ERROR_NS, gaps=gaps, one_clock=one_clock
        )
        found = in_parts(random, Follower(find_model(model, {})), paths)
        whole = check(paths, model).verdict.valid
        assert found is None or whole is not True, (seed, found)
        online, offline = online + (found is not None), offline + (whole is False)
    print(f"{model}: {online} of {offline} violations were found online")
    assert online > offline // 2


def test_an_overlap_is_found_as_soon_as_both_recordings_have_reached_it(tmp_path: Path) -> None:
    """Machine 0 holds the key from 0 to 50 ms, and machine 1 from 30 ms on. After the first clock reading of both that
    is later than 30 ms the overlap is certain, whatever comes later."""
    one, two = write_recordings(tmp_path, OVERLAP, shifts=[0, 0], one_clock=True)
    follower = Follower(find_model("owner-mutex", {}))
    first, second = one.read_bytes().splitlines(keepends=True), two.read_bytes().splitlines(keepends=True)
    reading = clock_line(31)
    assert follower.take(follower.source(two), b"".join(second[:3])) is None
    assert follower.take(follower.source(one), b"".join(first[:3])) is None
    assert follower.take(follower.source(one), reading) is None
    found = follower.take(follower.source(two), reading)
    assert found is not None
    assert found.kind == "overlap"


def test_a_release_that_arrives_late_is_waited_for(tmp_path: Path) -> None:
    calls = holds((0, 0, 20), (1, 30, 80))
    one, two = write_recordings(tmp_path, calls, shifts=[0, 0], one_clock=True)
    follower = Follower(find_model("owner-mutex", {}))
    first = one.read_bytes().splitlines(keepends=True)
    assert follower.take(follower.source(one), b"".join([*first[:3], clock_line(15)])) is None
    assert follower.take(follower.source(two), two.read_bytes()) is None
    assert follower.take(follower.source(one), b"".join(first[3:])) is None


def test_entries_from_before_another_clock_appears_count(tmp_path: Path) -> None:
    """A hold of machine 0 is compared with one of machine 1, whose recording begins later."""
    one, two = write_recordings(tmp_path, OVERLAP, shifts=[0, 0], error_ns=MS)
    follower = Follower(find_model("owner-mutex", {}))
    assert follower.take(follower.source(one), one.read_bytes()) is None
    assert follower.take(follower.source(two), two.read_bytes()) is not None


def clock_line(ms: int) -> bytes:
    now = ORIGIN_NS + ms * MS
    entry = {"process": -1, "time": now, "wall": now, "type": "info", "f": "clock", "value": {"error_ns": 0}}
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def test_followed_files_that_have_ended_are_checked_as_a_whole(tmp_path: Path) -> None:
    """A release without a hold is not found online."""
    lonely = DrawnCall(0, 0, "release", ORIGIN_NS, ORIGIN_NS + MS, "ok")
    paths = write_recordings(tmp_path / "wrong", [lonely, *holds((1, 30, 40))], shifts=[0, 0], one_clock=True)
    assert follow(paths, "owner-mutex").verdict.valid is False
    paths = write_recordings(tmp_path / "right", holds((0, 0, 10), (1, 30, 40)), shifts=[0, 0], one_clock=True)
    assert follow(paths, "owner-mutex").verdict.valid is True
    assert follow(paths, "mutex").verdict.valid is True


def test_a_folder_is_followed_while_files_appear_and_grow(tmp_path: Path) -> None:
    one, two = write_recordings(tmp_path / "written", OVERLAP, shifts=[0, 0], one_clock=True)
    folder = tmp_path / "followed"
    folder.mkdir()

    def write() -> None:
        for path in (one, two):
            with (folder / path.name).open("wb", buffering=0) as file:
                for line in path.read_bytes().splitlines(keepends=True):
                    file.write(line[:10])
                    time.sleep(0.005)
                    file.write(line[10:])

    thread = threading.Thread(target=write)
    thread.start()
    report = follow([folder], "owner-mutex")
    thread.join()
    assert report.verdict.valid is False
    assert "Two clients held k at the same time" in report.verdict.explanation


def test_the_state_of_a_monitor_is_bounded(tmp_path: Path) -> None:
    """Clients come and go, as where each request has a lock object of its own."""
    follower = Follower(find_model("owner-mutex", {}))
    calls = [call for n in range(600) for call in holds((0, 10 * n, 10 * n + 5))]
    calls = [DrawnCall(0, n // 2, c.f, c.began, c.ended, c.kind) for n, c in enumerate(calls)]
    (path,) = write_recordings(tmp_path, calls, shifts=[0], one_clock=True)
    for line in path.read_bytes().splitlines(keepends=True):
        follower.take(follower.source(path), line)
    (monitor,) = follower._monitors.values()
    assert len(monitor._slots) == 0
    assert sum(len(key.ended) for key in monitor._keys.values()) < 300


def test_the_command_follows_a_run_and_has_the_status_of_the_verdict(tmp_path: Path) -> None:
    result = run(Plan(lock="redis-setnx-expire", time_limit=3.0), store=tmp_path)
    assert result.folder is not None
    whole = check(result.folder, "owner-mutex").verdict.valid
    command = [sys.executable, "-m", "harness", "check", str(result.folder), "--model", "owner-mutex", "--follow"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == {True: 0, False: 1, None: 3}[whole]
    assert "no violation so far" in done.stderr
