"""Messages to and from a simulated Chubby cell: lines of JSON. Chubby's protocol is not public, so this one is ours.

A client's request is a JSON object on one line, sent to port 2400::

    {"n": 7, "op": "Acquire", "session": "3.1", "epoch": 3, "handle": {...}, "mode": "exclusive", "wait": 2.0}

``n`` numbers the requests of a session and is repeated in the answer. A request that is repeated with the same number,
because its answer or the master was lost, is executed once. ``epoch`` is the master's epoch, as the client knows it.

====================  ==================================================  ============================================
operation             fields of the request                               fields of the result
====================  ==================================================  ============================================
CreateSession         lease, lock_delay (seconds, or null)                session, epoch, lease, grace, lock_delay
KeepAlive             left: s that the client has left of its lease       lease: s from now; held: s before the answer
EndSession
Open                  name, create, ephemeral, contents                   handle
Close                 handle
Delete                handle
GetContentsAndStat    handle                                              contents, stat
Acquire               handle, mode, wait (s)                              held: true or false
TryAcquire            handle, mode                                        held
Release               handle
GetSequencer          handle                                              sequencer
CheckSequencer        sequencer                                           valid
====================  ==================================================  ============================================

Answers: ``{"n": 7, "ok": {...}}`` or ``{"n": 7, "error": CODE}`` with a code such as :data:`NOT_FOUND`. ``not-master``
has a field ``master``, a host name or null; ``stale-epoch`` has a field ``epoch``. A handle is an object that the
client returns unchanged: its id, the epoch it was opened in, and the name and instance of the file, so that a new
master can recreate it. A sequencer is a string with the generation, mode and name of a lock.

Messages between replicas have ``k`` instead of ``op``: see :mod:`harness.sim.servers.chubby.replica`.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

PORT: Final = 2400
NOT_MASTER: Final = "not-master"
STALE_EPOCH: Final = "stale-epoch"
NO_SESSION: Final = "no-session"
BAD_HANDLE: Final = "bad-handle"
NOT_FOUND: Final = "not-found"
NOT_HELD: Final = "not-held"
OLD_REQUEST: Final = "old-request"
BAD_REQUEST: Final = "bad-request"

SECOND: Final = 1_000_000_000
DRIFT: Final = 0.01
"""Assumed bound on the relative drift of two clocks: a lease is honoured that much longer than it was given for."""

Message = dict[str, Any]
_NUMBER: Final = (int, float)
_OPTIONAL: Final = (int, float, type(None))
_HANDLE: Final = {"id": str, "epoch": int, "name": str, "instance": int}
_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "CreateSession": {"lease": _OPTIONAL, "lock_delay": _OPTIONAL},
    "KeepAlive": {"left": _NUMBER},
    "EndSession": {},
    "Open": {"name": str, "create": bool, "ephemeral": bool, "contents": str},
    "Close": {"handle": dict},
    "Delete": {"handle": dict},
    "GetContentsAndStat": {"handle": dict},
    "Acquire": {"handle": dict, "mode": str, "wait": _NUMBER},
    "TryAcquire": {"handle": dict, "mode": str},
    "Release": {"handle": dict},
    "GetSequencer": {"handle": dict},
    "CheckSequencer": {"sequencer": str},
}
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_OP: Final = re.compile(rb'"op": ?"([A-Za-z]+)"')


def line(message: Message) -> bytes:
    """Encode a message."""
    return _encode(message) + b"\n"


def lines(rest: bytes, data: bytes) -> tuple[list[Message], bytes]:
    """Decode the complete lines of ``rest + data``; return their messages and the remaining bytes.

    A line that is not a JSON object yields an empty message.
    """
    *whole, rest = (rest + data).split(b"\n")
    return [_parse(text) for text in whole], rest


def _parse(text: bytes) -> Message:
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return {}


def well_formed(body: Message) -> bool:
    """Return whether a message is a request with all fields of its operation, in their types."""
    fields = _FIELDS.get(str(body.get("op")))
    if fields is None or not _has(body, fields) or not isinstance(body.get("n"), int):
        return False
    if "mode" in fields and body["mode"] not in ("exclusive", "shared"):
        return False
    if "handle" in fields and not _has(body["handle"], _HANDLE):
        return False
    return body["op"] == "CreateSession" or _has(body, {"session": str, "epoch": int})


def _has(data: Message, fields: dict[str, Any]) -> bool:
    return all(name in data and isinstance(data[name], kind) for name, kind in fields.items())


def commands(data: bytes) -> list[str]:
    """Return the names of the operations in one piece of data from a client, in upper case."""
    return [name.decode().upper() for name in _OP.findall(data)]


def ns(seconds: float) -> int:
    """Convert seconds to nanoseconds."""
    return int(seconds * SECOND)
