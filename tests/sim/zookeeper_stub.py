"""A simulated ZooKeeper server without a network: tests exchange bytes with it and advance the time themselves."""

from __future__ import annotations

from typing import Any

from harness.fidelity.zookeeper.client import RawZooKeeperClient
from harness.sim.servers.zookeeper.leader import EnsembleLimits
from harness.sim.servers.zookeeper.quorum import QuorumPeer
from harness.sim.servers.zookeeper.server import ZooKeeperServer
from tests.sim.redis_stub import StubHost, StubWorld


class StandaloneServer:
    """A standalone server on a host of its own."""

    def __init__(self, tick_ms: int = 500) -> None:
        self.world = StubWorld()
        self.server = ZooKeeperServer(1, tick_ms)
        self.quorum = QuorumPeer(self.server, {}, EnsembleLimits(tick_ms, 10, 4))
        self.host: StubHost = self.world.host("n1", self.server)
        self.host.run(self.quorum)

    def stream(self) -> InMemoryStream:
        return InMemoryStream(self.server)

    def client(self, **kwargs: Any) -> RawZooKeeperClient:
        return RawZooKeeperClient(self.stream(), **kwargs)


class InMemoryStream:
    """A connection to a server without delay: an answer that is not available at once never comes."""

    def __init__(self, server: ZooKeeperServer, peer: str = "c0") -> None:
        self.peer = peer
        self.session: Any = None
        self.server = server
        self.sent = b""
        self.ended = False
        server.opened(self)

    # The server's end.

    def send(self, data: bytes) -> None:
        self.sent += data

    # The client's end; both ends use ``close``.

    def close(self) -> None:
        if not self.ended:
            self.ended = True
            self.server.closed(self)

    def sendall(self, data: bytes) -> None:
        if not self.ended:
            self.server.received(self, data)

    def recv(self) -> bytes:
        data, self.sent = self.sent, b""
        assert data or self.ended, "the server has sent nothing"
        return data
