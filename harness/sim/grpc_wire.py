"""The framing that stands for HTTP/2 under simulated gRPC, and the server's end of it.

Abstracted: HTTP/2's windows, header compression, GOAWAY and stream limits. What is carried is what gRPC carries: the
path of the method, serialized messages, the end of either side's messages, cancellation, and the status. A frame is
its length (4 bytes, big endian), a kind (1), the number of the call on its connection (4), and the rest::

    HELLO    both    what HTTP/2's preface and SETTINGS are: until the server's is there the connection is not used
    OPEN     client  path, a zero byte: a call that may say nothing for long
    REQUEST  client  path, a zero byte, one message; opens a call that is not open
    END      client  path, a zero byte: no more messages
    CANCEL   client  the call is of no interest any more
    MESSAGE  server  one message
    STATUS   server  code (1 byte) and details in UTF-8: the end of the call
    PING     client  answered with PONG (only if keep-alive is asked for)

Every frame of a client names its method, so that who reads along (:func:`requests`) needs no memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from .service import Conn

HELLO, OPEN, REQUEST, END, CANCEL, MESSAGE, STATUS, PING, PONG = range(9)
OK: Final = 0
CANCELLED: Final = 1
UNKNOWN: Final = 2
UNIMPLEMENTED: Final = 12

_HEAD: Final = struct.Struct(">IBI")


def frame(kind: int, call: int = 0, body: bytes = b"") -> bytes:
    return _HEAD.pack(len(body) + 5, kind, call) + body


def request(kind: int, call: int, path: str, message: bytes = b"") -> bytes:
    """An OPEN, a REQUEST or an END."""
    return frame(kind, call, path.encode() + b"\0" + message)


def split(data: bytes) -> tuple[list[tuple[int, int, bytes]], bytes]:
    """The whole frames (kind, call, body) at the start of ``data``, and what is left over."""
    frames, at = [], 0
    while len(data) - at >= _HEAD.size:
        size, kind, call = _HEAD.unpack_from(data, at)
        end = at + 4 + size
        if end > len(data):
            break
        frames.append((kind, call, data[at + _HEAD.size : end]))
        at = end
    return frames, data[at:]


def requests(data: bytes) -> Iterator[str]:
    """The paths of the requests in what a client sends in one piece."""
    for kind, _, body in split(data)[0]:
        if kind == REQUEST:
            yield body[: body.index(b"\0")].decode()


class Failed(Exception):
    """A call ends with a status other than OK."""

    def __init__(self, code: int, details: str) -> None:
        super().__init__(code, details)
        self.code = code
        self.details = details


class Call:
    """The server's end of one call. ``handler`` is what the method's opener returned; ``open`` is false once the
    status has been sent, or nobody waits for it any more."""

    __slots__ = ("_conn", "_number", "handler", "open", "path")

    def __init__(self, conn: Conn, number: int, path: str) -> None:
        self._conn = conn
        self._number = number
        self.path = path
        self.open = True
        self.handler: Any = None

    @property
    def peer(self) -> str:
        return self._conn.peer

    def send(self, message: bytes) -> None:
        if self.open:
            self._conn.send(frame(MESSAGE, self._number, message))

    def end(self, code: int = OK, details: str = "") -> None:
        if self.open:
            self.open = False
            self._conn.session.calls.pop(self._number, None)
            self._conn.send(frame(STATUS, self._number, bytes((code,)) + details.encode()))

    def answer(self, message: bytes) -> None:
        """The one message of a unary call, and its end, in one packet."""
        if self.open:
            self.open = False
            self._conn.session.calls.pop(self._number, None)
            self._conn.send(frame(MESSAGE, self._number, message) + frame(STATUS, self._number, b"\0"))


class Methods(Protocol):
    """What a server does with calls: each is told of its messages, of the end of them, and if it is dropped by the
    client or with its connection."""

    def message(self, call: Call, data: bytes) -> None: ...

    def ended(self, call: Call) -> None: ...

    def dropped(self, call: Call) -> None: ...


class _Session:
    __slots__ = ("calls", "input", "latest")

    def __init__(self) -> None:
        self.input = b""
        self.calls: dict[int, Call] = {}
        self.latest = 0


class Server:
    """Turns a service's connections into calls of its methods, which it finds by path."""

    def __init__(self, find: Callable[[str], Methods | None]) -> None:
        self._find = find

    def opened(self, conn: Conn) -> None:
        conn.session = _Session()

    def received(self, conn: Conn, data: bytes) -> None:
        session: _Session = conn.session
        frames, session.input = split(session.input + data)
        for kind, number, body in frames:
            if kind == HELLO:
                conn.send(frame(HELLO))
            elif kind == PING:
                conn.send(frame(PONG))
            elif kind == CANCEL:
                call = session.calls.pop(number, None)
                if call is not None:
                    self._drop(call)
            else:
                self._part(conn, kind, number, body)

    def _part(self, conn: Conn, kind: int, number: int, body: bytes) -> None:
        session: _Session = conn.session
        name, _, message = body.partition(b"\0")
        call = session.calls.get(number)
        if call is None:
            if number <= session.latest:  # answered already
                return
            session.latest = number
            call = session.calls[number] = Call(conn, number, name.decode())
            call.handler = self._find(call.path)
        if call.handler is None:
            call.end(UNIMPLEMENTED, f"unknown method {call.path}")
        elif kind == REQUEST:
            call.handler.message(call, message)
        elif kind == END:
            call.handler.ended(call)

    def closed(self, conn: Conn) -> None:
        session: _Session = conn.session
        for call in list(session.calls.values()):
            self._drop(call)
        session.calls.clear()

    def _drop(self, call: Call) -> None:
        if call.open:
            call.open = False
            if call.handler is not None:
                call.handler.dropped(call)
