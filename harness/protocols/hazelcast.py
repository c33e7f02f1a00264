"""Recorded traffic of a Hazelcast member as requests and replies of its Open Client Protocol, version 2.

A message is a list of frames. The first one has the type, a number that a reply shares with its request, and the
parameters of a fixed size; strings and structures have frames of their own. An event answers no request.
Source: Hazelcast's client protocol 2.x (hazelcast-client-protocol, "protocol-definitions").
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from .messages import Reply, Request, Unreadable

PREAMBLE: Final = b"CP2"
"""First bytes of a client. Members begin with others, and the REST interface has the same port."""
ERROR: Final = 0
"""Type of a reply that is an error."""
_HEADER: Final = struct.Struct("<iH")
"""Size of the frame, and flags."""
_FIRST: Final = struct.Struct("<iq")
"""Type, and number of the request."""
_WHOLE: Final = 0xC000
"""Flags of a message's first frame, if the message is not split into fragments."""
_FINAL: Final = 0x2000
_STRUCTURE: Final = 0x1800
_NULL: Final = 0x0400
_EVENT: Final = 0x0200
_REQUEST_FIELDS: Final = 16
_REPLY_FIELDS: Final = 13
"""Positions of the parameters in the first frame."""


class Form(NamedTuple):
    """A kind of request. ``asked`` and ``answered`` are its parameters and those of its reply that have a fixed size:
    their names by the formats of :mod:`struct`."""

    name: str
    asked: str = ""
    answered: str = ""


_OWNER: Final = "session:q thread:q invocation:17s"
FORMS: Final = {
    0x000100: Form("Client.Authentication"),
    0x000300: Form("Client.AddClusterViewListener"),
    0x000400: Form("Client.CreateProxy"),
    0x000500: Form("Client.DestroyProxy"),
    0x000B00: Form("Client.Ping"),
    0x000C00: Form("Client.Statistics"),
    0x000F00: Form("Client.LocalBackupListener"),
    0x070100: Form("FencedLock.Lock", _OWNER, "fence:q"),
    0x070200: Form("FencedLock.TryLock", f"{_OWNER} timeout_ms:q", "fence:q"),
    0x070300: Form("FencedLock.Unlock", _OWNER, "held:?"),
    0x070400: Form("FencedLock.GetLockOwnership", "", "fence:q count:i session:q thread:q"),
    0x090500: Form("AtomicLong.Get", "", "value:q"),
    0x1E0100: Form("CPGroup.CreateCPGroup"),
    0x1E0200: Form("CPGroup.DestroyCPObject"),
    0x1F0100: Form("CPSession.CreateSession", "", "session:q ttl_ms:q heartbeat_ms:q"),
    0x1F0200: Form("CPSession.CloseSession", "session:q", "closed:?"),
    0x1F0300: Form("CPSession.HeartbeatSession", "session:q"),
    0x1F0400: Form("CPSession.GenerateThreadId", "", "thread:q"),
}
"""Requests of clients that lock, by type. Others have their type as name."""
_BY_NAME: Final = {form.name: form for form in FORMS.values()}


class Frame(NamedTuple):
    flags: int
    data: bytes


class HazelcastParser:
    """A :class:`~harness.protocols.messages.Parser`."""

    def __init__(self) -> None:
        self._in = self._out = b""
        self._greeted = False
        self._waiting: dict[int, Request] = {}

    def requests(self, time_ns: int, data: bytes) -> Sequence[Request]:
        self._in += data
        if not self._greeted:
            if not self._in.startswith(PREAMBLE[: len(self._in)]):
                raise Unreadable("not a client of Hazelcast")
            if len(self._in) < len(PREAMBLE):
                return []
            self._in, self._greeted = self._in[len(PREAMBLE) :], True
        messages, self._in = _messages(self._in)
        found = []
        for message in messages:
            type_, number = _FIRST.unpack_from(message, _HEADER.size)
            name = FORMS[type_].name if type_ in FORMS else f"{type_:#08x}"
            request = self._waiting[number] = Request(time_ns, (name.encode(),), message)
            found.append(request)
        return found

    def replies(self, time_ns: int, data: bytes) -> Sequence[Reply]:
        messages, self._out = _messages(self._out + data)
        return [Reply(time_ns, one, time_ns, self._answered(time_ns, one)) for one in messages]

    def _answered(self, time_ns: int, message: bytes) -> Request | None:
        if _HEADER.unpack_from(message)[1] & _EVENT:
            return None
        request = self._waiting.pop(_FIRST.unpack_from(message, _HEADER.size)[1], None)
        if request is not None:
            request.replied_ns = time_ns
        return request


def shown_request(request: Request) -> str:
    """Return a request as text: its name, its parameters of a fixed size, and its strings."""
    name = request.words[0].decode()
    first, *rest = _frames(request.data)
    form = _BY_NAME.get(name, Form(name))
    return " ".join([name, *_strings(rest), *_fields(form.asked, first.data[_REQUEST_FIELDS:])])


def shown_reply(name: str, message: bytes) -> str:
    """Return the reply to a request of this name, or an event, as text."""
    first, *rest = _frames(message)
    type_ = _FIRST.unpack_from(first.data)[0]
    if type_ == ERROR:
        return " ".join(["error", *_strings(rest)])
    if first.flags & _EVENT:
        return f"event {type_:#08x}"
    return " ".join(_fields(_BY_NAME.get(name, Form(name)).answered, first.data[_REPLY_FIELDS:])) or "ok"


def _messages(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the complete messages in the data, and the rest."""
    found, start, at = [], 0, 0
    while at + _HEADER.size <= len(data):
        size, flags = _HEADER.unpack_from(data, at)
        if size < _HEADER.size:
            raise Unreadable("not a message of Hazelcast")
        if at == start and flags & _WHOLE != _WHOLE:
            raise Unreadable("a message of Hazelcast in fragments")
        at += size
        if at > len(data):
            break
        if flags & _FINAL:
            found.append(data[start:at])
            start = at
    return found, data[start:]


def _frames(message: bytes) -> Iterator[Frame]:
    at = 0
    while at < len(message):
        size, flags = _HEADER.unpack_from(message, at)
        yield Frame(flags, message[at + _HEADER.size : at + size])
        at += size


def _strings(frames: Sequence[Frame]) -> list[str]:
    """Return the printable strings among the frames; a number in a frame is not one."""
    plain = (one.data for one in frames if one.data and not one.flags & (_STRUCTURE | _NULL))
    texts = (one.decode(errors="replace") for one in plain)
    return [text.partition("\n")[0] for text in texts if text.partition("\n")[0].isprintable()]


def _fields(form: str, data: bytes) -> list[str]:
    names, formats = zip(*(one.split(":") for one in form.split()), strict=True) if form else ((), ())
    values = struct.unpack_from("<" + "".join(formats), data)
    return [f"{name}={_value(value)}" for name, value in zip(names, values, strict=True)]


def _value(value: object) -> object:
    return UUID(bytes=value[8:0:-1] + value[16:8:-1]) if isinstance(value, bytes) else value  # after "is null"
