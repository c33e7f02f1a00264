"""Message streams between simulated etcd members: one per pair, dialled by the member whose name sorts first.

Abstracted: rafthttp's several streams, pipelines and snapshots. A message is msgpack with its length before it.
Kept are the rules that decide when members hear each other: a stream that was silent for five seconds is dropped
(rafthttp's ConnReadTimeout) and dialled again every 100 ms; each attempt lasts two seconds; a message to a member
whose stream is down is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from harness.sim.kernel import MILLISECOND, SECOND
from harness.sim.service import Conn, ServiceHost, Timer

PEER_PORT: Final = 2380
READ_TIMEOUT_NS: Final = 5 * SECOND
PING_INTERVAL_NS: Final = READ_TIMEOUT_NS // 3
DIAL_TIMEOUT_NS: Final = 2 * SECOND
REDIAL_DELAY_NS: Final = 100 * MILLISECOND
_LENGTH_BYTES: Final = 4
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode


class _PeerLink:
    """The stream to one member: its connection if it has one, and the attempts to open it."""

    def __init__(self, peers: Peers, name: str, dials: bool) -> None:
        self._peers = peers
        self._name = name
        self._dials = dials
        self.reset()

    def reset(self) -> None:
        self.conn: Conn | None = None
        self.up = False
        self.connected_at: int | None = None
        self.input = b""
        self._last_received = 0
        self._attempt: Timer | None = None

    def start(self) -> None:
        self.reset()
        self._check_alive()
        if self._dials:
            self._dial()

    def _dial(self) -> None:
        host = self._peers.host
        self.conn = host.dial(self._name, PEER_PORT, self)
        self._attempt = host.call_later(DIAL_TIMEOUT_NS, self._give_up, self.conn)

    def _give_up(self, conn: Conn) -> None:
        if self.conn is conn and not self.up:
            self._drop()

    def _check_alive(self) -> None:
        """Send a ping, and drop a stream that has been silent for longer than the read time-out."""
        host = self._peers.host
        host.call_later(PING_INTERVAL_NS, self._check_alive)
        if self.up and host.monotonic_ns() - self._last_received > READ_TIMEOUT_NS:
            self._drop()
        elif self.up:
            self.send({"kind": "ping"})

    def _drop(self) -> None:
        conn, self.conn, self.up, self.connected_at = self.conn, None, False, None
        if conn is not None:
            conn.close()
        if self._dials:
            self._peers.host.call_later(REDIAL_DELAY_NS, self._dial)

    def send(self, message: dict[str, Any]) -> None:
        if self.up and self.conn is not None:
            data = _encode(message)
            self.conn.send(len(data).to_bytes(_LENGTH_BYTES, "big") + data)

    def adopt(self, conn: Conn) -> None:
        """Use an opened connection as the stream, in place of the previous one."""
        if self.conn is not None and self.conn is not conn:
            self.conn.close()
        if self._attempt is not None:
            self._attempt.cancel()
        self.conn, self.up, self.input = conn, True, b""
        self._last_received = self.connected_at = self._peers.host.monotonic_ns()

    # Connection callbacks.

    def opened(self, conn: Conn) -> None:
        if conn is self.conn:
            self.adopt(conn)

    def received(self, conn: Conn, data: bytes) -> None:
        if conn is not self.conn:
            return
        self._last_received = self._peers.host.monotonic_ns()
        self.input += data
        while len(self.input) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self.input[:_LENGTH_BYTES], "big")
            if len(self.input) < end:
                return
            message, self.input = _decode(self.input[_LENGTH_BYTES:end]), self.input[end:]
            if message["kind"] != "ping":
                self._peers.deliver(self._name, message)
            if conn is not self.conn:
                return

    def closed(self, conn: Conn) -> None:
        if conn is self.conn:
            if self._attempt is not None:
                self._attempt.cancel()
            self._drop()


class Peers:
    """One member's streams to all others, and the :class:`~harness.sim.service.Service` that others dial.

    ``deliver`` is called with each message received: (sender, message).
    """

    port = PEER_PORT

    def __init__(self, name: str, peers: list[str], deliver: Callable[[str, dict[str, Any]], None]) -> None:
        self.deliver = deliver
        self.host: ServiceHost
        self._links = {peer: _PeerLink(self, peer, name < peer) for peer in peers}

    def start(self, host: ServiceHost, *, wiped: bool) -> None:  # noqa: ARG002
        self.host = host
        for link in self._links.values():
            link.start()

    def stop(self) -> None:
        for link in self._links.values():
            link.reset()

    def send(self, peer: str, message: dict[str, Any]) -> None:
        self._links[peer].send(message)

    def connected_since(self, peer: str) -> int | None:
        """Return when the present stream was opened, in monotonic ns; None if there is no stream."""
        return self._links[peer].connected_at

    def opened(self, conn: Conn) -> None:
        link = self._links.get(conn.peer)
        if link is None:
            conn.close()
        else:
            link.adopt(conn)

    def received(self, conn: Conn, data: bytes) -> None:
        self._links[conn.peer].received(conn, data)

    def closed(self, conn: Conn) -> None:
        if conn.peer in self._links:
            self._links[conn.peer].closed(conn)
