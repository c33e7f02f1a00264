"""ZooKeeper's wire format: encode and decode jute records in length-prefixed frames (zookeeper.jute of 3.8).

All numbers are big-endian; a string or buffer is its length and its bytes, with length -1 for null; a vector is its
length and its items.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

NOTIFICATION, PING, AUTH = -1, -2, -4
"""Reserved xids."""
MAX_FRAME: Final = 0xFFFFF
"""``jute.maxbuffer``; a longer frame ends the connection."""


class OpCode:
    """Operation codes (ZooDefs.OpCode)."""

    CREATE_SESSION, CLOSE, ERROR = -10, -11, -1
    CREATE, DELETE, EXISTS, GETDATA, SETDATA, GETACL, SETACL = 1, 2, 3, 4, 5, 6, 7
    GETCHILDREN, SYNC, PING, GETCHILDREN2, CHECK, MULTI, CREATE2 = 8, 9, 11, 12, 13, 14, 15
    AUTH, SETWATCHES, SETWATCHES2 = 100, 101, 105


NAMES: Final = {
    OpCode.CREATE: "CREATE", OpCode.CREATE2: "CREATE", OpCode.DELETE: "DELETE", OpCode.EXISTS: "EXISTS",
    OpCode.GETDATA: "GETDATA", OpCode.SETDATA: "SETDATA", OpCode.GETACL: "GETACL", OpCode.SETACL: "SETACL",
    OpCode.GETCHILDREN: "GETCHILDREN", OpCode.GETCHILDREN2: "GETCHILDREN", OpCode.SYNC: "SYNC", OpCode.PING: "PING",
    OpCode.MULTI: "MULTI", OpCode.CHECK: "CHECK", OpCode.AUTH: "AUTH", OpCode.SETWATCHES: "SETWATCHES",
    OpCode.SETWATCHES2: "SETWATCHES", OpCode.CLOSE: "CLOSE",
}  # fmt: skip
"""Names of operations in events and triggers of plans, by operation code."""
_MISSING_NAMES: Final = {
    16: "reconfig", 17: "checkWatches", 18: "removeWatches", 19: "createContainer", 21: "createTTL", 22: "multiRead",
    102: "sasl", 103: "getEphemerals", 104: "getAllChildrenNumber", 106: "addWatch", 107: "whoAmI",
}  # fmt: skip
"""Names of the operations that ZooKeeper 3.8 has and the simulated server lacks."""
CONNECT: Final = "CONNECT"


class Code:
    """Error codes (KeeperException.Code)."""

    OK, RUNTIME_INCONSISTENCY, MARSHALLING, UNIMPLEMENTED, BAD_ARGUMENTS = 0, -2, -5, -6, -8
    NO_NODE, BAD_VERSION, NO_CHILDREN_FOR_EPHEMERALS, NODE_EXISTS, NOT_EMPTY = -101, -103, -108, -110, -111
    SESSION_EXPIRED, INVALID_ACL, AUTH_FAILED, SESSION_MOVED = -112, -114, -115, -118


def lacking(op: int, codes: Iterable[int]) -> str:
    """Return what ZooKeeper has, and this server lacks, that a request needs; empty if nothing. ``codes`` are the error
    codes of its reply and of its parts."""
    if op == OpCode.AUTH:
        return "authentication of ZooKeeper"
    if Code.INVALID_ACL in codes:
        return "access control lists of ZooKeeper"
    name = _MISSING_NAMES.get(op) or NAMES.get(op)
    return f"this kind of {name} of ZooKeeper" if Code.UNIMPLEMENTED in codes and name else ""


class Acl(NamedTuple):
    """One entry of an access control list."""

    perms: int
    scheme: str
    id: str


OPEN_ACL: Final = Acl(31, "world", "anyone")
_INT, _LONG, _BOOL = struct.Struct("!i"), struct.Struct("!q"), struct.Struct("!?")
_STAT: Final = struct.Struct("!qqqqiiiqiiq")
_HEADER: Final = struct.Struct("!iqi")


class Malformed(Exception):
    """Bytes that cannot be decoded."""


class JuteReader:
    """Decodes the values of one frame in order. All methods raise Malformed if the bytes do not fit."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def _take(self, shape: struct.Struct) -> int:
        if self.at + shape.size > len(self.data):
            raise Malformed
        (value,) = shape.unpack_from(self.data, self.at)
        self.at += shape.size
        return int(value)

    def integer(self) -> int:
        return self._take(_INT)

    def long(self) -> int:
        return self._take(_LONG)

    def boolean(self) -> bool:
        return bool(self._take(_BOOL))

    def buffer(self) -> bytes | None:
        size = self._take(_INT)
        if size < 0:
            return None
        if self.at + size > len(self.data):
            raise Malformed
        self.at += size
        return self.data[self.at - size : self.at]

    def string(self) -> str:
        """Read a string; null, which clients send for an empty string, is returned as an empty string."""
        try:
            return (self.buffer() or b"").decode()
        except UnicodeDecodeError as error:
            raise Malformed from error

    def path(self) -> str:
        """Read a path. Null raises Malformed; kazoo sends it for an empty path."""
        text = self.buffer()
        if text is None:
            raise Malformed
        return text.decode(errors="replace")

    def strings(self) -> list[str]:
        return [self.path() for _ in range(self.integer())]

    def acls(self) -> list[Acl]:
        return [Acl(self.integer(), self.string(), self.string()) for _ in range(self.integer())]

    @property
    def left(self) -> bool:
        return self.at < len(self.data)


