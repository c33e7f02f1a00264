"""The logs of the clients' sockets, as connections that are found by their addresses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from harness.history.socket_entries import OPENED, PLACE, RECEIVED, SENT, SOURCE
from harness.sim.places import NOWHERE

_ENDLESS: Final = 1 << 62


class Sent(NamedTuple):
    """Bytes that a client sent at once; ``end`` is the position after them in the connection."""

    end: int
    time_ns: int | None
    process: int
    place: int


NOT_LOGGED: Final = Sent(_ENDLESS, None, NOWHERE, NOWHERE)


@dataclass(slots=True)
class ClientConnection:
    """A connection as its client logged it; empty if it did not."""

    client: str = ""
    server: str = ""
    port: int = 0
    _sent: list[Sent] = field(default_factory=list)
    _sent_ends: list[int] = field(default_factory=list)
    _received_ends: list[int] = field(default_factory=list)
    _received_ns: list[int] = field(default_factory=list)

    def add_sent(self, size: int, time_ns: int, process: int, place: int) -> None:
        """Add bytes that the client sent after those before."""
        end = _size(self._sent_ends) + size
        self._sent_ends.append(end)
        self._sent.append(Sent(end, time_ns, process, place))

    def add_received(self, size: int, time_ns: int) -> None:
        """Add bytes that the client received after those before."""
        self._received_ends.append(_size(self._received_ends) + size)
        self._received_ns.append(time_ns)

    def sent_from(self, position: int) -> Sent:
        """Return what the byte at a position was sent with."""
        at = bisect_right(self._sent_ends, position)
        return self._sent[at] if at < len(self._sent) else NOT_LOGGED

    def received_by(self, position: int) -> int | None:
        """Return when the client had received all bytes before a position, None if that is not known."""
        at = bisect_left(self._received_ends, position)
        return self._received_ns[at] if at < len(self._received_ns) else None

    def fits(self, received: int, sent: int) -> bool:
        """Return whether a server may have received and sent so many bytes on this connection."""
        return _size(self._sent_ends) >= received and _size(self._received_ends) <= sent


def _size(ends: Sequence[int]) -> int:
    return ends[-1] if ends else 0


class ClientLogs:
    """The connections in the logs of all clients, with the places and the sources of the lock's code."""

    def __init__(self, logs: Mapping[str, Sequence[Sequence[Any]]], hosts: Mapping[str, str]) -> None:
        self.places: list[tuple[str, int, str]] = []
        self.sources: dict[str, str] = {}
        self._connections: list[ClientConnection] = []
        for client, processes in logs.items():
            for entries in processes:
                self._read(client, entries, hosts)

    def matching(self, client: str, server: str, port: int, received: int, sent: int) -> ClientConnection:
        """Return, once, the connection from a client's port on which the server received and sent so many bytes.

        If a proxy has opened it, its port is another one: then it is the client's first one with the server that fits.
        One from the same port need not fit, since the end of a log may be missing."""
        among = [one for one in self._connections if (one.client, one.server) == (client, server)]
        fitting = [one for one in among if one.fits(received, sent)]
        for found in (
            *(one for one in fitting if one.port == port),
            *(one for one in among if one.port == port),
            *fitting,
        ):
            self._connections.remove(found)
            return found
        return ClientConnection()

    def _read(self, client: str, entries: Sequence[Any], hosts: Mapping[str, str]) -> None:
        known: dict[int, ClientConnection] = {}
        first = len(self.places)
        for kind, number, *rest in entries:
            if kind == OPENED:
                known[number] = ClientConnection(client, hosts.get(rest[1], ""), rest[0])
            elif kind == SENT:
                time_ns, size, process, place = rest
                known[number].add_sent(size, time_ns, process, place + first if place >= 0 else place)
            elif kind == RECEIVED:
                known[number].add_received(rest[1], rest[0])
            elif kind == PLACE:
                self.places.append((number, *rest))
            elif kind == SOURCE:
                self.sources.setdefault(number, rest[0])
        self._connections += known.values()
