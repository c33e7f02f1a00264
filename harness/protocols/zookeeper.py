"""Recorded traffic of a ZooKeeper server as requests and replies.

Four-letter words are left out: their answers have counters of the process, and they change nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from harness.sim.servers.zookeeper import jute
from harness.sim.servers.zookeeper.jute import NAMES, JuteReader, Malformed, OpCode

from .messages import Reply, Request, Unreadable

CONNECT: Final = jute.CONNECT.encode()
WRITES: Final = frozenset(
    {OpCode.CREATE, OpCode.CREATE2, OpCode.DELETE, OpCode.SETDATA, OpCode.SETACL, OpCode.MULTI, OpCode.CLOSE}
)
"""Operations that use a zxid, even if they fail."""
_HEADER: Final = struct.Struct("!iiqi")
_REQUEST: Final = struct.Struct("!iii")
_STAT: Final = struct.Struct("!qqqqiiiqiiq")
_EVENTS: Final = {1: "created", 2: "deleted", 3: "data changed", 4: "children changed"}
_CODES: Final = {
    value: name.lower().replace("_", " ")
    for name, value in vars(jute.Code).items()
    if isinstance(value, int) and not name.startswith("_")
}


class Greeting(NamedTuple):
    """A connect request."""

    seen: int
    timeout: int
    session: int
    password: bytes


class Session(NamedTuple):
    """The answer to a connect request. ``session`` is 0 if it was refused."""

    session: int
    password: bytes


class ZooKeeperParser:
    """A :class:`~harness.protocols.messages.Parser`."""

    def __init__(self) -> None:
        self._in = self._out = b""
        self._waiting: list[Request] = []
        self._greeted = False
        self._word = False

    def requests(self, time_ns: int, data: bytes) -> Sequence[Request]:
        self._in += data
        if not self._greeted:
            self._word |= self._in[:4].isalpha()
        if self._word:
            return []
        frames, self._in = _frames(self._in)
        found = [self._request(time_ns, body) for body in frames]
        self._waiting += found
        return found

    def _request(self, time_ns: int, body: bytes) -> Request:
        if not self._greeted:
            self._greeted = True
            return Request(time_ns, (CONNECT,), jute.frame(body))
        _, op = struct.unpack_from("!ii", body)
        return Request(time_ns, (NAMES.get(op, str(op)).encode(),), jute.frame(body))

    def replies(self, time_ns: int, data: bytes) -> Sequence[Reply]:
        if self._word:
            return []
        frames, self._out = _frames(self._out + data)
        found = []
        for body in frames:
            frame = jute.frame(body)
            request = None
            if self._waiting and (self._waiting[0].words == (CONNECT,) or not is_event(frame)):
                request = self._waiting.pop(0)
                request.replied_ns = time_ns
            found.append(Reply(time_ns, frame, time_ns, request))
        return found


def _frames(data: bytes) -> tuple[list[bytes], bytes]:
    try:
        return jute.frames(data)
    except Malformed:
        raise Unreadable("not a frame of ZooKeeper") from None


def is_event(frame: bytes) -> bool:
    """Return whether a frame of the server, which is no answer to a connect request, is a watch event."""
    return xid_of(frame) == jute.NOTIFICATION


def xid_of(frame: bytes) -> int:
    return int(_HEADER.unpack_from(frame)[1])


def zxid_of(frame: bytes) -> int:
    return int(_HEADER.unpack_from(frame)[2])


def code_of(frame: bytes) -> int:
    return int(_HEADER.unpack_from(frame)[3])


def op_of(request: Request) -> int:
    """Return the operation code of a request that is no connect request."""
    return int(_REQUEST.unpack_from(request.data)[2])


def greeting(request: Request) -> Greeting:
    """Decode a connect request."""
    reader = JuteReader(request.data[8:])
    return Greeting(reader.long(), reader.integer(), reader.long(), reader.buffer() or b"")


def session_of(frame: bytes) -> Session:
    """Decode the answer to a connect request."""
    reader = JuteReader(frame[12:])
    return Session(reader.long(), reader.buffer() or b"")


def times_of(request: Request, frame: bytes) -> dict[int, int]:
    """Return the times (ms) of transactions that a reply tells, by zxid."""
    if request.words == (CONNECT,) or code_of(frame):
        return {}
    try:
        stats = list(_stats(op_of(request), JuteReader(frame[_HEADER.size :])))
    except Malformed:
        return {}
    found: dict[int, int] = {}
    for czxid, mzxid, ctime, mtime, *_ in stats:
        found |= {czxid: ctime, mzxid: mtime}
    return found


def _stats(op: int, reader: JuteReader) -> Iterator[tuple[int, ...]]:
    match op:
        case OpCode.GETDATA:
            reader.buffer()
        case OpCode.GETCHILDREN2:
            reader.strings()
        case OpCode.CREATE2:
            reader.path()
        case OpCode.GETACL:
            reader.acls()
        case OpCode.EXISTS | OpCode.SETDATA | OpCode.SETACL:
            pass
        case _:
            return
    yield _STAT.unpack_from(reader.data, reader.at)


def without_order(request: Request, frame: bytes) -> object:
    """Return a reply as a value in which the order of children does not count."""
    if request.words == (CONNECT,) or code_of(frame) or op_of(request) not in (OpCode.GETCHILDREN, OpCode.GETCHILDREN2):
        return frame
    reader = JuteReader(frame[_HEADER.size :])
    return frame[: _HEADER.size], sorted(reader.strings()), reader.data[reader.at :]


def path_of(request: Request) -> str:
    """Return the path of a request that is no connect request, "" if it has none."""
    if op_of(request) in (OpCode.PING, OpCode.CLOSE, OpCode.MULTI, OpCode.SETWATCHES, OpCode.SETWATCHES2):
        return ""
    try:
        return JuteReader(request.data[12:]).path()
    except Malformed:
        return ""


def shown_request(request: Request) -> str:
    """Return a request as text: its name with its session or path."""
    rest = f"{greeting(request).session:#x}" if request.words == (CONNECT,) else path_of(request)
    return f"{request.words[0].decode()} {rest}".rstrip()


def readable_reply(name: str, frame: bytes) -> str:
    """Return what the reply to an operation, or a watch event, says to a client."""
    reader = JuteReader(frame[_HEADER.size :])
    try:
        if name == jute.CONNECT:
            found = session_of(frame)
            return f"session {found.session:#x}"
        if is_event(frame):
            kind, _, path = reader.integer(), reader.integer(), reader.path()
            return f"event {_EVENTS.get(kind, str(kind))} {path}"
        if code := code_of(frame):
            return _CODES.get(code, f"error {code}")
        return f"ok, zxid {zxid_of(frame):#x}{_content(name, reader)}"
    except (Malformed, struct.error):
        return f"{frame[:200]!r}"


def _content(name: str, reader: JuteReader) -> str:
    match name:
        case "CREATE":
            return f", {reader.path()}"
        case "GETCHILDREN":
            return f", [{', '.join(sorted(reader.strings()))}]"
        case "GETDATA":
            return f", {(reader.buffer() or b'').decode(errors='backslashreplace')!r}"
        case _:
            return ""
