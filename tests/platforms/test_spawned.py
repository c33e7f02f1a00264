"""Workers of systems that cannot fork: how they end, and that they show what they did until then."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.run.processes import worker_hosts, workers
from harness.run.processes.worker_hosts import SpawnedWorker, WorkerDied
from harness.worker.watchdog import Limits
from tests.worker.test_hostile import DOUBTS, run_hostile
from tests.worker.test_server import reports_until_interrupted

pytestmark = pytest.mark.slow
ENDS = ("ExitsWith0", "Kills", "Segfault", "Loops", "LoopsInC", "Allocates", "ForksQuietly")


@pytest.fixture(autouse=True)
def without_fork(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    workers.close_servers()
    monkeypatch.setattr(worker_hosts, "can_fork", lambda: False)
    monkeypatch.setattr(workers, "limits", Limits(cpu_s=2.0))
    yield
    workers.close_servers()


@pytest.mark.parametrize("lock", ENDS)
def test_a_hostile_lock_is_unknown_and_the_result_says_why(
    lock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTILE", tmp_path.name)
    result = run_hostile(lock, tmp_path)
    assert result.exit_status == 3
    assert DOUBTS[lock] in result.reason
    if lock.startswith("Loops"):
        assert "hostile_locks.py" in result.reason


def test_an_interrupt_ends_a_call() -> None:
    name = f"{reports_until_interrupted.__module__}:{reports_until_interrupted.__name__}"
    with pytest.raises(KeyboardInterrupt):
        workers.call(name, b"", lambda _kind, _body: True)


def test_a_stranger_on_the_port_is_no_worker() -> None:
    """A process that connects without the token is dropped, and the worker is accepted after it."""
    worker = SpawnedWorker(sys.executable)
    try:
        with socket.create_connection(worker._listener.getsockname()) as stranger:
            stranger.sendall(b"x" * 64)
            worker.begin(b"not a request", Limits())
            assert stranger.recv(1) == b""
        end = worker.exchange(lambda _: None, lambda _: None)
        assert end.status == 1
    finally:
        worker.close()


def test_a_python_that_cannot_start_is_reported() -> None:
    with pytest.raises(WorkerDied, match="ended itself with exit status"):
        workers.call("a:b", b"", lambda _kind, _body: None, interpreter="/bin/false")
