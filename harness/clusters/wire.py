"""The recorded traffic of a server: what it received and sent on each connection, and what faults did to it.

A run keeps it in ``wire/<host>.jsonl.gz``: a line with a :class:`WireRecording` without events, then a line for each
:class:`WireEvent`. All times are CLOCK_MONOTONIC of the machine, ns, as in the history.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from harness.errors import UsageError
from harness.files import unzipped

SCHEMA: Final = 1
MOST_BYTES: Final = 1 << 29
"""Size of an unpacked recording that is still read."""
What = Literal["open", "in", "out", "end", "start", "kill", "pause", "resume", "clock"]


class WireEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event on a connection (``open``, ``in``: data to the server, ``out``: data from it, ``end``), or of the host.

    Data to the server reached it at ``time`` or later, and data from it was sent at ``time`` or before. An event of the
    host happened between ``time`` and ``until``.
    """

    time: int
    what: What
    connection: int = 0
    """Number of the connection, from 1."""
    peer: str = ""
    """Address and port of the client, of an ``open``."""
    data: bytes = b""
    by: Literal["", "client", "server"] = ""
    """Side that closed or reset the connection, of an ``end``."""
    until: int = 0
    how: Literal["", "new", "kept", "wiped"] = ""
    """Data of a ``start``: none as before the first start, that of the last life, or none."""
    offset_ns: int = 0
    """Setting of the wall clock at ``since_ns``, of a ``clock``: ns ahead of true time."""
    rate: float = 0.0
    """Seconds that the wall clock gains a second, of a ``clock``."""
    since_ns: int = 0


class WireRecording(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The recorded traffic of one server in the order of its times."""

    schema: Literal[1]
    host: str
    kind: str
    """Kind of cluster."""
    wall_ns: int
    """True wall clock at monotonic time 0, ns."""
    lost: int = 0
    """Number of packets that the recording lost."""
    cut_ns: int = 0
    """Time from which on nothing was recorded because of its size; 0: all was."""
    events: tuple[WireEvent, ...] = ()


_encode = msgspec.json.Encoder().encode


def pack(recording: WireRecording) -> bytes:
    """Return the contents of a recording's file."""
    lines = [msgspec.structs.replace(recording, events=()), *recording.events]
    return gzip.compress(b"".join(_encode(line) + b"\n" for line in lines), 6, mtime=0)


def unpack(packed: bytes, name: str) -> WireRecording:
    """Return the recording in a file; ``name`` is the file's name for the message of the UsageError if it is none."""
    try:
        first, *rest = unzipped(packed, MOST_BYTES).splitlines()
        recording = msgspec.json.decode(first, type=WireRecording)
        events: Sequence[WireEvent] = [_decode(line) for line in rest]
    except (ValueError, zlib.error) as error:
        raise UsageError(f"{name}: not a recording of a server's traffic: {error}") from None
    return msgspec.structs.replace(recording, events=tuple(events))


_decode = msgspec.json.Decoder(WireEvent).decode
