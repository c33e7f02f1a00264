"""What travels to and from a simulated Chubby cell: lines of JSON. Chubby's own protocol is not public; this is ours.

Requests of clients (all to port 2400, each a JSON object on a line)::

    {"n": 7, "op": "Acquire", "session": "3.1", "epoch": 3, "handle": {...}, "mode": "exclusive", "wait": 2.0}

``n`` numbers the requests of a session; the answer carries it again. A request that is sent once more with its old
number (its answer was lost, or the master) is executed once. ``epoch`` is the master's, as the client knows it.

====================  ==================================================  ============================================
operation             asks with                                           is answered with
====================  ==================================================  ============================================
CreateSession         lease, lock_delay (seconds, or null)                session, epoch, lease, grace, lock_delay
KeepAlive             left: what the client has of its lease, s           lease: s from now; held: s it was kept waiting
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

Answers: ``{"n": 7, "ok": {...}}`` or ``{"n": 7, "error": CODE}`` with one of :data:`ERRORS`; ``not-master`` comes with
``master``, a host name or null, ``stale-epoch`` with ``epoch``. A handle is an object that the client gives back as it
got it: its id, the epoch it was opened in, and the name and instance of the file, so that a new master can recreate it.
A sequencer is a string: generation, mode and name of a lock.

Between replicas messages have ``k`` instead of ``op``: :mod:`harness.sim.servers.chubby.replica`.
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
ERRORS: Final = (NOT_MASTER, STALE_EPOCH, NO_SESSION, BAD_HANDLE, NOT_FOUND, NOT_HELD, OLD_REQUEST, BAD_REQUEST)

SECOND: Final = 1_000_000_000
DRIFT: Final = 0.01
"""How much faster one clock may run than another: every promise is kept that much longer than it was given for."""

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
    return _encode(message) + b"\n"


def lines(rest: bytes, data: bytes) -> tuple[list[Message], bytes]:
    """The messages in what has come, and what is left over; of a line that is no JSON object, one without fields."""
    *whole, rest = (rest + data).split(b"\n")
    return [_parse(text) for text in whole], rest


def _parse(text: bytes) -> Message:
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return {}


def well_formed(body: Message) -> bool:
    """Is it a request with all that its operation asks with?"""
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
    """The names of the operations in what a client sends, in capitals."""
    return [name.decode().upper() for name in _OP.findall(data)]


def ns(seconds: float) -> int:
    return int(seconds * SECOND)