def integer(value: int) -> bytes:
    return _INT.pack(value)


def long(value: int) -> bytes:
    return _LONG.pack(value)


def boolean(value: bool) -> bytes:
    return _BOOL.pack(value)


def buffer(value: bytes | None) -> bytes:
    return _INT.pack(-1) if value is None else _INT.pack(len(value)) + value


def string(value: str) -> bytes:
    return buffer(value.encode())


def strings(values: list[str]) -> bytes:
    return _INT.pack(len(values)) + b"".join([string(value) for value in values])


def acls(values: list[Acl]) -> bytes:
    items = [_INT.pack(acl.perms) + string(acl.scheme) + string(acl.id) for acl in values]
    return _INT.pack(len(values)) + b"".join(items)


def stat(values: tuple[int, ...]) -> bytes:
    """Encode the eleven numbers of a Stat, given in the order of the record."""
    return _STAT.pack(*values)


def frame(body: bytes) -> bytes:
    return _INT.pack(len(body)) + body


def reply(xid: int, zxid: int, code: int = Code.OK, body: bytes = b"") -> bytes:
    """Return the frame of a reply; a reply with an error has no body."""
    return frame(_HEADER.pack(xid, zxid, code) + (body if code == Code.OK else b""))


def event(kind: int, path: str) -> bytes:
    """Return the frame of a watch event; 3.8 sends it with zxid -1 and state SyncConnected (3)."""
    return frame(_HEADER.pack(NOTIFICATION, -1, Code.OK) + _INT.pack(kind) + _INT.pack(3) + string(path))


def frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Split ``data`` into the bodies of its complete frames and the remaining bytes. Raises Malformed."""
    found, at = [], 0
    while at + 4 <= len(data):
        (size,) = _INT.unpack_from(data, at)
        if not 0 <= size <= MAX_FRAME:
            raise Malformed
        if at + 4 + size > len(data):
            break
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found, data[at:]


def commands(data: bytes) -> Iterator[str]:
    """Yield the names of the operations in one piece of data from a client.

    A connect request has no header. It is recognised by its protocol version 0, which is not used as an xid.
    """
    try:
        whole, _ = frames(data)
    except Malformed:
        return
    for body in whole:
        if len(body) >= 8:
            xid, op = struct.unpack_from("!ii", body)
            name = CONNECT if xid == 0 else NAMES.get(op)
            if name is not None:
                yield name
