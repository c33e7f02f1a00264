"""The client's side of PostgreSQL's protocol for a comparison: simple and extended queries, and answers as text."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from harness.clusters.kinds import ACCOUNT
from harness.sim.servers.postgres import protocol


def startup() -> bytes:
    """Return the first message of a connection."""
    body = struct.pack(">i", protocol.PROTOCOL) + f"user\0{ACCOUNT}\0database\0{ACCOUNT}\0\0".encode()
    return struct.pack(">i", len(body) + 4) + body


def cancel_request(pid: int, secret: int) -> bytes:
    """Return the only message of a connection that cancels the statement of another session."""
    return struct.pack(">iiii", 16, protocol.CANCEL, pid, secret)


def query(text: str) -> bytes:
    """Return the message of a simple query."""
    return protocol.message(b"Q", f"{text}\0".encode())


def extended(messages: Sequence[tuple[Any, ...]]) -> bytes:
    """Return the messages of extended queries, each given as (name, arguments): see the functions below."""
    return b"".join(_MESSAGES[name](*arguments) for name, *arguments in messages)


def _parse(name: str, text: str) -> bytes:
    return protocol.message(b"P", f"{name}\0{text}\0".encode() + struct.pack(">h", 0))


def _bind(portal: str, name: str, values: Sequence[str | None], form: int) -> bytes:
    """``values`` are texts; ``form`` is 1 for binary results."""
    body = f"{portal}\0{name}\0".encode() + struct.pack(">hh", 0, len(values))
    for value in values:
        body += b"\xff\xff\xff\xff" if value is None else struct.pack(">i", len(value)) + value.encode()
    return protocol.message(b"B", body + struct.pack(">hh", 1, form))


def _describe(kind: str, name: str) -> bytes:
    """``kind`` is S for a statement or P for a portal."""
    return protocol.message(b"D", f"{kind}{name}\0".encode())


def _execute(portal: str, limit: int) -> bytes:
    """``limit`` is the number of rows, 0 for all."""
    return protocol.message(b"E", f"{portal}\0".encode() + struct.pack(">i", limit))


def _close(kind: str, name: str) -> bytes:
    return protocol.message(b"C", f"{kind}{name}\0".encode())


_MESSAGES: Final[dict[str, Callable[..., bytes]]] = {
    "parse": _parse,
    "bind": _bind,
    "describe": _describe,
    "execute": _execute,
    "close": _close,
    "sync": lambda: protocol.message(b"S", b""),
}
