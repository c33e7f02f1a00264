"""The streams between simulated etcd members: one for each pair, dialled by the member whose name comes first.

Abstracted: rafthttp's several streams and pipelines, and its snapshots; messages are msgpack with a length before it.
What is kept is what decides when members hear each other: a stream that has carried nothing for five seconds is dropped
(rafthttp's ConnReadTimeout) and dialled again every 100 ms, each attempt lasting two seconds; a message for a member
whose stream is down is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from ...kernel import MILLISECOND, SECOND
from ...service import Conn, ServiceHost, Timer

PEER_PORT: Final = 2380
READ_TIMEOUT: Final = 5 * SECOND
PING: Final = READ_TIMEOUT // 3
DIAL_TIMEOUT: Final = 2 * SECOND
RETRY: Final = 100 * MILLISECOND
_LENGTH: Final = 4
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode


class _Link:
    """The stream to one member, in whatever state it is."""

    def __init__(self, peers: Peers, name: str, dials: bool) -> None:
        self._peers = peers
        self._name = name
        self._dials = dials
        self.forget()

    def forget(self) -> None:
        self.conn: Conn | None = None
        self.up = False
        self.since: int | None = None
        self.input = b""
        self._heard = 0
        self._attempt: Timer | None = None

    def start(self) -> None:
        self.forget()
        self._watch()
        if self._dials:
            self._dial()

    def _dial(self) -> None:
        host = self._peers.host
        self.conn = host.dial(self._name, PEER_PORT, self)
        self._attempt = host.call_later(DIAL_TIMEOUT, self._give_up, self.conn)

    def _give_up(self, conn: Conn) -> None:
        if self.conn is conn and not self.up:
            self._drop()

    def _watch(self) -> None:
        """Ping, and drop a stream that has been silent for too long."""
        host = self._peers.host
        host.call_later(PING, self._watch)
        if self.up and host.monotonic_ns() - self._heard > READ_TIMEOUT:
            self._drop()
        elif self.up:
            self.send({"kind": "ping"})

    def _drop(self) -> None:
        conn, self.conn, self.up, self.since = self.conn, None, False, None
        if conn is not None:
            conn.close()
        if self._dials:
            self._peers.host.call_later(RETRY, self._dial)

    def send(self, message: dict[str, Any]) -> None:
        if self.up and self.conn is not None:
            data = _encode(message)
            self.conn.send(len(data).to_bytes(_LENGTH, "big") + data)

    def adopt(self, conn: Conn) -> None:
        """The stream is open."""
        if self.conn is not None and self.conn is not conn:
            self.conn.close()
        if self._attempt is not None:
            self._attempt.cancel()
        self.conn, self.up, self.input = conn, True, b""
        self._heard = self.since = self._peers.host.monotonic_ns()

    # The dialling side's handler.

    def opened(self, conn: Conn) -> None:
        if conn is self.conn:
            self.adopt(conn)

    def received(self, conn: Conn, data: bytes) -> None:
        if conn is not self.conn:
            return
        self._heard = self._peers.host.monotonic_ns()
        self.input += data
        while len(self.input) >= _LENGTH:
            end = _LENGTH + int.from_bytes(self.input[:_LENGTH], "big")
            if len(self.input) < end:
                return
            message, self.input = _decode(self.input[_LENGTH:end]), self.input[end:]
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
    """All of a member's streams to the others, and the service (:class:`~harness.sim.service.Service`) that the others
    dial."""

    port = PEER_PORT

    def __init__(self, name: str, peers: list[str], deliver: Callable[[str, dict[str, Any]], None]) -> None:
        self.deliver = deliver
        self.host: ServiceHost
        self._links = {peer: _Link(self, peer, name < peer) for peer in peers}

    def start(self, host: ServiceHost, *, wiped: bool) -> None:  # noqa: ARG002
        self.host = host
        for link in self._links.values():
            link.start()

    def stop(self) -> None:
        for link in self._links.values():
            link.forget()

    def send(self, peer: str, message: dict[str, Any]) -> None:
        self._links[peer].send(message)

    def connected_since(self, peer: str) -> int | None:
        """Monotonic ns since when there has been a stream, None if there is none."""
        return self._links[peer].since

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
