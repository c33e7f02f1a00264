"""Logged entries of a run as connections with pieces of data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harness.sim.message_log import ARRIVED, FULL, NOBODY, OPENED, REPLY, REQUEST

from .log import PIECE, Place


@dataclass(slots=True)
class Piece:
    """Data that one side sent at once. ``arrived`` is None if it never arrived; times in ns."""

    sent: int | None
    data: bytes
    to_server: bool
    process: int | None = None
    place: Place | None = None
    arrived: int | None = None


@dataclass(slots=True)
class Connection:
    """A connection with the pieces of both directions, in the order of sending."""

    name: str
    client: str
    server: str
    pieces: list[Piece] = field(default_factory=list)


@dataclass(slots=True)
class Streams:
    """All connections of a run. ``full_ns`` is the time from which on nothing was logged, 0 if all was."""

    connections: list[Connection] = field(default_factory=list)
    full_ns: int = 0


class _Directions:
    """The pieces of each stream that have not arrived yet."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[Piece]] = {}
        self._arrived: dict[int, int] = {}

    def sent(self, stream: int, piece: Piece) -> None:
        self._pieces.setdefault(stream, []).append(piece)

    def arrived(self, stream: int, time_ns: int) -> None:
        number = self._arrived.get(stream, 0)
        self._arrived[stream] = number + 1
        self._pieces[stream][number].arrived = time_ns


def read_streams(batches: Iterable[bytes], places: Sequence[Place]) -> Streams:
    """Return the connections in batches of :class:`harness.sim.message_log.MessageLog`. ``places`` are by number.

    Raises LookupError, TypeError or ValueError for a malformed batch.
    """
    found = Streams()
    connections: dict[int, Connection] = {}
    directions = _Directions()
    decode = msgspec.msgpack.Decoder(list[list[Any]]).decode
    for entry in (entry for batch in batches for entry in decode(batch)):
        kind, stream = entry[0], entry[1]
        if kind == REQUEST:
            _, _, time_ns, data, process, place = entry
            by = None if process == NOBODY else process
            piece = Piece(time_ns, data, True, by, None if place == NOBODY else places[place])
            connections[stream].pieces.append(piece)
            directions.sent(stream, piece)
        elif kind == REPLY:
            piece = Piece(entry[2], entry[3], False)
            connections[stream - 1].pieces.append(piece)
            directions.sent(stream, piece)
        elif kind == ARRIVED:
            directions.arrived(stream, entry[2])
        elif kind == OPENED:
            connections[stream] = Connection(name=entry[5], client=entry[3], server=entry[4])
        elif kind == PIECE:
            _, _, sent, data, process, place, arrived = entry
            by = None if process == NOBODY else process
            where = None if place == NOBODY else places[place]
            connections[stream & ~1].pieces.append(Piece(sent, data, not stream & 1, by, where, arrived))
        elif kind == FULL:
            found.full_ns = entry[2]
    found.connections = list(connections.values())
    return found
