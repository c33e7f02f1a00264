"""Recording of the servers' traffic during a run on containers; see :mod:`harness.clusters.wire`.

Packets are captured by the helper container, and put together here. Faults on a server are noted with the times
before and after them, more exactly than a history has them.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from harness.clusters.docker.containers.engine import Box, in_parallel
from harness.clusters.docker.containers.helper_client import Helper
from harness.clusters.docker.helper.capture import FIN, RECORD, RST, SYN
from harness.clusters.wire import SCHEMA, What, WireEvent, WireRecording

_HALF: Final = 1 << 31


class Stream:
    """One direction of a connection: puts segments into the order of their sequence numbers."""

    def __init__(self, sequence: int | None = None) -> None:
        self._next = sequence
        self._early: dict[int, tuple[int, bytes]] = {}
        self.seen = 0
        """Latest time of a piece of it, ns. A packet may have an earlier time than the one before it: the kernel dates
        the packets of one connection on several processors."""

    def add(self, moment: int, sequence: int, data: bytes) -> list[tuple[int, bytes]]:
        """Return the data that continues the stream, each piece with the time at which it was seen."""
        if self._next is None:
            self._next = sequence
        if sequence == self._next and not self._early:
            self._next = (sequence + len(data)) % (1 << 32)
            return [(moment, data)]
        self._early.setdefault(sequence, (moment, data))
        return list(self._continued())

    def _continued(self) -> Iterator[tuple[int, bytes]]:
        """Yield the early data that continues the stream now."""
        assert self._next is not None
        found = True
        while found:
            found = False
            for start in sorted(self._early, key=self._distance):
                ahead = self._distance(start)
                if ahead > 0:
                    break
                seen, piece = self._early.pop(start)
                if len(piece) > -ahead:
                    yield seen, piece[-ahead:]
                    self._next = (self._next + len(piece) + ahead) % (1 << 32)
                found = True

    def _distance(self, sequence: int) -> int:
        """Bytes from the end of what is known to ``sequence``, which wraps at 2^32; negative if it was before."""
        assert self._next is not None
        return (sequence - self._next + _HALF) % (1 << 32) - _HALF


class _Connection:
    def __init__(self, number: int, sequence: int) -> None:
        self.number = number
        self.first = sequence
        self.into = Stream((sequence + 1) % (1 << 32))
        self.out = Stream()
        self.ended: set[str] = set()


def connections(records: bytes) -> Iterator[WireEvent]:
    """Yield the events of connections in a capture. Packets of connections that were open before it are left out."""
    known: dict[tuple[bytes, int], _Connection] = {}
    place, count = 0, 0
    while place < len(records):
        moment, outgoing, address, port, sequence, flags, size = RECORD.unpack_from(records, place)
        data = records[place + RECORD.size : place + RECORD.size + size]
        place += RECORD.size + size
        if flags & SYN and not outgoing:
            if (address, port) in known and known[address, port].first == sequence:
                continue  # sent again
            count += 1
            known[address, port] = _Connection(count, sequence)
            peer = f"{socket.inet_ntoa(address)}:{port}"
            yield WireEvent(time=moment, what="open", connection=count, peer=peer)
        elif (address, port) in known:
            yield from _packet(known[address, port], moment, sequence, flags, data, outgoing=bool(outgoing))


def _packet(
    connection: _Connection, moment: int, sequence: int, flags: int, data: bytes, *, outgoing: bool
) -> Iterator[WireEvent]:
    stream = connection.out if outgoing else connection.into
    if flags & SYN:
        connection.out = Stream((sequence + 1) % (1 << 32))
        return
    pieces = stream.add(moment, sequence, data) if data else []
    for _, piece in pieces:
        # What follows a gap reaches the server once the gap is filled, but was sent after what fills it.
        stream.seen = max(stream.seen, min(pieces)[0] if outgoing else moment)
        yield WireEvent(time=stream.seen, what="out" if outgoing else "in", connection=connection.number, data=piece)
    by: Any = "server" if outgoing else "client"
    if flags & (FIN | RST) and by not in connection.ended:
        connection.ended.add(by)
        yield WireEvent(time=max(stream.seen, moment), what="end", connection=connection.number, by=by)


class WireRecorder:
    """Records the traffic of servers and the faults on them. It does nothing until :meth:`begin`."""

    def __init__(self) -> None:
        self._helper: Helper | None = None
        self._boxes: dict[str, Box] = {}
        self._events: dict[str, list[WireEvent]] = {}
        self.recordings: dict[str, WireRecording] = {}
        """Recordings by host, once they have ended."""

    def begin(self, helper: Helper, boxes: Mapping[str, Box], ports: Mapping[str, int]) -> None:
        """Record the traffic of these hosts' ports from now on."""
        self._helper, self._boxes = helper, dict(boxes)
        self._events = {name: [] for name in boxes}
        for name, box in boxes.items():
            helper.capture(box, ports[name])

    @contextlib.contextmanager
    def noting(self, host: str, what: What, **fields: Any) -> Iterator[None]:
        """Note an event of a host that happens within the ``with`` block."""
        began = time.monotonic_ns()
        try:
            yield
        finally:
            if host in self._events:
                event = WireEvent(time=began, what=what, until=time.monotonic_ns(), **fields)
                self._events[host].append(event)

    def end(self, kind: str) -> None:
        """End the recording."""
        assert self._helper is not None, "it has not begun"
        captured = in_parallel(partial(self._helper.captured, box) for box in self._boxes.values())
        for name, (records, facts) in zip(self._boxes, captured, strict=True):
            events = sorted([*connections(records), *self._events[name]], key=lambda event: event.time)
            self.recordings[name] = WireRecording(
                schema=SCHEMA,
                host=name,
                kind=kind,
                wall_ns=facts["wall_ns"],
                lost=facts["lost"],
                cut_ns=facts["cut_ns"],
                events=tuple(events),
            )
