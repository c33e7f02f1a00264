"""A simulated PgBouncer 1.18 in front of a simulated PostgreSQL on the same host, with pool modes session and
transaction.

Source: https://www.pgbouncer.org/config.html and https://www.pgbouncer.org/features.html. Abstracted: a server session
opens at once; there is one pool; cancel requests are ignored; session parameters that PgBouncer would set again for
each client are not; no session is closed for its age, and no client for waiting long.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, Final

from harness.sim.service import Conn, ServiceHost

from . import protocol
from .server import PostgresServer

POOL_SIZE: Final = 20
"""PgBouncer's default of ``default_pool_size``."""
_LOGIN: Final = struct.pack(">i", protocol.PROTOCOL) + b"user\0harness\0database\0harness\0\0"
_RESET: Final = protocol.message(b"Q", b"DISCARD ALL\0")
_ANSWERED: Final = frozenset("QSF")
"""Messages of a client that the server answers with ReadyForQuery."""


class PooledClient:
    """A client's connection. ``owed`` counts the ReadyForQuery messages that the client waits for."""

    def __init__(self, conn: Conn) -> None:
        self.conn = conn
        self.logged_in = False
        self.data = b""
        self.waiting: list[bytes] = []
        """Messages that no server session has got yet."""
        self.owed = 0
        self.server: ServerConn | None = None


class ServerConn:
    """PgBouncer's end of a server session: the :class:`~harness.sim.service.Conn` of that session. ``peer`` is the host
    of its latest client."""

    def __init__(self, pooler: PgBouncer) -> None:
        self._pooler = pooler
        self.peer = pooler.host.name
        self.session: Any = None
        self.client: PooledClient | None = None
        self.status = ""
        """The latest status of ReadyForQuery: I, T or E; empty before it."""
        self.greeting = b""
        """The server's ParameterStatus messages."""

    def send(self, data: bytes) -> None:
        """Pass the server's messages to the client; without a client, they answer PgBouncer's own requests."""
        messages, _ = protocol.split(data)
        for kind, body in messages:
            if kind == "Z":
                self.status = body.decode()
            if self.client is not None:
                self.client.owed -= kind == "Z"
            elif kind == "S":
                self.greeting += protocol.parameter_status(*protocol.texts(body, 2)[0])
        if self.client is not None:
            self.client.conn.send(data)
        self._pooler.answered(self)

    def close(self) -> None:
        """The server has ended the session."""
        self._pooler.lost(self)


