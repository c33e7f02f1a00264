"""Commands that are killed at a random moment leave no process and no half file, and the next command works.

``HARNESS_TEST_KILLS`` is the number of kills of each command.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import UNKNOWN, VALID, VIOLATION
from tests.files.whole import half_files

KILLS = int(os.environ.get("HARNESS_TEST_KILLS", "3"))
LATEST_S = 16.0
"""Latest moment of a kill, after the start of the command."""
GONE_WITHIN_S = 30.0
MARK = "HARNESS_TEST_MARK"
COMMANDS = {
    "run": ("redis-token", "--time-limit", "600s", "--clients", "10", "--nemesis", "client-pause"),
    "hunt": ("redis-token", "--faults", "latency", "--budget", "30s", "--workers", "2"),
    "nightly": ("--only", "ttl-*", "--workers", "2"),
    "compare": ("--locks", "redis-token,redlock", "--workers", "2"),
    "sweep": ("redis-token", "--ttl", "1s,2s,5s", "--hold", "50ms,200ms", "--pause", "0,1s,3s", "--workers", "2"),
}


def processes(mark: str) -> dict[int, str]:
    """Return the command lines of living processes with this mark in their environment, by id."""
    found = {}
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


@contextlib.contextmanager
def running_command(*arguments: str, store: Path, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start a command with a mark; kill what is left of it in the end."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "harness", *arguments, "--out", str(store)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, MARK: mark}, start_new_session=True
        )
        try:
            yield process, mark
        finally:
            process.kill()
            process.wait()
            for left in processes(mark):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(600 + 120 * KILLS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_leaves_no_process_and_no_half_file(command: str, tmp_path: Path) -> None:
    rng = random.Random(command)
    store, log = tmp_path / "store", tmp_path / "log"
    seen = 0
    for number in range(KILLS):
        moment = rng.uniform(0.0, LATEST_S)
        with running_command(command, *COMMANDS[command], store=store, log=log) as (process, mark):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moment)
            seen = max(seen, len(processes(mark)))
            process.kill()
            process.wait()
            deadline = time.monotonic() + GONE_WITHIN_S
            while (left := processes(mark)) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not left, f"kill {number} after {moment:.2f} s"
            half = [flaw for flaw in half_files(store) if ".part: " not in flaw]
            assert not half, f"kill {number} after {moment:.2f} s"
    print(f"{command}: {KILLS} kills, at most {seen} processes at a kill")
    with running_command("run", "redis-token", "--time-limit", "2s", store=store, log=log) as (process, _):
        assert process.wait(300) in (VALID, VIOLATION, UNKNOWN), log.read_text()
    assert half_files(store / "latest") == []
