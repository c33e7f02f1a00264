"""Real servers as processes: start, readiness, pause, kill, restart with and without data, end with the parent."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import EnvironmentLacking
from harness.fidelity.processes import Place, ServerProcess, free_ports, missing_program, program_path

SERVER = """
import pathlib, socket, sys
file = pathlib.Path("counter")
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    connection, _ = server.accept()
    with connection:
        if connection.recv(1) == b"+":
            file.write_text(str(int(file.read_text() if file.exists() else 0) + 1))
            connection.sendall(file.read_text().encode())
"""
"""Counts the connections that send "+", and keeps the number in its folder."""


def command(place: Place) -> list[str]:
    return [sys.executable, "-c", SERVER, str(place.ports[0])]


def count(process: ServerProcess, timeout: float = 60) -> str:
    with socket.create_connection(process.place.address, timeout=timeout) as connection:
        connection.sendall(b"+")
        return connection.recv(100).decode()


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with ServerProcess("counter", command) as process:
        yield process


def test_server_is_ready_after_start(server: ServerProcess) -> None:
    assert [count(server), count(server)] == ["1", "2"]


def test_restart_keeps_the_data_and_the_port(server: ServerProcess) -> None:
    count(server)
    address = server.place.address
    server.restart(with_data=True)
    assert server.place.address == address
    assert count(server) == "2"


def test_restart_without_data_starts_from_an_empty_folder(server: ServerProcess) -> None:
    count(server)
    server.restart(with_data=False)
    assert count(server) == "1"


def test_paused_server_answers_after_it_resumes(server: ServerProcess) -> None:
    server.pause()
    with socket.create_connection(server.place.address) as connection:
        connection.sendall(b"+")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        server.resume()
        connection.settimeout(60)
        assert connection.recv(100) == b"1"


@pytest.mark.parametrize("paused", [False, True])
def test_stopped_server_has_no_process(server: ServerProcess, paused: bool) -> None:
    pid = server.pid
    assert pid is not None
    if paused:
        server.pause()
    server.stop()
    assert server.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    server.start()
    assert count(server) == "1"


def test_killed_server_cannot_be_paused(server: ServerProcess) -> None:
    server.kill()
    server.kill()
    with pytest.raises(RuntimeError, match="does not run"):
        server.pause()


def test_data_of_a_running_server_cannot_be_lost(server: ServerProcess) -> None:
    with pytest.raises(RuntimeError, match="still uses"):
        server.lose_data()
    with pytest.raises(RuntimeError, match="runs already"):
        server.start()


def test_folder_is_removed_at_the_end() -> None:
    with ServerProcess("counter", command) as process:
        folder = process.place.folder
        assert folder.is_dir()
    assert not folder.parent.exists()


def test_prepare_runs_on_each_empty_folder() -> None:
    def prepare(place: Place) -> None:
        (place.folder / "counter").write_text("40")

    with ServerProcess("counter", command, prepare=prepare, ports=2) as process:
        assert len(set(process.place.ports)) == 2
        assert count(process) == "41"
        process.restart(with_data=True)
        assert count(process) == "42"
        process.restart(with_data=False)
        assert count(process) == "41"


def test_server_that_ends_at_once_is_an_error_with_its_last_words() -> None:
    def broken(place: Place) -> list[str]:
        return [sys.executable, "-c", "raise SystemExit('no such option')"]

    with (
        pytest.raises(EnvironmentLacking, match="status 1 before it was ready: no such option"),
        ServerProcess("broken", broken),
    ):
        pass


def test_environment_is_added() -> None:
    def shows(place: Place) -> list[str]:
        return [
            sys.executable,
            "-c",
            "import os; raise SystemExit(os.environ['HARNESS_X'] + str('PATH' in os.environ))",
        ]

    with pytest.raises(EnvironmentLacking, match="yTrue"), ServerProcess("x", shows, environment={"HARNESS_X": "y"}):
        pass


def test_server_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from harness.fidelity.processes import ServerProcess\n"
        "from tests.fidelity.test_processes import command\n"
        "with ServerProcess('counter', command) as process:\n"
        "    print(process.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    while _runs(pid):
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    """Return False also for a process that ended and whose status nobody has asked for."""
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def test_missing_program_says_how_to_install_it() -> None:
    assert missing_program("sh", "dash") == ""
    assert missing_program("no-such-server", "the-package") == (
        "no-such-server is not installed: apt-get install the-package"
    )
    assert program_path("sh").endswith("/sh")
    with pytest.raises(EnvironmentLacking, match="no-such-server"):
        program_path("no-such-server")


def test_free_ports_differ() -> None:
    assert len(set(free_ports(5))) == 5
