"""The protected resource: a store that is never faulted, numbers each access it accepts, and can check fencing tokens.

It speaks newline JSON over TCP. :class:`Resource` is the store itself, :class:`ResourceClient` what clients use.
"""

from __future__ import annotations

import socket
from typing import Any, Final, Literal

import msgspec

Token = int | str | None
STALE: Final = "stale fence"
NOT_LAST: Final = "not the last token"
CHANGED: Final = "the version has changed"
ANSWER_S: Final = 60.0
"""A client waits this long for a connection to the resource, and for each answer."""


class Request(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Request of a client.

    ``op`` is ``read``, ``write`` (sets ``value``), ``cas`` (sets ``value`` if the register still has this ``version``),
    ``take`` (sells one unit unconditionally) or ``mark`` (adds one unconditionally). ``shared`` is True if the client
    holds the lock shared.
    """

    op: Literal["read", "write", "cas", "take", "mark"]
    key: str
    fence: Token = None
    value: Any = None
    version: int = 0
    shared: bool = False


class ResourceReply(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Answer of the resource.

    ``arrival`` numbers accepted accesses; a rejected one has ``error`` and no number. ``version`` is the number of
    changes of the register.
    """

    value: Any = None
    arrival: int = -1
    version: int = 0
    error: str | None = None


class Resource:
    """Registers by name, which start at 0 or at ``stock[name]``.

    ``fencing`` is ``on``, ``cas`` or ``off``. ``on`` rejects an integer token lower than the highest seen for the key
    (Kleppmann 2016); a ``shared`` access is compared with the highest token of exclusive accesses only, since readers
    come in any order. ``cas`` lets a ``read`` claim the key for its token and rejects other tokens until the next
    ``read`` (antirez 2016, for tokens without an order). ``off`` accepts everything.
    """

    def __init__(self, fencing: str, stock: dict[str, Any]) -> None:
        self._fencing = fencing
        self._values: dict[str, Any] = dict(stock)
        self._versions: dict[str, int] = {}
        self._highest: dict[str, int] = {}
        self._exclusive: dict[str, int] = {}
        self._last: dict[str, Token] = {}
        self._arrivals = 0
        self._decode = msgspec.json.Decoder(Request).decode
        self._encode = msgspec.json.Encoder().encode

    def answer(self, line: bytes) -> bytes:
        """Return the reply to a request, both as JSON without the newline."""
        return self._encode(self.apply(self._decode(line)))

    def apply(self, request: Request) -> ResourceReply:
        error = self._refusal(request)
        if error is not None:
            return ResourceReply(error=error)
        arrival, self._arrivals = self._arrivals, self._arrivals + 1
        value, version = self._values.get(request.key, 0), self._versions.get(request.key, 0)
        if request.op in ("write", "cas"):
            value = request.value
        elif request.op == "take":
            value -= 1
        elif request.op == "mark":
            value += 1
        if request.op != "read":
            version += 1
        self._values[request.key], self._versions[request.key] = value, version
        return ResourceReply(value=value, arrival=arrival, version=version)

    def _refusal(self, request: Request) -> str | None:
        fence, key = request.fence, request.key
        if request.op == "cas" and request.version != self._versions.get(key, 0):
            return CHANGED
        if self._fencing == "on" and isinstance(fence, int):
            if fence < (self._exclusive if request.shared else self._highest).get(key, fence):
                return STALE
            self._highest[key] = max(fence, self._highest.get(key, fence))
            if not request.shared:
                self._exclusive[key] = fence
        if self._fencing == "cas":
            if request.op == "read":
                self._last[key] = fence
            elif self._last.get(key) != fence:
                return NOT_LAST
        return None


class Rejected(Exception):
    """The resource refused an access; the message says why."""


class ResourceClient:
    """Connection to the resource, made on first use. A lost answer raises OSError: the access may have taken effect."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(ResourceReply).decode

    def call(self, request: Request) -> ResourceReply:
        """Send one request; raises :class:`Rejected` if the resource rejected it."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, ANSWER_S)
        try:
            self._socket.sendall(self._encode(request) + b"\n")
            line = self._line(self._socket)
        except OSError:
            self.close()
            raise
        reply = self._decode(line)
        if reply.error is not None:
            raise Rejected(reply.error)
        return reply

    def _line(self, sock: socket.socket) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            data = sock.recv(65536)
            if not data:
                raise ConnectionResetError("the resource closed the connection")
            line += data
        return line

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