class PgBouncer:
    """The :class:`~harness.sim.service.Service` to which clients connect; it runs ``database`` as well."""

    def __init__(
        self,
        database: PostgresServer,
        *,
        port: int = 6432,
        transaction_mode: bool = True,
        pool_size: int = POOL_SIZE,
        min_pool_size: int = 0,
        round_robin: bool = False,
        reset_always: bool = False,
    ) -> None:
        """``min_pool_size`` sessions are open from the start. ``round_robin``: use the session that has been idle for
        longest, not the one used last. ``reset_always``: reset a session after each
        transaction (``server_reset_query_always``)."""
        self.database = database
        self.port = port
        self._transaction_mode = transaction_mode
        self._pool_size = pool_size
        self._min_pool_size = min(min_pool_size, pool_size)
        self._round_robin = round_robin
        self._reset_always = reset_always
        self._greeting = b""
        self._clients: set[PooledClient] = set()
        self._servers: set[ServerConn] = set()
        self._idle: deque[ServerConn] = deque()
        self._queue: deque[PooledClient] = deque()

    # Start and stop.

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        self.database.start(host, wiped=wiped)
        for _ in range(self._min_pool_size):
            self._connect()
        host.log("process up: PgBouncer")

    def stop(self) -> None:
        for gone in (self._clients, self._servers, self._idle, self._queue):
            gone.clear()
        self.database.stop()

    # Clients.

    def opened(self, conn: Conn) -> None:
        conn.session = PooledClient(conn)
        self._clients.add(conn.session)

    def received(self, conn: Conn, data: bytes) -> None:
        client: PooledClient = conn.session
        if client not in self._clients:
            return
        client.data += data
        while not client.logged_in and client in self._clients:
            first, client.data = protocol.split_startup(client.data)
            if first is None:
                return
            self._log_in(client, first)
        self._take_messages(client)

    def closed(self, conn: Conn) -> None:
        self._forget(conn.session)

    def _log_in(self, client: PooledClient, first: bytes) -> None:
        (code,) = struct.unpack_from(">i", first)
        if code in (protocol.SSL, protocol.GSS):
            client.conn.send(b"N")
        elif code != protocol.PROTOCOL:
            self._close(client)
        else:
            client.logged_in = True
            if not self._servers:
                self._connect()
            key = protocol.message(b"K", struct.pack(">ii", 1, self.host.rng.randrange(1 << 31)))
            client.conn.send(protocol.AUTHENTICATED + self._greeting + key + protocol.ready("I"))

    def _take_messages(self, client: PooledClient) -> None:
        messages, client.data = protocol.split(client.data)
        for kind, body in messages:
            if kind == "X":
                self._close(client)
                return
            client.waiting.append(protocol.message(kind.encode(), body))
        self._forward(client)

    def _forward(self, client: PooledClient) -> None:
        """Send the client's messages to its server session; without one it waits in the queue."""
        if not client.waiting:
            return
        if client.server is None and not self._link(client):
            if client not in self._queue:
                self._queue.append(client)
            return
        assert client.server is not None
        messages, client.waiting = client.waiting, []
        client.owed += sum(chr(message[0]) in _ANSWERED for message in messages)
        self.database.received(client.server, b"".join(messages))

    def _close(self, client: PooledClient) -> None:
        client.conn.close()
        self._forget(client)

    def _forget(self, client: PooledClient) -> None:
        """Drop a client. Its session goes back to the pool after a reset; a session that is busy is closed."""
        if client not in self._clients:
            return
        self._clients.discard(client)
        if client in self._queue:
            self._queue.remove(client)
        server, client.server = client.server, None
        if server is None:
            return
        server.client = None
        if server.status == "I" and not client.owed:
            self._reset(server)
        else:
            self._servers.discard(server)
            self.database.closed(server)
            self._serve_queue()

    # Server sessions.

    def _connect(self) -> None:
        """Open a server session; it is idle once the server has answered."""
        server = ServerConn(self)
        self._servers.add(server)
        self.database.opened(server)
        self.database.received(server, struct.pack(">i", len(_LOGIN) + 4) + _LOGIN)
        self._greeting = server.greeting

    def _link(self, client: PooledClient) -> bool:
        """Give the client a server session; return False if all are in use."""
        if not self._idle and len(self._servers) < self._pool_size:
            self._connect()
        if not self._idle:
            return False
        server = self._idle.popleft()
        server.client, server.peer, client.server = client, client.conn.peer, server
        return True

    def answered(self, server: ServerConn) -> None:
        """Take back a server session that its client needs no longer."""
        client = server.client
        if server not in self._servers or server.status != "I":
            return
        if client is not None:
            if client.owed or not self._transaction_mode:
                return
            server.client = client.server = None
            if self._reset_always:
                self._reset(server)
                return
        elif server in self._idle:
            return
        self._idle.append(server) if self._round_robin else self._idle.appendleft(server)
        self._serve_queue()

    def _reset(self, server: ServerConn) -> None:
        """Reset a session without a client; :meth:`answered` takes it back."""
        server.status = ""
        self.database.received(server, _RESET)

    def _serve_queue(self) -> None:
        while self._queue and (self._idle or len(self._servers) < self._pool_size):
            self._forward(self._queue.popleft())

    def lost(self, server: ServerConn) -> None:
        """Drop a session that the server has ended, with its client."""
        if server not in self._servers:
            return
        self._servers.discard(server)
        if server in self._idle:
            self._idle.remove(server)
        if server.client is not None:
            client, server.client = server.client, None
            client.server = None
            self._close(client)
        self._serve_queue()
