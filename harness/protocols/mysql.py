"""Recorded traffic of a MySQL as requests and replies of the text protocol.

The server speaks first: its greeting, with the id and the salt of the connection, becomes part of the login. A reply is
text, which is the same for two replies that mean the same to a client: rows without the descriptions of their columns,
and the text of an error only if it names a duplicate key.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import dropwhile
from typing import Final, NamedTuple

from harness.sim.servers.mysql import protocol
from harness.sim.servers.mysql.errors import DUPLICATE

from .messages import Reply, Request, Unreadable

LOGIN: Final = b"login"
QUERY: Final = b"query"
QUIT: Final = b"quit"
_COMMANDS: Final = {
    protocol.COM_QUERY: QUERY, protocol.COM_QUIT: QUIT, protocol.COM_INIT_DB: b"init db", protocol.COM_PING: b"ping",
    protocol.COM_RESET_CONNECTION: b"reset",
}  # fmt: skip
"""First words of requests."""
COMMANDS: Final = frozenset({LOGIN, *_COMMANDS.values()})
_OK, _END, _ERROR = 0x00, 0xFE, 0xFF
_NULL: Final = 0xFB
_MORE_PROOF, _OTHER_PROOF = b"\x01", b"\xfe"
"""First bytes of a server's packets between a login and its reply: MySQL's caching_sha2_password sends the former."""
_MORE: Final = 1 << 3
"""Status: another result follows."""
_DEPRECATE_EOF: Final = 1 << 24
_SHORTEST_LOGIN: Final = 33
_HEADERS: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}
"""Sizes of length-encoded integers by their first byte."""


class Greeting(NamedTuple):
    """What the server says of a new connection: its id, and the salt for the proof of the password."""

    number: int
    salt: bytes


def greeting(payload: bytes) -> Greeting:
    """Decode the first packet of a server, for a handshake of version 10."""
    at = payload.index(b"\0") + 1
    (number,) = struct.unpack_from("<I", payload, at)
    return Greeting(number, payload[at + 4 : at + 12] + payload[at + 31 : at + 43])


class MysqlParser:
    """A :class:`~harness.protocols.messages.Parser`.

    The words of a login are its user, and the id and the salt of the connection.
    """

    def __init__(self) -> None:
        self._in = self._out = b""
        self._packets: list[bytes] = []
        self._waiting: list[Request] = []
        self._greeting: Greeting | None = None
        self._logged_in = self._unknown = False
        """``_unknown`` after a command whose reply has a form that is not known."""
        self._deprecate_eof = False
        self._arrived_ns = 0
        """Time at which the first byte of the next request arrived."""

    def requests(self, time_ns: int, data: bytes) -> Sequence[Request]:
        if not self._in:
            self._arrived_ns = time_ns
        packets, self._in = protocol.split(self._in + data)
        found = []
        for sequence, payload in packets:
            if self._logged_in and sequence:
                continue  # belongs to the login: a command begins with 0
            words = self._words(payload)
            found.append(Request(self._arrived_ns, words, protocol.frame(payload, sequence)))
            self._arrived_ns = time_ns
        self._waiting += [one for one in found if one.words[0] != QUIT]
        return found

    def _words(self, payload: bytes) -> tuple[bytes, ...]:
        if not payload or self._greeting is None:
            raise Unreadable("not a request of MySQL")
        if not self._logged_in:
            if len(payload) < _SHORTEST_LOGIN or b"\0" not in payload[32:]:
                raise Unreadable("not a login of MySQL, or an encrypted one")
            self._logged_in = True
            self._deprecate_eof = bool(struct.unpack_from("<I", payload)[0] & _DEPRECATE_EOF)
            number, salt = self._greeting
            return LOGIN, protocol.login(payload).user.encode(), b"%d" % number, salt
        command = _COMMANDS.get(payload[0], b"command %d" % payload[0])
        self._unknown |= command not in COMMANDS
        return (command, payload[1:]) if payload[1:] else (command,)

    def replies(self, time_ns: int, data: bytes) -> Sequence[Reply]:
        packets, self._out = protocol.split(self._out + data)
        self._packets += [payload for _, payload in packets]
        try:
            return self._replies(time_ns)
        except (IndexError, ValueError, struct.error):
            raise Unreadable("not a reply of MySQL") from None

    def _replies(self, time_ns: int) -> Sequence[Reply]:
        if self._greeting is None and self._packets:
            first = self._packets.pop(0)
            self._greeting = greeting(first) if first[:1] == b"\x0a" else None
        found = []
        while self._waiting and not self._unknown:
            if self._waiting[0].words[0] == LOGIN:
                self._packets = list(dropwhile(_is_about_password, self._packets))
            text, size = read_answer(self._packets, deprecate_eof=self._deprecate_eof)
            if not size:
                break
            del self._packets[:size]
            request = self._waiting.pop(0)
            request.replied_ns = time_ns
            found.append(Reply(time_ns, text.encode(), time_ns, request))
        return found


def read_answer(packets: Sequence[bytes], *, deprecate_eof: bool = False) -> tuple[str, int]:
    """Return the first reply in payloads of packets as text, and the number of its packets, 0 if it is incomplete.

    With ``deprecate_eof`` the descriptions of columns have no end, and rows end with an OK packet.
    """
    texts: list[str] = []
    at = 0
    while at < len(packets):
        kind = packets[at][0]
        if kind in (_OK, _ERROR):
            text, more = _ok(packets[at][1:]) if kind == _OK else (_error(packets[at]), False)
            at += 1
        else:
            columns, _ = _integer(packets[at], 0)
            first = at + 1 + columns + (not deprecate_eof)
            end = next((n for n in range(first, len(packets)) if _is_end(packets[n])), None)
            if end is None:
                break
            text, more = _result(packets[first:end], packets[end], deprecate_eof=deprecate_eof)
            at = end + 1
        texts.append(text)
        if not more:
            return "; ".join(texts), at
    return "", 0


def _is_about_password(payload: bytes) -> bool:
    """Return whether a server's payload during a login asks for, or accepts, another proof of the password."""
    return payload[:1] in (_MORE_PROOF, _OTHER_PROOF)


