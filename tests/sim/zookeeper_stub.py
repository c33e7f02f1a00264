"""A simulated ZooKeeper without a network: bytes in, bytes out, time by hand."""

from __future__ import annotations

from typing import Any

from harness.sim.servers.zookeeper.leader import Limits
from harness.sim.servers.zookeeper.quorum import Quorum
from harness.sim.servers.zookeeper.server import ZooKeeperServer
from tests.sim.redis_stub import StubHost, World
from tests.sim.zookeeper_client import Client


class Alone:
    """A standalone server on a host of its own."""

    def __init__(self, tick_ms: int = 500) -> None:
        self.world = World()
        self.server = ZooKeeperServer(1, tick_ms)
        self.quorum = Quorum(self.server, {}, Limits(tick_ms, 10, 4))
        self.host: StubHost = self.world.host("n1", self.server)
        self.host.run(self.quorum)

    def stream(self) -> DirectStream:
        return DirectStream(self.server)

    def client(self, **kwargs: Any) -> Client:
        return Client(self.stream(), **kwargs)


class DirectStream:
    """A connection to a server; what comes back is there at once, or never."""

    def __init__(self, server: ZooKeeperServer, peer: str = "c0") -> None:
        self.peer = peer
        self.session: Any = None
        self.server = server
        self.sent = b""
        self.ended = False
        server.opened(self)

    # As the server sees it.

    def send(self, data: bytes) -> None:
        self.sent += data

    # As the client sees it; ``close`` is either's.

    def close(self) -> None:
        if not self.ended:
            self.ended = True
            self.server.closed(self)

    def sendall(self, data: bytes) -> None:
        if not self.ended:
            self.server.received(self, data)

    def recv(self) -> bytes:
        data, self.sent = self.sent, b""
        assert data or self.ended, "nothing comes"
        return data
