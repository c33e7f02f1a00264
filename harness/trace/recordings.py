"""Recorded packets of real servers as connections with pieces of data.

The packets are captured at the servers: so of a request only the arrival is known, of a reply only its sending.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.clusters.wire import WireRecording

from .streams import Connection, Piece, Streams


def recorded_streams(recordings: Iterable[WireRecording], clients: Mapping[str, str]) -> Streams:
    """Return the connections of clients in recordings. ``clients`` are hosts by their addresses; connections of others,
    such as those of other servers, are left out."""
    found = Streams()
    for recording in recordings:
        found.connections += _connections(recording, clients)
        cuts = [time for time in (found.full_ns, recording.cut_ns) if time]
        found.full_ns = min(cuts, default=0)
    return found


def _connections(recording: WireRecording, clients: Mapping[str, str]) -> list[Connection]:
    known: dict[int, Connection] = {}
    counts: dict[str, int] = {}
    for event in recording.events:
        if event.what == "open":
            client = clients.get(event.peer.rpartition(":")[0])
            if client is not None:
                number = counts[client] = counts.get(client, 0) + 1
                name = f"{client}>{recording.host}" + (f"#{number}" if number > 1 else "")
                known[event.connection] = Connection(name, client, recording.host)
        elif event.connection in known and event.what == "in":
            known[event.connection].pieces.append(Piece(None, event.data, True, arrived=event.time))
        elif event.connection in known and event.what == "out":
            known[event.connection].pieces.append(Piece(event.time, event.data, False))
    return list(known.values())
