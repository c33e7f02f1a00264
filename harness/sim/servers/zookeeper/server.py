"""A simulated ZooKeeper 3.8 server: connections, requests, replies and watch events of its clients.

Reads are answered from this server's own znodes, which may lag behind the leader's. Writes go to the leader and are
answered once they are committed and applied here (:mod:`harness.sim.servers.zookeeper.quorum`). Requests of one client
are answered in order. Not simulated: authentication (refused), access control lists other than the open one, containers
and times to live, persistent watches, observers, reconfiguration, read-only mode, four-letter words but ``srvr``, and
slow disks: a transaction is on disk at once.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from harness.sim.service import Conn, ServiceHost

from . import four_letters, jute, write_results
from .jute import NAMES, Code, JuteReader, Malformed, OpCode
from .tree import CHANGED, CHILDREN, CREATED, DELETED, SYSTEM, Tree, Txn, TxnResult
from .watches import WatchManager

CLIENT_PORT: Final = 2181
_WRITES: Final = {
    OpCode.CREATE,
    OpCode.CREATE2,
    OpCode.DELETE,
    OpCode.SETDATA,
    OpCode.SETACL,
    OpCode.MULTI,
    OpCode.SYNC,
    OpCode.CLOSE,
}


class QueuedRequest:
    """A client's request that waits for the requests before it, or for its transaction to be applied."""

    __slots__ = ("body", "client", "done", "op", "result", "xid")

    def __init__(self, client: ClientConnection, xid: int, op: int, body: bytes) -> None:
        self.client = client
        self.xid = xid
        self.op = op
        self.body = body
        self.done = op not in _WRITES
        self.result = TxnResult()


class ClientConnection:
    """One client's connection. ``session`` is 0 before the connect request arrives."""

    __slots__ = ("conn", "open", "requests", "rest", "session", "session_ready", "timeout")

    def __init__(self, conn: Conn) -> None:
        self.conn = conn
        self.rest = b""
        self.session_ready = False
        self.session = 0
        self.timeout = 0
        self.requests: deque[QueuedRequest] = deque()
        self.open = True


class Ensemble(Protocol):
    """Interface of a server to its ensemble. Results arrive as calls of methods of :class:`ZooKeeperServer`."""

    @property
    def mode(self) -> str:
        """The server's role: "standalone", "leader" or "follower"."""

    def submit(self, number: int, session: int, op: int, body: bytes) -> None:
        """Propose a request; :meth:`ZooKeeperServer.committed` is called with ``number`` when it is committed."""

    def revalidate(self, number: int, session: int, timeout: int) -> None:
        """Check a session whose client has reconnected to this server; :meth:`ZooKeeperServer.revalidated` is called
        with the answer. ``timeout`` is in ms."""

    def touch(self, session: int, timeout: int) -> None:
        """Restart the session's time-out, because its client was heard from."""


