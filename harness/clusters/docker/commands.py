"""Names of the commands in the data of one connection between a client and a server, as the data passes.

They are the names that the simulator gives them: the command of Redis and memcached, the first keyword of an SQL
statement.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final, Protocol

_LINE: Final = b"\r\n"
_PUSH: Final = b">"
_SUBSCRIPTIONS: Final = frozenset(
    {"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"}
)
_VALUE: Final = re.compile(rb"VALUE \S+ \d+ (\d+)(?: \d+)?\r\n")
_STORING: Final = frozenset({"SET", "ADD", "REPLACE", "APPEND", "PREPEND", "CAS"})
_FETCHING: Final = frozenset({"GET", "GETS", "GAT", "GATS"})
_WORD: Final = re.compile(rb"\s*([A-Za-z]+)")
_QUERY: Final = 3
"""COM_QUERY of MySQL's protocol."""
_TLS: Final = (80877103, 80877104)
"""Codes of PostgreSQL's first messages that ask for encryption and are followed by another first message."""


class CommandReader(Protocol):
    """Follows one connection. Data may be cut anywhere; incomplete commands are completed by later data."""

    def requests(self, data: bytes) -> list[str]:
        """Return the commands that end in this data of the client."""

    def replies(self, data: bytes) -> list[str]:
        """Return the commands whose replies begin in this data of the server."""


class _PipelinedCommands(ABC):
    """A protocol in which a client may send several commands before it reads the replies, which come in order."""

    def __init__(self) -> None:
        self._request = b""
        self._waiting: list[str] = []
        """Commands whose replies have not begun."""
        self._begun = ""
        """The command whose reply has begun and is incomplete."""
        self._reply = b""

    def replies(self, data: bytes) -> list[str]:
        self._reply += data
        found = []
        while self._reply:
            if not self._begun and self._waiting and self._answers():
                self._begun = self._waiting.pop(0)
                found.append(self._begun)
            end = self._end()
            if end is None:
                break
            self._reply, self._begun = self._reply[end:], ""
        return found

    def _answers(self) -> bool:
        """Return whether what the server sent next belongs to a command."""
        return True

    @abstractmethod
    def _end(self) -> int | None:
        """Return the size of what the server sent next; None if it is incomplete."""


class RedisCommands(_PipelinedCommands):
    """RESP2 and RESP3."""

    def requests(self, data: bytes) -> list[str]:
        self._request += data
        found = []
        while (command := _redis_command(self._request)) is not None:
            words, end = command
            self._request = self._request[end:]
            if words:
                name = words[0].decode(errors="replace").upper()
                found.append(name)
                channels = max(1, len(words) - 1) if name in _SUBSCRIPTIONS else 1
                self._waiting += [name] * channels
        return found

    def _answers(self) -> bool:
        return not self._reply.startswith(_PUSH)

    def _end(self) -> int | None:
        return _redis_end(self._reply, 0)


def _redis_command(data: bytes) -> tuple[list[bytes], int] | None:
    """Return the words of the first command and its size; None if it is incomplete."""
    end = data.find(_LINE)
    if end < 0:
        return None
    if not data.startswith(b"*"):
        return data[:end].split(), end + 2
    words, at = [], end + 2
    for _ in range(int(data[1:end])):
        end = data.find(_LINE, at)
        if end < 0:
            return None
        size = int(data[at + 1 : end])
        at = end + 2 + size + 2
        if len(data) < at:
            return None
        words.append(data[end + 2 : end + 2 + size])
    return words, at


def _redis_end(data: bytes, at: int) -> int | None:
    """Return where the reply ends that begins at ``at``; None if it is incomplete."""
    end = data.find(_LINE, at)
    if end < 0:
        return None
    kind, head, at = data[at : at + 1], data[at + 1 : end], end + 2
    if kind in b"$=!":
        at += max(0, int(head) + 2) if int(head) >= 0 else 0
        return at if len(data) >= at else None
    parts = {b"*": 1, b"~": 1, _PUSH: 1, b"%": 2, b"|": 2}.get(kind, 0) * (int(head) if kind in b"*~>%|" else 0)
    for _ in range(parts + (kind == b"|")):  # attributes are followed by the reply that they describe
        inner = _redis_end(data, at)
        if inner is None:
            return None
        at = inner
    return at


class MemcachedCommands(_PipelinedCommands):
    """The text protocol."""

    def requests(self, data: bytes) -> list[str]:
        self._request += data
        found = []
        while end := self._request.find(b"\n") + 1:
            words = self._request[:end].split()
            name = words[0].decode(errors="replace").upper() if words else ""
            if name in _STORING and len(words) > 4 and words[4].isdigit():
                end += int(words[4]) + 2
            if len(self._request) < end:
                break
            self._request = self._request[end:]
            if name:
                found.append(name)
            if name and words[-1] != b"noreply":
                self._waiting.append(name)
        return found

    def _end(self) -> int | None:
        return _memcached_end(self._begun, self._reply) if self._begun else None


def _memcached_end(command: str, data: bytes) -> int | None:
    """Return the size of the first reply, which is one to ``command``; None if it is incomplete."""
    at = 0
    while end := data.find(b"\n", at) + 1:
        line = data[at:end]
        if command in _FETCHING and (value := _VALUE.fullmatch(line)):
            at = end + int(value[1]) + 2
        elif command == "STATS" and line.startswith(b"STAT "):
            at = end
        else:
            return end
    return None


class _StatementCommands(ABC):
    """A protocol in which a client sends the next statement after the reply: that begins with the server's next
    data."""

    def __init__(self) -> None:
        self._request = b""
        self._unanswered: list[str] = []

    def requests(self, data: bytes) -> list[str]:
        self._request += data
        found = [word[1].decode().upper() for text in self._statements() if (word := _WORD.match(text))]
        self._unanswered += found
        return found

    def replies(self, data: bytes) -> list[str]:
        found, self._unanswered = (self._unanswered, []) if data else ([], self._unanswered)
        return found

    @abstractmethod
    def _statements(self) -> Iterator[bytes]:
        """Cut complete messages from the client's data, and yield the text of those that have a statement."""


class MysqlCommands(_StatementCommands):
    """MySQL and MariaDB."""

    def _statements(self) -> Iterator[bytes]:
        while len(self._request) >= 4:
            size = int.from_bytes(self._request[:3], "little")
            if len(self._request) < 4 + size:
                return
            number, packet = self._request[3], self._request[4 : 4 + size]
            self._request = self._request[4 + size :]
            if number == 0 and packet[:1] == bytes([_QUERY]):
                yield packet[1:]


class PostgresCommands(_StatementCommands):
    """PostgreSQL: simple queries, and statements to prepare."""

    def __init__(self) -> None:
        super().__init__()
        self._started = False

    def _statements(self) -> Iterator[bytes]:
        while True:
            typed = int(self._started)  # the first messages have no type
            size = int.from_bytes(self._request[typed : typed + 4], "big")
            if len(self._request) < typed + max(4, size):
                return
            kind, body = self._request[:typed], self._request[typed + 4 : typed + size]
            self._request = self._request[typed + size :]
            if not self._started:
                self._started = int.from_bytes(body[:4], "big") not in _TLS
            elif kind == b"Q":
                yield body
            elif kind == b"P":
                yield body.partition(b"\0")[2]
