"""Commands on a store that is full or read-only: one line, exit status 4, and no half file."""

from __future__ import annotations

import contextlib
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from harness.errors import MISSING, UNKNOWN, USAGE, VALID, VIOLATION
from tests.cli.commands import harness

from .whole import half_files

SIZES = 20
SMALLEST, LARGEST = 8 * 1024, 4 * 1024 * 1024
RUN = ("run", "redis-token", "--time-limit", "3s", "--nemesis", "client-pause", "--quiet")
SLOW = {
    "hunt": ("hunt", "redis-token", "--faults", "client-pause", "--rounds", "2", "--schedules", "20", "--quiet"),
    "compare": ("compare", "--locks", "redis-token", "--nemeses", "client-pause", "--runs", "1", "--quiet",
                "--workers", "2"),
}  # fmt: skip
Capture = pytest.CaptureFixture[str]


@contextlib.contextmanager
def small_disk(place: Path, size: int) -> Iterator[None]:
    """Mount a disk of ``size`` bytes at ``place``."""
    place.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"this test mounts a tmpfs, which is not permitted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def sizes(count: int = SIZES) -> list[int]:
    """Random sizes in whole pages; each order of magnitude is equally likely."""
    rng = random.Random(17)
    low, high = math.log(SMALLEST), math.log(LARGEST)
    return [int(math.exp(rng.uniform(low, high))) // 4096 * 4096 for _ in range(count)]


def run_on_small_disk(command: tuple[str, ...], place: Path, size: int, capsys: Capture) -> int:
    with small_disk(place, size):
        found = harness(*command, "--out", str(place / "store"))
        err = capsys.readouterr().err
        assert half_files(place) == [], f"{size} bytes"
    assert "Traceback" not in err
    if found == MISSING:
        assert "No space left on device" in err
        assert err.count("\n") == 1, err
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("size", sizes())
def test_a_run_on_a_full_disk_ends_with_one_line_and_no_half_file(size: int, tmp_path: Path, capsys: Capture) -> None:
    assert run_on_small_disk(RUN, tmp_path / "disk", size, capsys) in (VALID, VIOLATION, MISSING)


@pytest.mark.slow
def test_the_sizes_reach_from_no_room_for_a_history_to_room_for_all(tmp_path: Path, capsys: Capture) -> None:
    assert run_on_small_disk(RUN, tmp_path / "disk", min(sizes()), capsys) == MISSING
    assert run_on_small_disk(RUN, tmp_path / "disk", max(sizes()), capsys) in (VALID, VIOLATION)


@pytest.mark.slow
@pytest.mark.parametrize("command", SLOW)
@pytest.mark.parametrize("size", sizes()[::3])
def test_longer_commands_on_a_full_disk_end_with_one_line_and_no_half_file(
    command: str, size: int, tmp_path: Path, capsys: Capture
) -> None:
    found = run_on_small_disk(SLOW[command], tmp_path / "disk", size, capsys)
    assert found in (VALID, VIOLATION, UNKNOWN, MISSING)


@pytest.mark.parametrize(
    "command",
    [
        RUN,
        (*RUN, "--runs", "3"),
        SLOW["hunt"],
        SLOW["compare"],
        ("nightly", "--only", "ttl-pause-write*"),
        ("sweep", "redis-token", "--ttl", "1s", "--hold", "50ms", "--pause", "0"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_read_only_store_is_refused_before_the_work(
    command: tuple[str, ...], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.clusters.sim.cluster.SimCluster.run", None)  # the work
    place = tmp_path / "disk"
    with small_disk(place, LARGEST):
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        assert harness(*command, "--out", str(place / "store")) == MISSING
    err = capsys.readouterr().err
    assert "Read-only file system" in err
    assert err.count("\n") == 1, err


def full_device() -> IO[bytes]:
    return Path("/dev/full").open("wb", buffering=0)


@contextlib.contextmanager
def pipe_without_reader() -> Iterator[int]:
    read, write = os.pipe()
    os.close(read)
    try:
        yield write
    finally:
        os.close(write)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "arguments", [("run", "redis-token", "--time-limit", "2s", "--json"), ("list", "locks"), ("show", "redlock")]
)
@pytest.mark.parametrize("stdout", ["full", "closed pipe"])
def test_output_that_cannot_be_written_is_one_line(arguments: tuple[str, ...], stdout: str, tmp_path: Path) -> None:
    with full_device() if stdout == "full" else pipe_without_reader() as out:
        ended = subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            cwd=tmp_path,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
            check=False,
        )
    assert ended.returncode == MISSING, ended.stderr
    assert ended.stderr.startswith("harness: cannot write to standard output: ")
    assert ended.stderr.count("\n") == 1
    assert half_files(tmp_path) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("arguments", [("list", "locks"), ("run", "nosuch"), ("run", "redis-token", "--ttl", "soon")])
def test_a_closed_pipe_behind_both_outputs_is_no_violation(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with pipe_without_reader() as out:
        command = [sys.executable, "-m", "harness", *arguments]
        ended = subprocess.run(command, cwd=tmp_path, stdout=out, stderr=out, timeout=600, check=False)
    assert ended.returncode == (MISSING if arguments[0] == "list" else USAGE)
