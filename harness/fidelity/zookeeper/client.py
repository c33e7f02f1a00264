"""A ZooKeeper client that exchanges single frames; requests are encoded by kazoo's serializers."""

from __future__ import annotations

import socket
import struct
from typing import Any, NamedTuple, Protocol

from kazoo.protocol import serialization as wire
from kazoo.security import OPEN_ACL_UNSAFE

PING, EVENT = -2, -1
STATUS_S = 2.0
"""Time-out of a question that is repeated. A server that has just started may leave it without an answer."""
Ops = tuple[Any, ...]


class Stat(NamedTuple):
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    owner: int
    length: int
    children: int
    pzxid: int


class OperationReply(NamedTuple):
    op: str
    code: int
    zxid: int
    value: Any = None


class WatchEvent(NamedTuple):
    kind: int
    path: str


class ByteStream(Protocol):
    """One connection: ``recv`` returns b"" at its end."""

    def sendall(self, data: bytes) -> None: ...

    def recv(self) -> bytes: ...

    def close(self) -> None: ...


def _strings(items: list[str]) -> bytes:
    return struct.pack("!i", len(items)) + b"".join(wire.write_string(item) for item in items)


class SetWatches(NamedTuple):
    seen: int
    data: list[str]
    exist: list[str]
    child: list[str]
    type: int = 101

    def serialize(self) -> bytes:
        return struct.pack("!q", self.seen) + _strings(self.data) + _strings(self.exist) + _strings(self.child)


def request(op: str, *args: Any) -> Any:
    """Return the record of an operation; the arguments of a read are (path, watch)."""
    match op:
        case "create" | "create2":
            path, data, flags = args
            kind = wire.Create if op == "create" else wire.Create2
            return kind(path, data, OPEN_ACL_UNSAFE, flags)
        case "multi":
            return wire.Transaction([request(*part) for part in args[0]])
        case "setacl":
            return wire.SetACL(args[0], OPEN_ACL_UNSAFE, args[1])
        case "close":
            return wire.CloseInstance
        case "ping":
            return wire.PingInstance
        case "setwatches":
            return SetWatches(*args)
    kinds: dict[str, Any] = {
        "delete": wire.Delete, "exists": wire.Exists, "get": wire.GetData, "set": wire.SetData, "getacl": wire.GetACL,
        "children": wire.GetChildren, "children2": wire.GetChildren2, "sync": wire.Sync, "check": wire.CheckVersion,
    }  # fmt: skip
    return kinds[op](*args)


def _stat(body: bytes, at: int = 0) -> Stat:
    return Stat(*wire.stat_struct.unpack_from(body, at))


def _names(body: bytes) -> tuple[list[str], int]:
    (count,) = struct.unpack_from("!i", body)
    names, at = [], 4
    for _ in range(count):
        name, at = wire.read_string(body, at)
        names.append(name)
    return names, at


def _value(op: str, body: bytes) -> Any:
    match op:
        case "create" | "sync":
            return wire.read_string(body, 0)[0]
        case "create2":
            path, at = wire.read_string(body, 0)
            return path, _stat(body, at)
        case "exists" | "set" | "setacl":
            return _stat(body)
        case "get":
            data, at = wire.read_buffer(body, 0)
            return data, _stat(body, at)
        case "getacl":
            return body[:-68], _stat(body, len(body) - 68)
        case "children":
            return _names(body)[0]
        case "children2":
            names, at = _names(body)
            return names, _stat(body, at)
        case "multi":
            return _parts(body)
    assert body == b"", (op, body)
    return None


def _parts(body: bytes) -> list[Any]:
    parts: list[Any] = []
    at = 0
    while True:
        op, done, code = struct.unpack_from("!i?i", body, at)
        at += 9
        if done:
            return parts
        value: Any = None
        if op in (1, 15):
            value, at = wire.read_string(body, at)
        if op in (5, 15):
            value = (value, _stat(body, at))
            at += 68
        if op == -1:
            (value,) = struct.unpack_from("!i", body, at)
            at += 4
        parts.append((op, code, value))


