"""The file ``trace.log.gz`` of a run: what its clients and servers sent each other, as it was logged, not decoded.

It is compressed by gzip. First comes a :class:`LogHead` as a line of JSON, then batches of entries of
:mod:`harness.sim.message_log`, each in MessagePack after its size (4 bytes, the first one the highest).
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from harness.documents import DocumentError
from harness.documents.messages import LOG, TraceMode
from harness.files import unzipped

SCHEMA: Final = 1
MOST_BYTES: Final = 1 << 29
"""Size of an unpacked log that is still read."""
PIECE: Final = 5
"""Entry ``(PIECE, stream, sent, data, process, place, arrived)``: data that one side of a connection of real hosts sent
at once. Times are null if they are not known; the others are as in the simulator's entries, whose kinds are smaller."""
_LEVEL: Final = 1
"""Level of compression. Higher ones take several times as long, and save a quarter of the size."""
_SIZE: Final = struct.Struct(">I")


class Place(NamedTuple):
    """A line of the lock's code; ``file`` is the path of the source file, or its name in the sources of a trace."""

    file: str
    line: int
    function: str


@dataclass(slots=True)
class LoggedMessages:
    """Messages that were logged during a run.

    ``batches`` are entries of :mod:`harness.sim.message_log` as MessagePack, and ``places`` the lines of the lock's
    code by their numbers.

    ``sources`` are texts by the files of the places, if these are names of files on another host; else the files are
    paths here."""

    batches: list[bytes] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    sources: dict[str, str] | None = None


class LogHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts that are needed to decode a log. Fields without a description are those of
    :class:`harness.documents.messages.MessageTrace`."""

    schema: Literal[1]
    kind: str
    service: str
    """Service whose protocol the messages are in."""
    backend: str
    mode: TraceMode
    windows: tuple[tuple[int, int], ...] = ()
    places: tuple[Place, ...] = ()
    """Lines of the lock's code. A file that is none of the sources could not be read."""
    sources: dict[str, str] = {}
    imported: tuple[str, ...] = ()
    """Texts of files that the sources import from: they may name scripts, too."""


def pack_log(head: LogHead, batches: Sequence[bytes]) -> bytes:
    """Return the contents of the file of a log. The same log gives the same bytes."""
    parts = [msgspec.json.encode(head), b"\n"]
    for batch in batches:
        parts += [_SIZE.pack(len(batch)), batch]
    return gzip.compress(b"".join(parts), _LEVEL, mtime=0)


def load_log(folder: Path) -> tuple[LogHead, list[bytes]] | None:
    """Return the log of the run in a folder, None if it has none. Raises DocumentError if the file is no log."""
    path = folder / LOG
    if not path.is_file():
        return None
    try:
        first, _, rest = unzipped(path.read_bytes(), MOST_BYTES).partition(b"\n")
        return msgspec.json.decode(first, type=LogHead), list(_batches(rest))
    except (OSError, ValueError, zlib.error, struct.error) as error:
        raise DocumentError(f"{path}: expected the log of a run's messages: {error}") from error


def _batches(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size + size
        if at > len(data):
            raise ValueError("its last batch is incomplete")
        found.append(data[at - size : at])
    return found
