"""Recordings that arrive at a socket are followed like files, and kept if a folder is given."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import check
from harness.errors import EnvironmentLacking, UsageError
from harness.record import Recorder
from harness.run.check import listening
from harness.run.check.checking import Report
from harness.run.check.following import follow
from harness.run.check.listening import Listener
from tests.record.drawn import write_recordings
from tests.record.test_recordings import OVERLAP, holds

LINES = holds((0, 10, 20), (1, 30, 40), (0, 50, 60))


@contextmanager
def followed(address: str, model: str = "owner-mutex", **more: Any) -> Iterator[Future[Report]]:
    """Follow an address in a thread, and wait until it is listened on."""
    with ThreadPoolExecutor(1) as pool:
        report = pool.submit(follow, [Path(address)], model, **more)
        path = Path(address.removeprefix("unix:"))
        while address.startswith("unix:") and not path.is_socket():
            assert not report.done(), report.result()
            time.sleep(0.01)
        yield report


def connected(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(address.removeprefix("unix:"))
    return connection


def test_a_connection_that_waits_is_not_overlooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the thread that accepts it is late: otherwise the check could begin without it."""
    late = threading.Event()
    monkeypatch.setattr(Listener, "_accept", lambda self: late.wait())
    listener = Listener(f"unix:{tmp_path / 's'}", tmp_path)
    assert listener.idle()
    with connected(listener.address):
        assert not listener.idle()
    late.set()
    listener.close()


def send(address: str, *files: Path) -> None:
    """Send each file over a connection of its own, all of which are open at the same time."""
    connections = [connected(address) for _ in files]
    for connection, path in zip(connections, files, strict=True):
        with connection:
            connection.sendall(path.read_bytes())


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path / 's'}"


def test_recordings_of_two_connections_are_one_history(tmp_path: Path, address: str) -> None:
    files = write_recordings(tmp_path / "written", LINES, shifts=[0, 0], one_clock=True)
    with followed(address) as report:
        send(address, *files)
        assert report.result(60).verdict.valid is True
    assert report.result().verdict.stats["calls"] == 6
    assert not (tmp_path / "s").exists()


def test_two_holders_on_two_connections_are_found(tmp_path: Path, address: str) -> None:
    files = write_recordings(tmp_path / "written", OVERLAP, shifts=[0, 0], one_clock=True)
    with followed(address, store=tmp_path / "kept") as report:
        send(address, *files)
        assert "Two clients held k at the same time" in report.result(60).verdict.explanation
    kept = sorted((tmp_path / "kept").iterdir())
    assert sorted(path.read_bytes() for path in kept) == sorted(path.read_bytes() for path in files)
    assert check(tmp_path / "kept", "owner-mutex").verdict.valid is False


def test_a_connection_that_ends_early_is_a_recording_without_an_end(tmp_path: Path, address: str) -> None:
    """The process was killed: it may have made more calls."""
    (path,) = write_recordings(tmp_path / "written", holds((0, 10, 20)), shifts=[0], one_clock=True)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]) + b'{"time":1')
    with followed(address) as report:
        send(address, path)
        assert report.result(60).verdict.valid is None


def test_a_recorder_is_followed_over_tcp(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"tcp:127.0.0.1:{port}"
    with followed(address) as report:
        recorder = Recorder(address)
        lock = recorder.wrap(threading.Lock(), key="k")
        while True:
            with lock:
                pass
            time.sleep(0.2)
            if not recorder.error:
                break
            recorder = Recorder(address)  # it was not listened on yet
            lock = recorder.wrap(threading.Lock(), key="k")
        recorder.close()
        assert report.result(60).verdict.valid is True


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))
    Listener(f"unix:{path}", tmp_path).close()
    assert not path.exists()


def test_a_socket_that_is_there_can_be_connected_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"

    class Slow(socket.socket):
        def listen(self, backlog: int = 128) -> None:
            assert not path.exists()
            super().listen(backlog)
            assert not path.exists()

    monkeypatch.setattr(socket, "socket", Slow)
    listener = Listener(f"unix:{path}", tmp_path)
    connected(listener.address).close()
    listener.close()
    assert not list(tmp_path.glob("s*"))


def test_addresses_that_cannot_be_listened_on_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    busy = Listener(f"unix:{tmp_path / 'busy'}", tmp_path)
    for path in ("file", "no/such/folder", "busy"):
        with pytest.raises(EnvironmentLacking, match="cannot listen on unix:"):
            Listener(f"unix:{tmp_path / path}", tmp_path)
    assert (tmp_path / "file").read_text() == "precious"
    busy.close()
    for wrong in ("tcp:7000", "tcp:localhost:http", "tcp:127.0.0.1:99999"):
        with pytest.raises(UsageError, match="expected unix:PATH or tcp:HOST:PORT"):
            Listener(wrong, tmp_path)


def test_a_line_that_does_not_end_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "LONGEST_LINE", 1000)
    with followed(address) as report:
        with connected(address) as connection:
            connection.sendall(b"x" * 2000)
        with pytest.raises(UsageError, match="a line of more than 1,000 bytes"):
            report.result(60)


def test_a_connection_that_cannot_be_accepted_ends_the_check(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: socket.socket) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket.socket, "accept", fail)
    problem = f"^cannot accept a connection at {address}: Too many open files$"
    with followed(address) as report, connected(address), pytest.raises(UsageError, match=problem):
        report.result(60)


def test_a_listener_that_is_closed_has_no_problem(tmp_path: Path, address: str) -> None:
    listener = Listener(address, tmp_path)
    listener.close()
    assert listener.problem == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["unix:/tmp/s", "--model", "mutex"], "use --follow"),
        (["x.jsonl", "--model", "mutex", "--follow", "--out", "y"], "give such an address"),
        (["tcp:7000", "--model", "mutex", "--follow"], "expected unix:PATH or tcp:HOST:PORT, got 'tcp:7000'"),
    ],
)
def test_wrong_addresses_are_refused_by_the_command(arguments: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness", "check", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
