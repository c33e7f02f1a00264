"""Encodes and decodes packets of the MySQL client/server protocol, with text results only.

Source: https://mariadb.com/kb/en/clientserver-protocol/. Abstracted: TLS, compression, prepared statements, multiple
statements in one query, connection attributes. There is one account; its user, password and database are ``harness``.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from .errors import SqlError

VERSION: Final = "10.11.6-MariaDB"
ACCOUNT: Final = "harness"

COM_QUIT, COM_INIT_DB, COM_QUERY, COM_PING, COM_RESET_CONNECTION = 0x01, 0x02, 0x03, 0x0E, 0x1F

FOUND_ROWS: Final = 1 << 1
_CONNECT_WITH_DB: Final = 1 << 3
_PLUGIN_AUTH: Final = 1 << 19
_LENENC_AUTH: Final = 1 << 21
_CAPABILITIES: Final = (
    1 | FOUND_ROWS | 1 << 2 | _CONNECT_WITH_DB | 1 << 9 | 1 << 13 | 1 << 15 | 1 << 17 | _PLUGIN_AUTH | _LENENC_AUTH
)
_PLUGIN: Final = b"mysql_native_password"
IN_TRANSACTION: Final = 1
AUTOCOMMIT: Final = 2
UTF8MB4: Final = 45
BINARY: Final = 63

LONG, DOUBLE, NULL, TIMESTAMP, LONGLONG, DATETIME, DECIMAL, VARSTRING, BLOB = 3, 5, 6, 7, 8, 12, 246, 253, 252
_MOST: Final = 0xFFFFFF


@dataclass(frozen=True, slots=True)
class Field:
    """The description of a column of a result."""

    name: str
    type: int
    table: str = ""
    flags: int = 0
    decimals: int = 0


def frame(payload: bytes, sequence: int) -> bytes:
    """Encode a payload as one or more packets, starting with this sequence number."""
    out = []
    while True:
        piece, payload = payload[:_MOST], payload[_MOST:]
        out.append(len(piece).to_bytes(3, "little") + bytes([sequence & 0xFF]) + piece)
        sequence += 1
        if len(piece) < _MOST:
            return b"".join(out)


def frames(payloads: list[bytes], sequence: int) -> bytes:
    """Encode several short payloads as one packet each."""
    return b"".join([frame(payload, sequence + at) for at, payload in enumerate(payloads)])


def split(data: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """Split ``data`` into (sequence number, payload) of its complete packets and the remaining bytes."""
    found = []
    at = 0
    while len(data) - at >= 4:
        size = int.from_bytes(data[at : at + 3], "little")
        if len(data) - at - 4 < size:
            break
        found.append((data[at + 3], data[at + 4 : at + 4 + size]))
        at += 4 + size
    return found, data[at:]


def integer(value: int) -> bytes:
    """Encode a length-encoded integer."""
    if value < 0xFB:
        return bytes([value])
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    if value < 1 << 24:
        return b"\xfd" + value.to_bytes(3, "little")
    return b"\xfe" + value.to_bytes(8, "little")


def string(value: bytes) -> bytes:
    return integer(len(value)) + value


def greeting(number: int, salt: bytes, status: int) -> bytes:
    """Return the payload of a connection's first packet: handshake version 10."""
    return (
        b"\x0a5.5.5-" + VERSION.encode() + b"\0" + struct.pack("<I", number) + salt[:8] + b"\0"
        + struct.pack("<HBHHB", _CAPABILITIES & 0xFFFF, UTF8MB4, status, _CAPABILITIES >> 16, 21)
        + bytes(10) + salt[8:] + b"\0" + _PLUGIN + b"\0"
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Login:
    """A client's answer to the greeting."""

    user: str
    answer: bytes
    database: str
    found_rows: bool


def login(payload: bytes) -> Login:
    """Decode a client's answer to the greeting."""
    flags = struct.unpack_from("<I", payload)[0]
    end = payload.index(b"\0", 32)
    user, at = payload[32:end], end + 1
    size, at = payload[at], at + 1
    answer, at = payload[at : at + size], at + size
    database = b""
    if flags & _CONNECT_WITH_DB and at < len(payload):
        database = payload[at:].split(b"\0", 1)[0]
    return Login(user.decode(errors="replace"), answer, database.decode(errors="replace"), bool(flags & FOUND_ROWS))


def proves(answer: bytes, salt: bytes) -> bool:
    """Return whether the answer proves knowledge of the password (mysql_native_password)."""
    stage = hashlib.sha1(ACCOUNT.encode()).digest()
    proof = hashlib.sha1(salt + hashlib.sha1(stage).digest()).digest()
    return answer == bytes(left ^ right for left, right in zip(stage, proof, strict=True))


def ok(affected: int, insert_id: int, status: int) -> bytes:
    """Return the payload of an OK packet."""
    return b"\0" + integer(affected) + integer(insert_id) + struct.pack("<HH", status, 0)


def error(failure: SqlError) -> bytes:
    """Return the payload of an ERR packet."""
    text = failure.text.encode()[:511]
    return b"\xff" + struct.pack("<H", failure.number) + b"#" + failure.state.encode() + text


def _eof(status: int) -> bytes:
    return b"\xfe" + struct.pack("<HH", 0, status)


def result(fields: list[Field], rows: list[list[bytes | None]], status: int) -> list[bytes]:
    """Return the payloads of a result set: number of columns, their descriptions, the rows."""
    packets = [integer(len(fields)), *map(_description, fields), _eof(status)]
    packets += [b"".join([b"\xfb" if cell is None else string(cell) for cell in row]) for row in rows]
    return [*packets, _eof(status)]


def _description(field: Field) -> bytes:
    charset = UTF8MB4 if field.type in (VARSTRING, BLOB) else BINARY
    table = string(field.table.encode())
    name = string(field.name.encode())
    schema = string(ACCOUNT.encode() if field.table else b"")
    tail = struct.pack("<BHIBHBH", 12, charset, 255, field.type, field.flags, field.decimals, 0)
    return string(b"def") + schema + table + table + name + (name if field.table else b"\0") + tail
