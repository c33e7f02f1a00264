"""Real Redis servers on the loopback, for the tests that compare the simulator with the real thing. A machine without
redis-server fails them: ``.ci/setup`` installs it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

Address = tuple[str, int]
LOOPBACK = "127.0.0.1"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _ask(port: int, command: str) -> str:
    with socket.create_connection((LOOPBACK, port), timeout=1) as sock:
        sock.sendall(command.encode() + b"\r\n")
        return sock.recv(65536).decode()


def _wait(port: int, command: str, *wanted: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            answer = _ask(port, command)
        except OSError as error:
            answer = str(error)
        if all(word in answer for word in wanted):
            return
        assert time.monotonic() < deadline, f"redis on port {port}: {command} never said {wanted}: {answer}"
        time.sleep(0.05)


@contextmanager
def _redis(folder: Path, *options: str) -> Iterator[int]:
    """A redis-server of our own; yields its port."""
    program = shutil.which("redis-server")
    assert program, "these tests need redis-server: run .ci/setup"
    port = _free_port()
    home = folder / str(port)
    home.mkdir()
    basics = ["--port", str(port), "--bind", LOOPBACK, "--dir", str(home), "--save", ""]
    with subprocess.Popen([program, *options, *basics], stdout=subprocess.DEVNULL) as process:
        try:
            _wait(port, "PING", "PONG")
            yield port
        finally:
            process.kill()


@pytest.fixture(scope="session")
def real_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, ...]]:
    """Five independent servers."""
    folder = tmp_path_factory.mktemp("redis")
    with ExitStack() as stack:
        yield tuple((LOOPBACK, stack.enter_context(_redis(folder))) for _ in range(5))


@pytest.fixture(scope="session")
def real_sentinel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, ...]]:
    """A sentinel that watches a primary with two replicas."""
    folder = tmp_path_factory.mktemp("sentinel")
    with ExitStack() as stack:
        primary = stack.enter_context(_redis(folder))
        behind = ("--replicaof", f"{LOOPBACK} {primary}", "--repl-diskless-sync-delay", "0")
        for _ in range(2):
            stack.enter_context(_redis(folder, *behind))
        _wait(primary, "INFO replication", "connected_slaves:2", "slave1:")
        config = folder / "sentinel.conf"
        config.write_text(f"sentinel monitor mymaster {LOOPBACK} {primary} 1\n")
        sentinel = stack.enter_context(_redis(folder, str(config), "--sentinel"))
        _wait(sentinel, "SENTINEL masters", "num-slaves\r\n$1\r\n2")
        yield ((LOOPBACK, sentinel),)
