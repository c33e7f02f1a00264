"""Locks of an application are recorded as a history, and whatever happens to the recorder, the application goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from harness import check
from harness.record import Recorder


class Plain:
    """A lock that answers what it is told."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def acquire(self, timeout: float = 0.0) -> Any:
        del timeout
        return self._next()

    def release(self) -> None:
        self._next()

    def extend(self) -> Any:
        return self._next()

    def __enter__(self) -> Plain:
        self._next()
        return self

    def __exit__(self, *_: object) -> None:
        self._next()

    def _next(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Awaited:
    """The same with coroutines."""

    def __init__(self, *answers: Any) -> None:
        self.plain = Plain(*answers)

    async def acquire(self, timeout: float = 0.0) -> Any:
        return self.plain.acquire(timeout)

    async def __aenter__(self) -> Awaited:
        self.plain.__enter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.plain.__exit__()


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return all entries of the recordings in a folder."""
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def entries(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of calls."""
    return [entry for entry in lines(folder) if entry["process"] >= 0]


def outcomes(folder: Path) -> list[tuple[str, str]]:
    return [(entry["f"], entry["type"]) for entry in entries(folder) if entry["type"] != "invoke"]


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_calls_are_recorded_with_their_outcomes(tmp_path: Path) -> None:
    path = tmp_path / "recordings"
    recorder = Recorder(path)
    lock = recorder.wrap(
        Plain(True, True, None, False, KeyError(), OSError("refused")), "orders", valid_for=2.0, refused=(KeyError,)
    )
    assert lock.acquire(timeout=1.0) is True
    assert lock.extend() is True
    assert lock.release() is None
    assert lock.acquire() is False
    with pytest.raises(KeyError):
        lock.release()
    with pytest.raises(OSError, match="refused"):
        lock.acquire()
    recorder.close()
    assert outcomes(path) == [
        ("acquire", "ok"), ("extend", "ok"), ("release", "ok"),
        ("acquire", "fail"), ("release", "fail"), ("acquire", "info"),
    ]  # fmt: skip
    assert entries(path)[1]["value"] == {"valid_for": 2.0, "fence": None}
    assert check(only_file(path), "lease-mutex").verdict.valid


def test_two_holders_are_a_violation(tmp_path: Path) -> None:
    path = tmp_path / "recordings"
    recorder = Recorder(path)
    with recorder.wrap(Plain(None, None), "orders"), recorder.wrap(Plain(None, None), "orders"):
        pass
    recorder.close()
    assert check(only_file(path), "owner-mutex").verdict.valid is False


def test_locks_of_asyncio_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "recordings"
    recorder = Recorder(path)

    async def work() -> None:
        async with recorder.wrap(Awaited(None, None), "orders"):
            pass
        lock = recorder.wrap(Awaited(asyncio.CancelledError()), "orders")
        with pytest.raises(asyncio.CancelledError):
            await lock.acquire()

    asyncio.run(work())
    recorder.close()
    assert outcomes(path) == [("acquire", "ok"), ("release", "ok"), ("acquire", "info")]


def test_calls_that_overlap_have_processes_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "recordings"
    recorder = Recorder(path)
    inside = threading.Event()
    go_on = threading.Event()

    class Slow(Plain):
        def acquire(self, timeout: float = 0.0) -> Any:
            inside.set()
            go_on.wait(10.0)
            return super().acquire(timeout)

    lock = recorder.wrap(Slow(True, False), "orders")
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    inside.wait(10.0)
    go_on.set()
    lock.acquire()
    thread.join()
    recorder.close()
    assert {entry["node"] for entry in entries(path)} == {entries(path)[0]["node"]}


def test_lost_calls_are_counted_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "recordings"
    recorder = Recorder(path, capacity=5)
    lock = recorder.wrap(Plain(*[True] * 5000), "orders")
    for _ in range(5000):
        lock.acquire()
    recorder.close()
    told = [entry for entry in lines(path) if entry["f"] == "lost"]
    assert recorder.lost > 0
    assert sum(entry["value"]["calls"] for entry in told) == recorder.lost
    assert len(entries(path)) == 2 * (5000 - recorder.lost)


def test_a_full_disk_leaves_whole_lines_and_does_not_disturb_the_application(tmp_path: Path) -> None:
    """A file size limit is like a full disk: a write stops in the middle of a line."""
    path = tmp_path / "recordings"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert len(entries(path)) > 100


FULL = """
import resource, signal, sys
from harness.record import Recorder
from tests.record.test_recorder import Plain

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_001, 100_001))
recorder = Recorder(sys.argv[1])
lock = recorder.wrap(Plain(*[True] * 10**4), "orders")
for _ in range(10**4):
    lock.acquire()
recorder.close()
print(recorder.error)
"""


def test_a_file_that_cannot_be_written_does_not_disturb_the_application(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    recorder = Recorder(tmp_path / "file" / "recordings")
    lock = recorder.wrap(Plain(True, None), "orders")
    assert lock.acquire() is True
    recorder.close()
    assert lock.release() is None
    assert "Not a directory" in recorder.error
    assert recorder.lost == 1


def test_entries_go_to_a_socket(tmp_path: Path) -> None:
    address = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen()
        recorder = Recorder(f"unix:{address}")
        recorder.wrap(Plain(True), "orders").acquire()
        connection, _ = listener.accept()
        recorder.close()
        with connection, connection.makefile("rb") as received:
            found = [json.loads(line) for line in received]
    assert [line["type"] for line in found if line["process"] >= 0] == ["invoke", "ok"]
    assert (found[0]["f"], found[-1]["f"]) == ("start", "stop")


def test_a_closed_socket_does_not_disturb_the_application(tmp_path: Path) -> None:
    address = str(tmp_path / "s")
    recorder = Recorder(f"unix:{address}")
    lock = recorder.wrap(Plain(*[True] * 10**6), "orders")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen()
        lock.acquire()
        listener.accept()[0].close()
    while not recorder.error:
        assert lock.acquire() is True
    assert "Broken pipe" in recorder.error


KILLED = """
import sys, time
from harness.record import Recorder
from tests.record.test_recorder import Plain

lock = Recorder(sys.argv[1]).wrap(Plain(*[True] * 10**6), "orders")
while True:
    lock.acquire()
    print("acquired", flush=True)
    time.sleep(0.01)
"""


def test_a_killed_application_leaves_a_readable_file(tmp_path: Path) -> None:
    path = tmp_path / "recordings"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while len(entries(path)) <= 10:
            assert process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    assert len(entries(path)) > 10
    assert lines(path)[-1]["f"] != "stop"


def test_a_child_process_has_a_recording_of_its_own(tmp_path: Path) -> None:
    """Also if the lock was wrapped before the fork, it stands for two holders then."""
    path = tmp_path / "recordings"
    recorder = Recorder(path)
    lock = recorder.wrap(Plain(True, True), "orders")
    lock.acquire()
    child = os.fork()
    if child == 0:
        lock.acquire()
        recorder.close()
        os._exit(0)
    os.waitpid(child, 0)
    recorder.close()
    assert len(list(path.iterdir())) == 2
    assert len({entry["node"] for entry in entries(path)}) == 2


def test_locks_that_a_decorated_function_makes_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "recordings"
    recorder = Recorder(path)

    @recorder.wrap_returned(lambda lock: f"key {lock.answers[0]}", valid_for=lambda _lock, answer: answer)
    def make(answer: float) -> Plain:
        return Plain(answer)

    assert make(1.5).acquire() == 1.5
    recorder.close()
    (_, done) = entries(path)
    assert (done["key"], done["value"]["valid_for"]) == ("key 1.5", 1.5)


def test_an_option_that_raises_makes_the_outcome_unknown(tmp_path: Path) -> None:
    path = tmp_path / "recordings"
    recorder = Recorder(path)
    assert recorder.wrap(Plain(True), "orders", fence=lambda lock, _answer: lock.missing).acquire() is True
    recorder.close()
    assert outcomes(path) == [("acquire", "info")]


def test_the_recorder_loads_nothing_else_of_harness() -> None:
    code = "import sys, harness.record; print(*(name for name in sys.modules if name.startswith('harness')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name for name in done.stdout.split() if not name.startswith("harness.record")} == {"harness"}
