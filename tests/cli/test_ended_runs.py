"""Files that an interrupted or killed run leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.history import History

from .commands import harness


@contextmanager
def long_run(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a run that would take hours, in a process of its own. The process is killed after the test."""
    arguments = ["run", "redis-token", "--time-limit", "30000s", "--nemesis", "client-pause", "--out", str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def history_of(process: subprocess.Popen[str], folder: Path, entries: int = 500) -> Path:
    """Return the history file of the run in progress once it has some entries. Only the test's own time limit ends
    the wait, because a busy machine may start slowly."""
    while process.poll() is None:
        for path in folder.glob("*/*/history.jsonl"):
            if path.read_bytes().count(b"\n") > entries:
                return path
        time.sleep(0.05)
    raise AssertionError(f"the run ended with status {process.returncode} instead of going on")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_run_leaves_history_results_and_report(number: signal.Signals, tmp_path: Path) -> None:
    with long_run(tmp_path / "s") as process:
        path = history_of(process, tmp_path / "s")
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode in (1, 3), err
    assert "Traceback" not in err
    assert History.load(path)[-1].value == {"reason": "interrupted"}
    assert json.loads((path.parent / "results.json").read_text())["valid"] is not True
    assert (path.parent / "report.html").exists()
    assert "redis-token" in out


@pytest.mark.slow
def test_a_killed_run_can_be_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with long_run(tmp_path / "s") as process:
        path = history_of(process, tmp_path / "s")
        process.kill()
        process.communicate()
    assert not (path.parent / "results.json").exists()
    status = harness("report", str(path.parent))
    assert (path.parent / "report.html").exists()
    valid = json.loads((path.parent / "results.json").read_text())["valid"]
    assert valid is not True
    assert status in ((0, 1) if valid is False else (0, 3))
