"""Decode the connections of a run into requests with their replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.documents.messages import TracedMessage
from harness.protocols.messages import Request

from .log import Place
from .parsers import DECODED, new_parser
from .streams import Connection, Piece
from .texts import NOTIFICATION, shortened, texts_of

MOST_REASONS: Final = 20
KEEPS_ALIVE: Final = frozenset(
    {"PING", "PONG", "KeepAlive", "LeaseKeepAlive", "Client.Ping", "Client.Statistics", "CPSession.HeartbeatSession"}
)
"""Requests that a client library sends by itself, whatever call is in progress; an ``extend`` may send them, too."""


@dataclass(slots=True)
class Exchange:
    """A request and its replies, or a notification, which has no request. ``request_piece`` and ``reply_piece`` are the
    pieces in which the request and the first reply are complete."""

    connection: Connection
    request: Request | None = None
    request_piece: Piece | None = None
    reply_piece: Piece | None = None
    replies: list[bytes] = field(default_factory=list)

    @property
    def _pieces(self) -> list[Piece]:
        return [piece for piece in (self.request_piece, self.reply_piece) if piece is not None]

    @property
    def since(self) -> int:
        """Time at which its first part was sent, or else arrived, ns."""
        for piece in (self.request_piece, self.reply_piece):  # a loop: each message of a run is sorted by it
            if piece is not None:
                if piece.sent is not None:
                    return piece.sent
                if piece.arrived is not None:
                    return piece.arrived
        return 0

    @property
    def until(self) -> int:
        """Time at which the last of its parts that is known arrived or was sent, ns."""
        times = [time for one in self._pieces for time in (one.sent, one.arrived)]
        return max((time for time in times if time is not None), default=0)


@dataclass(slots=True)
class Decoded:
    """All exchanges of a run in the order of their first parts, and why some connections are not whole."""

    exchanges: list[Exchange] = field(default_factory=list)
    undecoded: list[str] = field(default_factory=list)

    def commands(self) -> dict[str, int]:
        """Return the number of requests that arrived at each server."""
        pieces = ((one.connection.server, one.request_piece) for one in self.exchanges)
        arrived = Counter(server for server, piece in pieces if piece is not None and piece.arrived is not None)
        return dict(sorted(arrived.items()))


def decode(connections: Sequence[Connection], service: str, *, simulated: bool) -> Decoded:
    """Decode the connections to servers of a service."""
    found = Decoded()
    if service not in DECODED:
        found.undecoded.append(f"there is no decoder for {service}")
        return found
    for connection in connections:
        try:
            for one in _parsed(connection, service, simulated=simulated):
                found.exchanges.append(one)
        except Exception as error:  # noqa: BLE001 - a lock may send anything, which must not end its run
            found.undecoded.append(f"{connection.name}: {error or type(error).__name__}")
    found.exchanges.sort(key=lambda one: one.since)
    del found.undecoded[MOST_REASONS:]
    return found


def _parsed(connection: Connection, service: str, *, simulated: bool) -> Iterator[Exchange]:
    """Parse the pieces in the order of sending. Their numbers stand for times, so that a parser tells in which piece a
    message ends."""
    first = next((piece.data for piece in connection.pieces if piece.to_server), b"")
    parser = new_parser(service, first, simulated=simulated)
    waiting: dict[int, Exchange] = {}
    for number, piece in enumerate(connection.pieces):
        if piece.to_server:
            for request in parser.requests(number, piece.data):
                begun = waiting[id(request)] = Exchange(connection, request, piece)
                yield begun
            continue
        for reply in parser.replies(number, piece.data):
            exchange = None if reply.request is None else waiting.get(id(reply.request))
            if exchange is None:
                yield Exchange(connection, reply_piece=piece, replies=[reply.data])
                continue
            exchange.replies.append(reply.data)
            exchange.reply_piece = exchange.reply_piece or piece


@dataclass(frozen=True, slots=True)
class Rendering:
    """Turns exchanges into messages with texts.

    ``scripts`` are names by SHA-1, ``files`` names of source files, and ``call_of`` returns the index of the call that
    a request of this name in a piece belongs to.
    """

    service: str
    scripts: Mapping[str, str]
    files: Collection[str]
    call_of: Callable[[str, Piece], int | None]
    _cache: dict[tuple[object, ...], str] = field(default_factory=dict)
    """Texts of messages: many messages of a run are equal."""

    def message(self, number: int, exchange: Exchange) -> TracedMessage:
        texts, request = texts_of(self.service), exchange.request
        requested, replied = exchange.request_piece, exchange.reply_piece
        name = NOTIFICATION if request is None else texts.name(request)
        call = None if requested is None else self.call_of(name, requested)
        placed = requested if requested is not None and (call is not None or name not in KEEPS_ALIVE) else None
        file, line, function = self._place(placed)
        return TracedMessage(
            number=number,
            client=exchange.connection.client,
            server=exchange.connection.server,
            connection=exchange.connection.name,
            name=name,
            request="" if request is None else self._request(request),
            reply=self._reply(name, exchange.replies),
            sent=None if requested is None else requested.sent,
            arrived=None if requested is None else requested.arrived,
            executed=None if replied is None else replied.sent,
            replied=None if replied is None else replied.arrived,
            process=None if placed is None else placed.process,
            call=call,
            file=file,
            line=line,
            function=function,
        )

    def _request(self, request: Request) -> str:
        key = (*request.words, request.data)
        found = self._cache.get(key)
        if found is None:
            texts = texts_of(self.service)
            found = self._cache[key] = _shown(lambda: texts.request(request, self.scripts), request.words)
        return found

    def _reply(self, name: str, replies: Sequence[bytes]) -> str:
        key = (name, *replies)
        found = self._cache.get(key)
        if found is None:
            reply = texts_of(self.service).reply
            found = self._cache[key] = _shown(lambda: ", ".join(reply(name, one) for one in replies), replies)
        return found

    def _place(self, piece: Piece | None) -> Place:
        if piece is None or piece.place is None or piece.place.file not in self.files:
            return Place("", 0, "")
        return piece.place


def _shown(text: Callable[[], str], data: Sequence[bytes]) -> str:
    """Return a text, or else the data that cannot be shown as one."""
    try:
        return shortened(text())
    except Exception:  # noqa: BLE001 - as above
        return shortened(repr(list(data)))
