"""The example service with three processes on a real Redis: its recordings are valid, and its bugs are found online."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import check
from harness.fidelity.processes import LOOPBACK
from harness.run.check.following import follow
from tests.conftest import Servers

SERVICE = Path(__file__).parents[2] / "examples" / "orders" / "orders.py"

pytestmark = pytest.mark.parametrize("real_redis", [LOOPBACK], indirect=True)


@contextmanager
def three_processes(servers: Servers, recordings: Path | str, *options: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    host, port = servers[0]
    command = [sys.executable, str(SERVICE), "--redis", f"{host}:{port}", "--recordings", str(recordings), *options]
    started = [subprocess.Popen(command) for _ in range(3)]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_the_service_without_a_bug_is_valid(real_redis: Servers, tmp_path: Path) -> None:
    with three_processes(real_redis, tmp_path, "--orders", "20") as processes:
        assert [process.wait() for process in processes] == [0, 0, 0]
    for model in ("owner-mutex", "lease-mutex"):
        report = check(tmp_path, model)
        assert report.verdict.valid is True, report.verdict.explanation
        assert report.verdict.stats["calls"] == 120


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(("bug", "model"), [("release", "lease-mutex"), ("lease", "owner-mutex")])
def test_a_bug_is_found_while_the_service_runs(real_redis: Servers, tmp_path: Path, bug: str, model: str) -> None:
    """The processes do not end by themselves. After they are killed, their files prove the same violation."""
    tmp_path = tmp_path / "recordings"
    with three_processes(real_redis, tmp_path, "--bug", bug) as processes:
        report = follow([tmp_path], model)
        late_ns = time.monotonic_ns() - report.verdict.evidence[0].from_ns
        assert [process.poll() for process in processes] == [None] * 3
    print(f"{bug}: found {late_ns / 1e9:.3f} s after the acquire of the second holder returned")
    assert report.verdict.valid is False
    assert check(tmp_path, model).verdict.valid is False


@pytest.mark.slow
def test_a_lease_that_is_too_short_is_not_the_fault_of_the_lock(real_redis: Servers, tmp_path: Path) -> None:
    with three_processes(real_redis, tmp_path, "--bug", "lease", "--orders", "15") as processes:
        assert [process.wait() for process in processes] == [0, 0, 0]
    assert check(tmp_path, "owner-mutex").verdict.valid is False
    assert check(tmp_path, "lease-mutex").verdict.valid is True


@pytest.mark.few(1)
@pytest.mark.parametrize(("bug", "model"), [("release", "lease-mutex"), ("lease", "owner-mutex")])
def test_a_bug_is_found_by_a_command_to_which_the_processes_connect(
    real_redis: Servers, tmp_path: Path, bug: str, model: str
) -> None:
    path, kept = tmp_path / "locks.sock", tmp_path / "kept"
    command = [sys.executable, "-m", "harness", "check", "--follow", f"unix:{path}", "--model", model]
    with subprocess.Popen([*command, "--out", str(kept)], stdout=subprocess.PIPE, text=True) as following:
        try:
            while not path.is_socket():
                assert following.poll() is None
                time.sleep(0.05)
            with three_processes(real_redis, f"unix:{path}", "--bug", bug) as processes:
                said, _ = following.communicate(timeout=120)
                assert [process.poll() for process in processes] == [None] * 3, "the application goes on"
        finally:
            following.kill()
    assert following.returncode == 1
    assert "VIOLATION" in said
    assert len(list(kept.iterdir())) == 3
    assert check(kept, model).verdict.valid is False
