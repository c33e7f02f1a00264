"""Recorded traffic of a PostgreSQL as requests and replies.

A request is a simple query, or the messages of an extended query up to its Sync; its reply ends with ReadyForQuery.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from harness.sim.servers.postgres import protocol

from .messages import Reply, Request, Unreadable
from .postgres_answers import AnswerReader

STARTUP: Final = b"startup"
CANCEL: Final = b"cancel"
ENCRYPTION: Final = b"encryption"
END: Final = b"end"
"""First words of requests that are no queries."""
_ENDS: Final = "QSX"
"""Messages that end a request."""
_MOST: Final = 1 << 24


class PostgresParser:
    """A :class:`~harness.protocols.messages.Parser`."""

    def __init__(self) -> None:
        self._in = self._out = b""
        self._waiting: list[Request] = []
        self._started = False
        self._arrived_ns = 0
        """Time at which the first byte of the next request arrived."""
        self._parsed: dict[str, bytes] = {}
        """Texts of prepared statements by name."""

    def requests(self, time_ns: int, data: bytes) -> Sequence[Request]:
        if not self._in:
            self._arrived_ns = time_ns
        self._in += data
        found = []
        while (request := self._next()) is not None:
            found.append(request)
            self._arrived_ns = time_ns
        self._waiting += [one for one in found if one.words[0] not in (CANCEL, END)]
        return found

    def _next(self) -> Request | None:
        if self._started:
            return self._query()
        first, rest = protocol.split_startup(self._in)
        if first is None:
            return None
        data, self._in = self._in[: len(self._in) - len(rest)], rest
        (code,) = struct.unpack_from(">i", first)
        name = {protocol.SSL: ENCRYPTION, protocol.GSS: ENCRYPTION, protocol.CANCEL: CANCEL}.get(code, STARTUP)
        self._started = name == STARTUP
        return Request(self._arrived_ns, (name,), data)

    def _query(self) -> Request | None:
        at = 0
        texts: list[bytes] = []
        while len(self._in) - at >= 5:
            kind = chr(self._in[at])
            (size,) = struct.unpack_from(">i", self._in, at + 1)
            if not 4 <= size < _MOST:
                raise Unreadable("not a message of PostgreSQL")
            end = at + 1 + size
            if len(self._in) < end:
                return None
            texts += self._texts(kind, self._in[at + 5 : end])
            at = end
            if kind in _ENDS:
                data, self._in = self._in[:at], self._in[at:]
                return Request(self._arrived_ns, (END,) if kind == "X" else (b"query", *texts), data)
        return None

    def _texts(self, kind: str, body: bytes) -> Iterator[bytes]:
        """Yield the text of the statement that a message is about."""
        if kind == "Q":
            yield body.rstrip(b"\0")
        elif kind == "P":
            name, text, _ = body.split(b"\0", 2)
            self._parsed[name.decode()] = text
            yield text
        elif kind == "D" and body[:1] == b"S":
            yield self._parsed.get(body[1:-1].decode(), b"")
        elif kind == "B":
            yield self._parsed.get(protocol.texts(body, 2)[0][1], b"")

    def replies(self, time_ns: int, data: bytes) -> Sequence[Reply]:
        self._out += data
        found = []
        while self._waiting and (size := reply_size(self._waiting[0], self._out)):
            request = self._waiting.pop(0)
            request.replied_ns = time_ns
            found.append(Reply(time_ns, self._out[:size], time_ns, request))
            self._out = self._out[size:]
        return found


def reply_size(request: Request, data: bytes) -> int:
    """Return the size of the first reply, which is one to ``request``; 0 if it is incomplete."""
    if request.words[0] == ENCRYPTION:
        return min(1, len(data))
    at = 0
    while len(data) - at >= 5:
        kind = data[at : at + 1]
        at += 1 + int(struct.unpack_from(">i", data, at + 1)[0])
        if len(data) < at:
            break
        if kind == b"Z" or (kind == b"E" and b"SFATAL\0" in data[:at]):
            return at
    return 0


def answer(data: bytes) -> str:
    """Return a reply as text; two replies with the same text mean the same to a client."""
    reader = AnswerReader()
    reader.add(data)
    found = reader.take()
    return reader.rest() if found is None else found


def identity(data: bytes) -> tuple[int, int]:
    """Return the process id and the key of a session in the answer to its startup, zeros if it was refused."""
    reader = AnswerReader()
    reader.add(data)
    return reader.pid, reader.secret