class RawZooKeeperClient:
    """One connection of a session. ``connected`` is False if the server closed it without an answer."""

    def __init__(self, stream: ByteStream, timeout: int = 10_000, session: int = 0, password: bytes = bytes(16),
                 seen: int = 0) -> None:  # fmt: skip
        self.stream = stream
        self.data = b""
        self.sent: list[tuple[int, str]] = []
        self.xid = 0
        self.zxid = seen
        self._write(wire.Connect(0, seen, timeout, session, password, False).serialize())
        frame = self._frame()
        self.connected = frame is not None
        self.timeout, self.session, self.password = 0, 0, b""
        if frame is not None:
            answer, _ = wire.Connect.deserialize(frame, 0)
            self.timeout, self.session, self.password = answer.time_out, answer.session_id, answer.passwd

    def _write(self, body: bytes) -> None:
        self.stream.sendall(struct.pack("!i", len(body)) + body)

    def _frame(self) -> bytes | None:
        while len(self.data) < 4 or len(self.data) < 4 + struct.unpack_from("!i", self.data)[0]:
            more = self.stream.recv()
            if not more:
                return None
            self.data += more
        end = 4 + struct.unpack_from("!i", self.data)[0]
        frame, self.data = self.data[4:end], self.data[end:]
        return frame

    def encode(self, op: str, *args: Any) -> bytes:
        """Return the frame of a request and expect its reply."""
        record = request(op, *args)
        if op == "ping":
            xid = PING
        else:
            self.xid += 1
            xid = self.xid
        self.sent.append((xid, op))
        body = struct.pack("!ii", xid, record.type) + bytes(record.serialize())
        return struct.pack("!i", len(body)) + body

    def send(self, *ops: Ops) -> None:
        """Send several requests in one piece."""
        self.stream.sendall(b"".join([self.encode(*op) for op in ops]))

    def next(self) -> OperationReply | WatchEvent | None:
        """Return the next reply or event; None at the end of the connection."""
        frame = self._frame()
        if frame is None:
            return None
        xid, zxid, code = struct.unpack_from("!iqi", frame)
        body = frame[16:]
        if xid == EVENT:
            kind, _state = struct.unpack_from("!ii", body)
            return WatchEvent(kind, wire.read_string(body, 8)[0])
        expected, op = self.sent.pop(0)
        assert xid == expected, (xid, expected, op)
        self.zxid = max(self.zxid, zxid)
        return OperationReply(op, code, zxid, None if code else _value(op, body))

    def read_replies(self) -> list[OperationReply | WatchEvent | None]:
        """Return all replies and events up to the last expected reply, or to the end of the connection."""
        received_events: list[OperationReply | WatchEvent | None] = []
        while self.sent:
            received_events.append(self.next())
            if received_events[-1] is None:
                break
        return received_events

    def __call__(self, op: str, *args: Any) -> Any:
        """Execute one operation and return its value or error code; events are ignored."""
        self.send((op, *args))
        replies = [item for item in self.read_replies() if isinstance(item, OperationReply)]
        if not replies:
            raise ConnectionResetError("the server closed the connection instead of an answer")
        (reply,) = replies
        return reply.code or reply.value


class SocketStream:
    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(120)

    def sendall(self, data: bytes) -> None:
        self._socket.sendall(data)

    def recv(self) -> bytes:
        try:
            return self._socket.recv(1 << 16)
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._socket.close()


def status(address: tuple[str, int]) -> str:
    """Return the answer to the four-letter word ``srvr``, "" if the server does not serve clients."""
    try:
        with socket.create_connection(address, STATUS_S) as connection:
            connection.settimeout(STATUS_S)
            connection.sendall(b"srvr")
            answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    except OSError:
        return ""
    return answer if "Mode: " in answer else ""
