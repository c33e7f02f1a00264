"""The document ``trace.jsonl.gz`` of a run: the requests of clients and the replies of servers, decoded.

``harness trace`` makes it from the log ``trace.log.gz`` that a run stores; see :mod:`harness.trace.reading`.
Its first line is a :class:`MessageTrace` without ``messages``, each further line a :class:`TracedMessage`. All times
are ns of the history's clock (``CLOCK_MONOTONIC``; virtual on the simulator).
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from harness.files import unzipped

from .reading import DocumentError

SCHEMA: Final = 1
TRACE: Final = "trace.jsonl.gz"
"""Name of the decoded file in the folder of a run."""
LOG: Final = "trace.log.gz"
"""Name of the file with the log, from which a trace is decoded."""
MOST_BYTES: Final = 1 << 28
"""Size of an unpacked trace that is still read."""
TraceMode = Literal["on", "off", "violations"]


class TracedMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request with its reply, or a message that a server sent without a request (a notification).

    A time is absent if that never happened, or if it is not known.
    """

    number: int
    """Number of the message in the run, from 1, in the order of sending. Those that are not kept have numbers too."""
    client: str
    """Host of the client."""
    server: str
    """Host of the server."""
    connection: str
    """Name of the connection: ``c0>n1``, the second one ``c0>n1#2``."""
    name: str
    """The command: of Redis and memcached in capitals, the first keyword of SQL (``PARSE`` if PostgreSQL only prepares
    the statement), the operation of ZooKeeper, the method of gRPC or HTTP. ``notification`` if there was no request."""
    request: str = ""
    """The request as text, cut after 2,000 characters. A script that the lock's source names is shown by its name."""
    reply: str = ""
    """The reply as text, cut after 2,000 characters."""
    sent: int | None = None
    """Time at which the client sent the request."""
    arrived: int | None = None
    """Time at which the request arrived at the server's host. Absent: it was lost, or under way at the end."""
    executed: int | None = None
    """Time at which the server sent the reply: it had executed the request by then. A simulated server executes at that
    time, unless it waits for disks or other servers before it replies."""
    replied: int | None = None
    """Time at which the reply arrived at the client's host. Absent: it was lost, or not sent."""
    process: int | None = None
    """Process number of the client's call in the history, if one was in progress."""
    call: int | None = None
    """Index of the entry that invoked this call."""
    file: str = ""
    """Source file of the lock with the line that sent the request: one of ``sources``."""
    line: int = 0
    """Number of the line, from 1; 0 without ``file``."""
    function: str = ""
    """Function that the line is in."""


class MessageTrace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The trace of a run: who sent what to whom, and when."""

    schema: Literal[1]
    """Version of this document."""
    kind: str
    """Kind of cluster."""
    backend: str
    """``sim`` or ``docker``."""
    mode: TraceMode
    """Option ``--trace`` of the run."""
    total: int
    """Number of messages of the whole run. They are all kept if ``windows`` is empty and nothing was dropped."""
    commands: dict[str, int] = {}
    """Number of requests that arrived at each server, in the whole run."""
    windows: tuple[tuple[int, int], ...] = ()
    """Times (ns, first and last) of which messages are kept; empty: of the whole run."""
    dropped: int = 0
    """Number of messages within the windows that are not kept because there are too many."""
    full_ns: int = 0
    """Time (ns) from which on nothing was recorded because of its size; 0: all was."""
    undecoded: tuple[str, ...] = ()
    """Connections that could not be decoded, each with the reason in a sentence; at most 20."""
    sources: dict[str, str] = {}
    """Text of the source files that ``file`` names, at most 100,000 characters each."""
    messages: tuple[TracedMessage, ...] = ()
    """The messages, in the order of their numbers; in the file each is a line of its own."""


_encode = msgspec.json.Encoder().encode


def message_lines(trace: MessageTrace) -> bytes:
    """Return a trace as lines of JSON."""
    lines = [msgspec.structs.replace(trace, messages=()), *trace.messages]
    return b"".join(_encode(line) + b"\n" for line in lines)


def pack_messages(trace: MessageTrace) -> bytes:
    """Return the contents of the file of a trace."""
    return gzip.compress(message_lines(trace), 6, mtime=0)


def load_messages(folder: Path) -> MessageTrace | None:
    """Return the trace of the run in a folder, None if it has none. Raises DocumentError if the file is no trace."""
    path = folder / TRACE
    if not path.is_file():
        return None
    try:
        first, *rest = unzipped(path.read_bytes(), MOST_BYTES).splitlines()
        trace = msgspec.json.decode(first, type=MessageTrace)
        return msgspec.structs.replace(trace, messages=tuple(_messages(rest)))
    except (OSError, ValueError, zlib.error) as error:
        raise DocumentError(f"{path}: expected the trace of a run: {error}") from error


def _messages(lines: list[bytes]) -> Iterator[TracedMessage]:
    decode = msgspec.json.Decoder(TracedMessage).decode
    for line in lines:
        yield decode(line)
