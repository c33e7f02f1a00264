"""Recorded packets of real servers, and the logs of the clients' sockets, as logged messages.

Packets are captured at the servers: they give the contents of messages, when requests arrived and when replies were
sent. The clients' logs give when requests were sent and replies received, by which call and from which line. Both are
put together by the addresses and ports of connections, and by the positions of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harness.clusters.wire import WireRecording
from harness.sim.message_log import BATCH, FULL, OPENED, Entry

from .log import PIECE, LoggedMessages, Place
from .sockets import ClientConnection, ClientLogs


@dataclass(slots=True)
class _Recorded:
    """A connection that was captured at its server. ``pieces`` are times, data, and whether they go to the server."""

    name: str
    client: str
    server: str
    port: int
    pieces: list[tuple[int, bytes, bool]] = field(default_factory=list)

    def size(self, *, to_server: bool) -> int:
        return sum(len(data) for _, data, to in self.pieces if to is to_server)


def recorded_messages(
    recordings: Iterable[WireRecording], hosts: Mapping[str, str], sockets: Mapping[str, Sequence[Sequence[Any]]]
) -> LoggedMessages:
    """Return the messages of clients in recordings.

    ``hosts`` are names by addresses. ``sockets`` are the clients' logs (:mod:`harness.history.socket_entries`, a list
    for each process), by client; connections of hosts that are not in it, such as other servers, are left out.
    """
    logs = ClientLogs(sockets, hosts)
    clients = {address: name for address, name in hosts.items() if name in sockets}
    entries: list[Entry] = []
    cuts = []
    stream = 0
    for recording in recordings:
        for one in _connections(recording, clients):
            entries.append((OPENED, stream, None, one.client, one.server, one.name))
            entries += _entries(one, stream, _matching(one, logs))
            stream += 2
        cuts += [recording.cut_ns] if recording.cut_ns else []
    if cuts:
        entries.append((FULL, 0, min(cuts)))
    encode = msgspec.msgpack.Encoder().encode
    batches = [encode(entries[at : at + BATCH]) for at in range(0, len(entries), BATCH)]
    return LoggedMessages(batches, [Place(*place) for place in logs.places], logs.sources)


def _matching(one: _Recorded, logs: ClientLogs) -> ClientConnection:
    return logs.matching(one.client, one.server, one.port, one.size(to_server=True), one.size(to_server=False))


def _entries(one: _Recorded, stream: int, client: ClientConnection) -> Iterator[Entry]:
    """Yield the pieces of a connection. Requests are cut where the client sent anew, so that each has its line."""
    sent, received = 0, 0
    for time_ns, data, to_server in one.pieces:
        if not to_server:
            received += len(data)
            yield PIECE, stream + 1, time_ns, data, -1, -1, client.received_by(received)
            continue
        while data:
            by = client.sent_from(sent)
            part, data = data[: by.end - sent], data[by.end - sent :]  # noqa: PLW2901 - the rest of the piece
            sent += len(part)
            yield PIECE, stream, by.time_ns, part, by.process, by.place, time_ns


def _connections(recording: WireRecording, clients: Mapping[str, str]) -> list[_Recorded]:
    known: dict[int, _Recorded] = {}
    counts: dict[str, int] = {}
    for event in recording.events:
        if event.what == "open":
            address, _, port = event.peer.rpartition(":")
            client = clients.get(address)
            if client is not None:
                number = counts[client] = counts.get(client, 0) + 1
                name = f"{client}>{recording.host}" + (f"#{number}" if number > 1 else "")
                known[event.connection] = _Recorded(name, client, recording.host, int(port))
        elif event.connection in known and event.what in ("in", "out"):
            known[event.connection].pieces.append((event.time, event.data, event.what == "in"))
    return list(known.values())
