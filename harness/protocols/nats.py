"""Recorded traffic of a NATS server as requests and replies.

A request that names a subject for its reply is answered by the message with that subject, and PING by PONG. The
server's other messages answer nothing; so does +OK, which it sends only to clients that ask for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .messages import Reply, Request, Unreadable

_SIZED: Final = {b"PUB": (3, 4), b"HPUB": (4, 5), b"MSG": (4, 5), b"HMSG": (5, 6)}
"""Numbers of words of commands that are followed by data, without and with a subject for the reply. The last word is
the size of the data, with the headers of ``H...``."""
_COMMANDS: Final = frozenset({*_SIZED, b"CONNECT", b"INFO", b"SUB", b"UNSUB", b"PING", b"PONG", b"+OK", b"-ERR"})
_LINE: Final = b"\r\n"
_LONGEST: Final = 1 << 20
"""Bytes of a line; INFO and CONNECT are the longest."""


class NatsParser:
    """A :class:`~harness.protocols.messages.Parser`."""

    def __init__(self) -> None:
        self._in = self._out = b""
        self._pings: list[Request] = []
        self._waiting: dict[bytes, Request] = {}
        """Requests without a reply, by the subjects of their replies."""

    def requests(self, time_ns: int, data: bytes) -> Sequence[Request]:
        messages, self._in = _messages(self._in + data)
        found = []
        for message in messages:
            words, contents = split(message)
            request = Request(time_ns, words, contents)
            if words[0] == b"PING":
                self._pings.append(request)
            elif len(words) == _SIZED.get(words[0], (0, 0))[1]:
                self._waiting[words[2]] = request
            found.append(request)
        return found

    def replies(self, time_ns: int, data: bytes) -> Sequence[Reply]:
        messages, self._out = _messages(self._out + data)
        found = [Reply(time_ns, one, time_ns, self._answered(split(one)[0])) for one in messages]
        for one in found:
            if one.request is not None:
                one.request.replied_ns = time_ns
        return found

    def _answered(self, words: tuple[bytes, ...]) -> Request | None:
        if words[0] == b"PONG" and self._pings:
            return self._pings.pop(0)
        return self._waiting.pop(words[1], None) if words[0] in _SIZED else None


def split(message: bytes) -> tuple[tuple[bytes, ...], bytes]:
    """Return the words of a message's line, its command in upper case, and the data after the line."""
    line, _, contents = message.partition(_LINE)
    command, *rest = line.split(None, 1)
    sized = command.upper() in _SIZED
    return (command.upper(), *(b"".join(rest).split() if sized else rest)), contents.removesuffix(_LINE)


def contents_of(words: Sequence[bytes], data: bytes) -> bytes:
    """Return the data of a message as one line: its status and headers in brackets, then its payload."""
    if words[0] not in (b"HPUB", b"HMSG"):
        return data
    end = int(words[-2])
    first, *lines = data[:end].split(_LINE)
    status = first.partition(b" ")[2]
    return b"[%b] %b" % (b"; ".join(line for line in (status, *lines) if line), data[end:])


def shown(words: Sequence[bytes], data: bytes) -> bytes:
    """Return a message as one line, without its sizes."""
    sizes = {b"PUB": 1, b"MSG": 1, b"HPUB": 2, b"HMSG": 2}.get(words[0], 0)
    return b" ".join([*words[: len(words) - sizes], *([contents_of(words, data)] if sizes else [])])


def _messages(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the complete messages in the data, and the rest."""
    found, at = [], 0
    while (end := data.find(_LINE, at)) >= 0:
        end += len(_LINE) + _data_size(data[at:end].split())
        if end > len(data):
            break
        found.append(data[at:end])
        at = end
    else:
        if len(data) - at > _LONGEST:
            raise Unreadable("not a message of NATS")
    return found, data[at:]


def _data_size(words: Sequence[bytes]) -> int:
    """Return the number of bytes that follow a line of these words."""
    command = words[0].upper() if words else b""
    if command not in _COMMANDS:
        raise Unreadable("not a message of NATS")
    if command not in _SIZED:
        return 0
    if len(words) not in _SIZED[command] or not words[-1].isdigit():
        raise Unreadable("not a message of NATS")
    return int(words[-1]) + len(_LINE)