def _is_end(payload: bytes) -> bool:
    """Return whether the payload ends the rows: one of a row only begins with such a byte if it is very long."""
    return payload[0] in (_END, _ERROR) and len(payload) < 1 << 23


def _ok(body: bytes) -> tuple[str, bool]:
    affected, at = _integer(body, 0)
    insert_id, at = _integer(body, at)
    (status,) = struct.unpack_from("<H", body, at)
    return f"OK, rows {affected}, id {insert_id}{_status(status)}", bool(status & _MORE)


def _error(payload: bytes) -> str:
    (number,) = struct.unpack_from("<H", payload, 1)
    text = payload[9:].decode(errors="replace") if number == DUPLICATE else ""
    return f"ERROR {number} {payload[4:9].decode(errors='replace')} {text}".rstrip()


def _result(rows: Sequence[bytes], end: bytes, *, deprecate_eof: bool) -> tuple[str, bool]:
    shown = ", ".join(map(_row, rows))
    if end[0] == _ERROR:
        return f"rows {shown}, {_error(end)}", False
    at = 3
    if deprecate_eof:
        _, at = _integer(end, _integer(end, 1)[1])
    (status,) = struct.unpack_from("<H", end, at)
    return f"rows [{shown}]{_status(status)}", bool(status & _MORE)


def _row(payload: bytes) -> str:
    cells, at = [], 0
    while at < len(payload):
        if payload[at] == _NULL:
            cells.append("NULL")
            at += 1
            continue
        size, at = _integer(payload, at)
        cells.append(repr(payload[at : at + size])[1:])
        at += size
    return f"({', '.join(cells)})"


def _status(status: int) -> str:
    """Return what a client may see of the session's transaction."""
    shown = [name for flag, name in _FLAGS.items() if status & flag]
    return f" ({', '.join(shown)})" if shown else ""


_FLAGS: Final = {protocol.AUTOCOMMIT: "autocommit", protocol.IN_TRANSACTION: "in a transaction"}


def _integer(data: bytes, at: int) -> tuple[int, int]:
    """Decode a length-encoded integer; return it and the place behind it."""
    size = _HEADERS.get(data[at])
    if size is None:
        return data[at], at + 1
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
