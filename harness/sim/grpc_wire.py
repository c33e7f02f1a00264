"""The wire format of simulated gRPC, which replaces HTTP/2, and the server side of it.

It carries what gRPC carries: the method's path, serialized messages, the end of each side's messages, cancellation and
the status. Not simulated: HTTP/2's windows, header compression, GOAWAY and stream limits.

A frame is its length (4 bytes, big endian), its kind (1 byte), the call's number on the connection (4 bytes) and a
body::

    HELLO    both    opens the connection, as HTTP/2's preface and SETTINGS do; the client waits for the server's
    OPEN     client  path, a zero byte: opens a call without a message
    REQUEST  client  path, a zero byte, one message; opens the call if it is not open
    END      client  path, a zero byte: no more messages
    CANCEL   client  the client gives the call up
    MESSAGE  server  one message
    STATUS   server  code (1 byte) and details in UTF-8: ends the call
    PING     client  keep-alive, if enabled; answered with PONG

OPEN, REQUEST and END repeat the method's path, so that :func:`requests` can read any piece of a stream on its own.
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
    """Encode one frame; ``call`` is the call's number."""
    return _HEAD.pack(len(body) + 5, kind, call) + body


def request(kind: int, call: int, path: str, message: bytes = b"") -> bytes:
    """Encode an OPEN, REQUEST or END frame."""
    return frame(kind, call, path.encode() + b"\0" + message)


def split(data: bytes) -> tuple[list[tuple[int, int, bytes]], bytes]:
    """Return the complete frames (kind, call, body) at the start of ``data``, and the remaining bytes."""
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
    """Return the method paths of the requests in one piece of data that a client sends."""
    for kind, _, body in split(data)[0]:
        if kind == REQUEST:
            yield body[: body.index(b"\0")].decode()


class StatusError(Exception):
    """Raised by a server's method to end a call with a gRPC status other than OK."""

    def __init__(self, code: int, details: str) -> None:
        super().__init__(code, details)
        self.code = code
        self.details = details


class ServerCall:
    """The server's end of one call.

    ``handler`` handles its messages; None if the method is unknown. ``open`` turns False when the status is sent, the
    client cancels, or the connection breaks.
    """

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
        """Send one response; does nothing if the call is not open."""
        if self.open:
            self._conn.send(frame(MESSAGE, self._number, message))

    def end(self, code: int = OK, details: str = "") -> None:
        """Send the status, which ends the call."""
        if self.open:
            self.open = False
            self._conn.session.calls.pop(self._number, None)
            self._conn.send(frame(STATUS, self._number, bytes((code,)) + details.encode()))

    def answer(self, message: bytes) -> None:
        """Send the only response of a unary call and the status OK in one packet."""
        if self.open:
            self.open = False
            self._conn.session.calls.pop(self._number, None)
            self._conn.send(frame(MESSAGE, self._number, message) + frame(STATUS, self._number, b"\0"))


class MethodHandler(Protocol):
    """A server's method.

    It is called for each message of a call, for the end of the messages (``ended``), and when the client cancels the
    call or the connection breaks (``dropped``).
    """

    def message(self, call: ServerCall, data: bytes) -> None:
        """Handle one request of a call."""

    def ended(self, call: ServerCall) -> None:
        """Handle the end of a call's requests."""

    def dropped(self, call: ServerCall) -> None:
        """Handle a call that the client cancelled or whose connection broke."""


class _ConnectionState:
    __slots__ = ("calls", "input", "latest")

    def __init__(self) -> None:
        self.input = b""
        self.calls: dict[int, ServerCall] = {}
        self.latest = 0


class GrpcServer:
    """The gRPC layer of a simulated service: decodes calls from its connections. ``find`` maps a path to its method."""

    def __init__(self, find: Callable[[str], MethodHandler | None]) -> None:
        self._find = find

    def opened(self, conn: Conn) -> None:
        conn.session = _ConnectionState()

    def received(self, conn: Conn, data: bytes) -> None:
        session: _ConnectionState = conn.session
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
                self._handle_call_frame(conn, kind, number, body)

    def _handle_call_frame(self, conn: Conn, kind: int, number: int, body: bytes) -> None:
        session: _ConnectionState = conn.session
        name, _, message = body.partition(b"\0")
        call = session.calls.get(number)
        if call is None:
            if number <= session.latest:  # the call has ended
                return
            session.latest = number
            call = session.calls[number] = ServerCall(conn, number, name.decode())
            call.handler = self._find(call.path)
        if call.handler is None:
            call.end(UNIMPLEMENTED, f"unknown method {call.path}")
        elif kind == REQUEST:
            call.handler.message(call, message)
        elif kind == END:
            call.handler.ended(call)

    def closed(self, conn: Conn) -> None:
        session: _ConnectionState = conn.session
        for call in list(session.calls.values()):
            self._drop(call)
        session.calls.clear()

    def _drop(self, call: ServerCall) -> None:
        if call.open:
            call.open = False
            if call.handler is not None:
                call.handler.dropped(call)
