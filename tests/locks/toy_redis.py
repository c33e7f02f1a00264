"""A toy Redis server that answers EVALSHA and EVAL as a test decides: late, never, or by closing the connection."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable
from io import BufferedIOBase
from typing import Final, cast

ScriptedAnswer = Callable[[str, str], int | None]
"""A function of the script's purpose (``acquire`` or ``release``) and its value, which returns the number to answer, or
None for no answer.

It may raise :class:`CloseConnection`, and may take its time.
"""

INFO: Final = b"redis_version:7.0.15\r\nloading:0\r\n"


class CloseConnection(Exception):
    """Close the connection instead of answering."""


class ToyRedis(socketserver.ThreadingTCPServer):
    """Serves on a free loopback port until :meth:`close`. ``scripts`` are the purposes of the scripts that it
    received."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, scripted_answer: ScriptedAnswer) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.scripted_answer = scripted_answer
        self.scripts: list[str] = []
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
            except CloseConnection:
                return
            self.wfile.write(answer)


def _answer(server: ToyRedis, command: list[bytes]) -> bytes:
    if command[0].lower() == b"info":
        return b"$%d\r\n%s\r\n" % (len(INFO), INFO)
    if command[0].lower() not in (b"eval", b"evalsha"):
        return b"+OK\r\n"
    _, _, _, _, value, *duration = command
    script = "acquire" if duration else "release"
    server.scripts.append(script)
    number = server.scripted_answer(script, value.decode())
    return b"" if number is None else b":%d\r\n" % number


def _command(stream: BufferedIOBase) -> list[bytes]:
    """Read the next command, an array of bulk strings; empty at the end of the stream."""
    head = stream.readline()
    if not head:
        return []
    words = []
    for _ in range(int(head[1:])):
        words.append(stream.read(int(stream.readline()[1:])))
        stream.read(2)
    return words
