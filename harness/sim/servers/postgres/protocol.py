"""Messages of PostgreSQL's protocol 3.0.

Source: https://www.postgresql.org/docs/15/protocol-message-formats.html. Abstracted: TLS and GSS (refused, as by a
server without them), passwords (every account is trusted), COPY, replication.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from .errors import PgError
from .values import SIZES

PROTOCOL: Final = 196608
CANCEL: Final = 80877102
SSL: Final = 80877103
GSS: Final = 80877104
PARSE_COMPLETE: Final = b"1\0\0\0\4"
BIND_COMPLETE: Final = b"2\0\0\0\4"
CLOSE_COMPLETE: Final = b"3\0\0\0\4"
NO_DATA: Final = b"n\0\0\0\4"
EMPTY_QUERY: Final = b"I\0\0\0\4"
PORTAL_SUSPENDED: Final = b"s\0\0\0\4"
AUTHENTICATED: Final = b"R\0\0\0\x08\0\0\0\0"


class Field(NamedTuple):
    """A column of a result."""

    name: str
    oid: int


def message(kind: bytes, body: bytes) -> bytes:
    """Return a message of the server."""
    return kind + struct.pack(">i", len(body) + 4) + body


def split_startup(data: bytes) -> tuple[bytes | None, bytes]:
    """Return (the first message of a connection, the rest), or (None, data) if it is not complete."""
    size = struct.unpack_from(">i", data)[0] if len(data) >= 4 else 1 << 30
    return (data[4:size], data[size:]) if len(data) >= size else (None, data)


def split(data: bytes) -> tuple[list[tuple[str, bytes]], bytes]:
    """Return (the complete messages as (kind, body), the rest)."""
    messages, at = [], 0
    while len(data) - at >= 5:
        size = struct.unpack_from(">i", data, at + 1)[0]
        if len(data) - at < size + 1:
            break
        messages.append((chr(data[at]), data[at + 5 : at + 1 + size]))
        at += size + 1
    return messages, data[at:]


def texts(data: bytes, count: int) -> tuple[list[str], bytes]:
    """Return the first ``count`` zero-terminated texts, and the rest."""
    *found, rest = data.split(b"\0", count)
    return [text.decode() for text in found], rest


def numbers(data: bytes, form: str) -> tuple[tuple[int, ...], bytes]:
    """Return a counted list of numbers, ``form`` being ``h`` or ``i``, and the rest."""
    (count,) = struct.unpack_from(">h", data)
    layout = f">{count}{form}"
    end = 2 + struct.calcsize(layout)
    return struct.unpack_from(layout, data, 2), data[end:]


def bound_values(data: bytes) -> tuple[list[bytes | None], bytes]:
    """Return the values of a Bind message, and the rest."""
    (count,) = struct.unpack_from(">h", data)
    at, found = 2, list[bytes | None]()
    for _ in range(count):
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        found.append(None if size < 0 else data[at : at + size])
        at += max(size, 0)
    return found, data[at:]


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", f"{name}\0{value}\0".encode())


def ready(status: str) -> bytes:
    """Return ReadyForQuery; ``status`` is I (idle), T (in a transaction) or E (in a failed one)."""
    return message(b"Z", status.encode())


def error(failure: PgError) -> bytes:
    severity = "FATAL" if failure.fatal else "ERROR"
    return message(b"E", f"S{severity}\0V{severity}\0C{failure.state}\0M{failure.text}\0\0".encode())


def notice(severity: str, text: str, state: str) -> bytes:
    return message(b"N", f"S{severity}\0V{severity}\0C{state}\0M{text}\0\0".encode())


def complete(tag: str) -> bytes:
    return message(b"C", f"{tag}\0".encode())


def parameter_description(oids: Sequence[int]) -> bytes:
    return message(b"t", struct.pack(f">h{len(oids)}I", len(oids), *oids))


def row_description(fields: Sequence[Field], formats: Sequence[int]) -> bytes:
    body = struct.pack(">h", len(fields))
    for field, form in zip(fields, formats, strict=True):
        body += field.name.encode() + struct.pack(">xihihih", 0, 0, field.oid, SIZES.get(field.oid, -1), -1, form)
    return message(b"T", body)


def data_row(cells: Sequence[bytes | None]) -> bytes:
    body = [struct.pack(">h", len(cells))]
    body += [b"\xff\xff\xff\xff" if cell is None else struct.pack(">i", len(cell)) + cell for cell in cells]
    return message(b"D", b"".join(body))
