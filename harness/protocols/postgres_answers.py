"""Answers of PostgreSQL as text."""

from __future__ import annotations

import struct
from typing import Any, Final

from harness.sim.servers.postgres import protocol

CLOSED: Final = "closed"
_WORDS: Final = {"1": "parsed", "2": "bound", "3": "closed one", "n": "no columns", "s": "suspended", "I": "empty"}
"""Messages of the server without contents."""


class AnswerReader:
    """Collects the data of one connection, and cuts it into answers: what precedes each ReadyForQuery."""

    def __init__(self) -> None:
        self.pid = self.secret = 0
        self._data = b""
        self._parts: list[str] = []
        self._answers: list[str] = []

    def add(self, data: bytes) -> None:
        """Add data of the server."""
        messages, self._data = protocol.split(self._data + data)
        for kind, body in messages:
            self._add(kind, body)

    def _add(self, kind: str, body: bytes) -> None:
        if kind == "Z":
            self._answers.append("; ".join([*self._parts, body.decode()]))
            self._parts = []
        elif kind == "K":
            self.pid, self.secret = struct.unpack(">ii", body)
        elif kind == "E":  # a client gets no rows of a failed statement
            self._parts = [part for part in self._parts if not part.startswith(("(", "["))]
            self._parts.append(_error(body))
        elif kind == "N":
            self._parts.insert(0, _error(body))  # before or after the description of columns, as it happens
        elif kind == "D":
            self._parts.append(repr(_cells(body)))
        elif kind == "T":
            self._parts.append(_columns(body))
        elif kind == "t":
            self._parts.append(f"parameters {struct.unpack(f'>{(len(body) - 2) // 4}I', body[2:])}")
        elif kind == "C":
            self._parts.append(body[:-1].decode())
        elif kind in _WORDS:
            self._parts.append(_WORDS[kind])

    def take(self) -> str | None:
        """Return the next answer, None if it is not complete."""
        return self._answers.pop(0) if self._answers else None

    def rest(self) -> str:
        """Return what came before the end of the connection."""
        parts, self._parts = self._parts, []
        return "; ".join([*parts, CLOSED])


def _error(body: bytes) -> str:
    parts = {part[:1]: part[1:].decode() for part in body.split(b"\0") if part}
    return f"{parts[b'S']} {parts[b'C']} {parts[b'M']}"


def _cells(body: bytes) -> list[Any]:
    (count,) = struct.unpack_from(">h", body)
    at, cells = 2, list[Any]()
    for _ in range(count):
        (size,) = struct.unpack_from(">i", body, at)
        at += 4
        cells.append(None if size < 0 else body[at : at + size].decode(errors="backslashreplace"))
        at += max(size, 0)
    return cells


def _columns(body: bytes) -> str:
    (count,) = struct.unpack_from(">h", body)
    at, columns = 2, []
    for _ in range(count):
        end = body.index(b"\0", at)
        _, _, oid, _, _, form = struct.unpack_from(">ihihih", body, end + 1)
        columns.append(f"{body[at:end].decode()}:{oid}" + (":binary" if form else ""))
        at = end + 1 + struct.calcsize(">ihihih")
    return f"({', '.join(columns)})"
