"""A server that answers a script's EVALSHA as a test tells it: late, never, or by closing the connection."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable
from io import BufferedIOBase
from typing import Final, cast

Says = Callable[[str, str], int | None]
"""Given what the script is for (``acquire`` or ``release``) and its value: the number to answer, or None: nothing.
It may raise :class:`Closes`, and take its time."""

INFO: Final = b"redis_version:7.0.15\r\nloading:0\r\n"


class Closes(Exception):
    """The connection is closed instead of an answer."""


class ToyRedis(socketserver.ThreadingTCPServer):
    """Serves on a free port of the loopback until :meth:`close`. ``asked`` are the scripts that it was asked for."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, says: Says) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.says = says
        self.asked: list[str] = []
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.socket.getsockname()[1])

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server = cast(ToyRedis, self.server)
        while command := _command(self.rfile):
            try:
                answer = _answer(server, command)
            except Closes:
                return
            self.wfile.write(answer)


def _answer(server: ToyRedis, command: list[bytes]) -> bytes:
    if command[0].lower() == b"info":
        return b"$%d\r\n%s\r\n" % (len(INFO), INFO)
    if command[0].lower() != b"evalsha":
        return b"+OK\r\n"
    _, _, _, _, value, *duration = command
    script = "acquire" if duration else "release"
    server.asked.append(script)
    number = server.says(script, value.decode())
    return b"" if number is None else b":%d\r\n" % number


def _command(stream: BufferedIOBase) -> list[bytes]:
    """The next one, as an array of bulk strings; empty at the end."""
    head = stream.readline()
    if not head:
        return []
    words = []
    for _ in range(int(head[1:])):
        words.append(stream.read(int(stream.readline()[1:])))
        stream.read(2)
    return words
