"""A connection to a Redis for the harness itself, in a plain socket and RESP2.

The harness does not use redis-py for its own purposes: the release in this process is the one under test, which may be
ten years old.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

Argument = str | int | bytes
Reply = bytes | int | None | list["Reply"]
CRLF: Final = b"\r\n"
RECEIVED: Final = 1 << 16
"""Most bytes of one read."""


class RedisUnanswered(Exception):
    """The server did not answer, or refused the command."""


class RedisConnection:
    """A connection that sends commands and reads their replies in order; ``answer_s`` is the time limit of a reply. A
    sentinel has no ``database``. With ``login`` (user, which may be empty, and password) it logs in first, and ``tls``
    is for a server with TLS."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        database: int | None,
        answer_s: float,
        login: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._name = f"{host}:{port}"
        self._data = b""
        with self._connecting():
            self._socket = socket.create_connection((host, port), timeout=answer_s)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        try:
            if login is not None:
                self("AUTH", *filter(None, login))
            if database is not None:
                self("SELECT", database)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def __call__(self, *command: Argument) -> Reply:
        """Return the reply to a command. Raises RedisUnanswered, also for an error reply."""
        (reply,) = self.pipeline([command])
        if isinstance(reply, RedisUnanswered):
            raise reply
        return reply

    def pipeline(self, commands: Sequence[Sequence[Argument]]) -> list[Reply | RedisUnanswered]:
        """Send commands at once and return the reply to each, an error reply as an exception that is not raised."""
        with self._exchange():
            self._socket.sendall(b"".join(map(_encode, commands)))
            return [self._reply() for _ in commands]

    def _reply(self) -> Reply | RedisUnanswered:
        line = self._line()
        kind, text = line[:1], line[1:]
        if kind == b"-":
            return RedisUnanswered(text.decode(errors="replace"))
        if kind == b"+":
            return text
        number = int(text)
        if kind == b":":
            return number
        if number < 0:
            return None
        if kind == b"$":
            return self._bytes(number)
        return [reply for _ in range(number) if not isinstance(reply := self._reply(), RedisUnanswered)]

    def _line(self) -> bytes:
        while CRLF not in self._data:
            self._receive()
        line, _, self._data = self._data.partition(CRLF)
        return line

    def _bytes(self, length: int) -> bytes:
        while len(self._data) < length + len(CRLF):
            self._receive()
        found, self._data = self._data[:length], self._data[length + len(CRLF) :]
        return found

    def _receive(self) -> None:
        data = self._socket.recv(RECEIVED)
        if not data:
            raise RedisUnanswered("Connection closed by server.")
        self._data += data

    @contextmanager
    def _connecting(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise RedisUnanswered("Timeout connecting to server") from error
        except ssl.SSLError as error:
            raise RedisUnanswered(f"Error connecting to {self._name}. TLS: {error}") from error
        except OSError as error:
            raise RedisUnanswered(f"Error {error.errno} connecting to {self._name}. {error.strerror}.") from error

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise RedisUnanswered(f"Timeout reading from {self._name}") from error
        except (OSError, ValueError) as error:  # ValueError: what came is no Redis reply
            raise RedisUnanswered(f"Error while reading from {self._name}: {error}") from error


def _encode(command: Sequence[Argument]) -> bytes:
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in command]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