class ZooKeeperServer:
    """The :class:`harness.sim.service.Service` for clients; ``number`` is the server's id in the ensemble, from 1."""

    port = CLIENT_PORT

    def __init__(self, number: int, tick_ms: int) -> None:
        self.number = number
        self._timeouts = (2 * tick_ms, 20 * tick_ms)
        self.ensemble: Ensemble
        self.tree = Tree()
        self.on_command: Callable[[str, str], None] | None = None
        """Called with (client host, operation name) for each executed operation, before its answer is sent."""
        self.client_hosts: dict[int, str] = {}
        """Host of the client of each session created on this server, by session id; for observers."""
        self._host: ServiceHost
        self._generation = 0
        self._reset()

    def _reset(self) -> None:
        self.serving = False
        self._clients: dict[ClientConnection, None] = {}
        self._waiting: dict[int, QueuedRequest | ClientConnection] = {}
        self._watches = WatchManager(self._notify)
        self._last_number = 0
        self.next_session = 0
        """Id of the last session that was created here."""

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self._host = host
        if wiped:
            self.tree = Tree()
        self.use_tree(self.tree)
        elapsed = host.monotonic_ns() // 1_000_000
        self.next_session = self.number << 56 | elapsed << 24 >> 8 & (1 << 56) - 1

    def stop(self) -> None:
        self._generation += 1
        self._reset()

    def size(self) -> int:
        """Return the number of znodes, without the server's own."""
        return len(self.tree.nodes) - len(SYSTEM)

    def use_tree(self, tree: Tree) -> None:
        """Serve clients from these znodes."""
        self.tree = tree
        tree.trigger = self._trigger

    def set_serving(self, serving: bool) -> None:
        """Begin or cease to serve clients; ceasing closes all connections, because no majority backs this server."""
        self.serving = serving
        if not serving:
            for client in list(self._clients):
                self._drop(client)
            self._waiting.clear()

    # Connections.

    def opened(self, conn: Conn) -> None:
        if self.serving:
            conn.session = client = ClientConnection(conn)
            self._clients[client] = None
        else:
            conn.close()

    def closed(self, conn: Conn) -> None:
        if conn.session is not None:
            self._remove(conn.session)

    def _drop(self, client: ClientConnection) -> None:
        self._remove(client)
        client.conn.close()

    def _remove(self, client: ClientConnection) -> None:
        client.open = False
        if client in self._clients:
            del self._clients[client]
            self._watches.remove_client(client)
            client.requests.clear()

    def received(self, conn: Conn, data: bytes) -> None:
        client: ClientConnection = conn.session
        if client is None or not client.open:
            return
        generation = self._generation
        if not client.session_ready and (answer := self._four_letters(client.rest + data)) is not None:
            client.conn.send(answer)
            self._drop(client)
            return
        try:
            whole, client.rest = jute.frames(client.rest + data)
            for body in whole:
                if not client.open or generation != self._generation:
                    return
                if client.session_ready:
                    self._request(client, body)
                else:
                    self._connect(client, JuteReader(body))
        except Malformed:
            self._drop(client)

    def _four_letters(self, data: bytes) -> bytes | None:
        return four_letters.answer(data, self.tree, self.ensemble.mode)

    def _register(self, what: QueuedRequest | ClientConnection) -> int:
        self._last_number += 1
        self._waiting[self._last_number] = what
        return self._last_number

    # Sessions.

    def password(self, session: int) -> bytes:
        """Return the password that the server gave to the client of a session."""
        return hashlib.blake2s(session.to_bytes(8, "big", signed=True), digest_size=16).digest()

    def _connect(self, client: ClientConnection, reader: JuteReader) -> None:
        reader.integer()
        seen, timeout, session, password = reader.long(), reader.integer(), reader.long(), reader.buffer()
        if self.is_behind(seen):
            self._drop(client)
            return
        client.session_ready = True
        low, high = self._timeouts
        client.timeout = min(max(timeout, low), high)
        if not session:
            self.next_session += 1
            client.session = self.next_session
            self.client_hosts[client.session] = client.conn.peer
            number = self._register(client)
            self.ensemble.submit(number, client.session, OpCode.CREATE_SESSION, jute.integer(client.timeout))
            return
        for other in self.taken_over(client, session):
            self._drop(other)
        client.session = session
        if password == self.password(session):
            self.ensemble.revalidate(self._register(client), session, client.timeout)
        else:
            self._send_connect_response(client, valid=False)

    def taken_over(self, client: ClientConnection, session: int) -> list[ClientConnection]:  # noqa: ARG002
        """Return the connections that a session had on this server, before ``client`` resumed it."""
        return [other for other in self._clients if other.session == session]

    def is_behind(self, zxid: int) -> bool:
        """Return whether this server lags behind ``zxid``; it then refuses a client that has seen ``zxid``."""
        return zxid > self.tree.zxid

    def revalidated(self, number: int, valid: bool) -> None:
        """Answer a reconnected client: the ensemble says whether its session is alive."""
        client = self._waiting.pop(number, None)
        if isinstance(client, ClientConnection) and client.open:
            self._send_connect_response(client, valid)

    def _send_connect_response(self, client: ClientConnection, valid: bool) -> None:
        if not self._report(client, jute.CONNECT):
            return
        timeout, session = (client.timeout, client.session) if valid else (0, 0)
        password = self.password(session) if valid else bytes(16)
        body = jute.integer(0) + jute.integer(timeout) + jute.long(session) + jute.buffer(password)
        client.conn.send(jute.frame(body + jute.boolean(False)))
        if not valid:
            self._drop(client)

    # Requests.

    def _request(self, client: ClientConnection, body: bytes) -> None:
        reader = JuteReader(body)
        xid, op = reader.integer(), reader.integer()
        self.ensemble.touch(client.session, client.timeout)
        request = QueuedRequest(client, xid, op, body[8:])
        client.requests.append(request)
        if not request.done:
            self.ensemble.submit(self._register(request), client.session, op, request.body)
        elif len(client.requests) == 1:
            self._answer(client)

    def committed(self, txn: Txn, number: int | None) -> None:
        """Apply the next committed transaction, and answer request ``number`` if it came from this server."""
        generation = self._generation
        result = self.tree.apply(txn)
        waiting = None if number is None else self._waiting.pop(number, None)
        if isinstance(waiting, ClientConnection):
            if waiting.open:
                self._send_connect_response(waiting, valid=True)
        elif waiting is not None:
            waiting.done, waiting.result = True, result
            self._answer(waiting.client)
        if txn.op == OpCode.CLOSE and generation == self._generation:  # closed through another server, or expired
            for client in [client for client in self._clients if client.session == txn.session]:
                self._drop(client)

    def synced(self, number: int) -> None:
        """Answer a sync request: all that the leader had committed when it received it is applied here."""
        waiting = self._waiting.pop(number, None)
        if isinstance(waiting, QueuedRequest):
            waiting.done = True
            self._answer(waiting.client)

    def _answer(self, client: ClientConnection) -> None:
        """Answer completed requests, in the order of arrival."""
        while client.requests and client.requests[0].done and client.open:
            request = client.requests.popleft()
            if request.result.code == Code.SESSION_MOVED:
                self._drop(client)
                return
            code, body = request.result.code, b""
            if code == Code.OK:
                try:
                    code, body = self._execute(request)
                except Malformed:
                    code = Code.MARSHALLING
            codes = (code, *[part.code for _, part in request.result.parts])
            if what := jute.lacking(request.op, codes):
                self._host.lacks(client.conn.peer, what)
            if not self._report(client, NAMES.get(request.op, "")):
                return
            client.conn.send(jute.reply(request.xid, 0 if request.op == OpCode.AUTH else self.tree.zxid, code, body))
            if request.op in (OpCode.CLOSE, OpCode.AUTH) or request.op not in NAMES:
                self._drop(client)

    def _report(self, client: ClientConnection, name: str) -> bool:
        """Call ``on_command``; False if that ended the server or the connection."""
        if self.on_command is not None and name:
            generation = self._generation
            self.on_command(client.conn.peer, name)
            return generation == self._generation and client.open
        return True

    def _execute(self, request: QueuedRequest) -> tuple[int, bytes]:
        """Return the error code and the body of the reply to a request."""
        reader, result = JuteReader(request.body), request.result
        match request.op:
            case OpCode.PING | OpCode.CLOSE | OpCode.DELETE:
                return Code.OK, b""
            case OpCode.CREATE | OpCode.CREATE2 | OpCode.SETDATA | OpCode.SETACL:
                return Code.OK, write_results.single(request.op, result)
            case OpCode.MULTI:
                return Code.OK, write_results.multi(result)
            case OpCode.SYNC:
                return Code.OK, jute.buffer(reader.buffer())
            case OpCode.EXISTS | OpCode.GETDATA | OpCode.GETACL | OpCode.GETCHILDREN | OpCode.GETCHILDREN2:
                path = reader.path()
                return self._read(request, path, watch=request.op != OpCode.GETACL and reader.boolean())
            case OpCode.SETWATCHES | OpCode.SETWATCHES2:
                return self._set_watches(request.client, reader, recursive=request.op == OpCode.SETWATCHES2)
            case OpCode.AUTH:
                return Code.AUTH_FAILED, b""
        return Code.UNIMPLEMENTED, b""

    def _read(self, request: QueuedRequest, path: str, watch: bool) -> tuple[int, bytes]:
        if request.op == OpCode.EXISTS and "\0" in path:
            return Code.BAD_ARGUMENTS, b""
        node = self.tree.get(path)
        if watch and request.op == OpCode.EXISTS:  # an exists watch is set even if the node does not exist
            self._watches.watch_data(path, request.client)
        if node is None:
            return Code.NO_NODE, b""
        stat = jute.stat(node.stat())
        match request.op:
            case OpCode.EXISTS:
                return Code.OK, stat
            case OpCode.GETACL:
                return Code.OK, jute.acls(node.acl) + stat
            case OpCode.GETDATA:
                if watch:
                    self._watches.watch_data(path, request.client)
                return Code.OK, jute.buffer(node.data) + stat
        if watch:
            self._watches.watch_children(path, request.client)
        return Code.OK, jute.strings(node.child_names()) + (stat if request.op == OpCode.GETCHILDREN2 else b"")

    # Watches.

    def _trigger(self, kind: int, path: str) -> None:
        self._watches.trigger(kind, path)

    def _notify(self, client: ClientConnection, kind: int, path: str) -> None:
        client.conn.send(jute.event(kind, path))

    def _set_watches(self, client: ClientConnection, reader: JuteReader, recursive: bool) -> tuple[int, bytes]:
        """Set the watches of the client's previous connection again; changes that it missed are sent at once."""
        seen = reader.long()
        data, exist, child = reader.strings(), reader.strings(), reader.strings()
        if recursive and (reader.strings() or reader.strings()):
            return Code.UNIMPLEMENTED, b""
        for path in data:
            node = self.tree.get(path)
            if node is None:
                self._notify(client, DELETED, path)
            elif node.mzxid > seen:
                self._notify(client, CHANGED, path)
            else:
                self._watches.watch_data(path, client)
        for path in exist:
            if self.tree.get(path) is not None:
                self._notify(client, CREATED, path)
            else:
                self._watches.watch_data(path, client)
        for path in child:
            node = self.tree.get(path)
            if node is None:
                self._notify(client, DELETED, path)
            elif node.pzxid > seen:
                self._notify(client, CHILDREN, path)
            else:
                self._watches.watch_children(path, client)
        return Code.OK, b""
