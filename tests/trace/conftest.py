"""A log of this process's sockets, and a server that they may be connected to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from harness.worker.socket_log import SocketLog


@pytest.fixture
def log() -> Iterator[SocketLog]:
    found = SocketLog(["127.0.0.1"], lambda entries: pytest.fail(f"{len(entries)} entries were not taken"))
    found.install()
    yield found
    found.uninstall()
    assert "send" not in vars(socket.socket)


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    """Answers each line with the line in capitals."""

    def answer(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                connection.send(line.upper())

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return  # the test is over
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
