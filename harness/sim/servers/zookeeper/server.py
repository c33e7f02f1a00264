"""A simulated ZooKeeper 3.8 server: sessions, requests, replies and watch events of its clients.

Reads are answered here from this server's own znodes, which may lag behind; writes go to the leader and are answered
once they have been committed and applied here (:mod:`harness.sim.servers.zookeeper.quorum`). What one client asks is
answered in the order asked. Not there: authentication (refused), access control beyond the open list, containers and
times to live, persistent watches, observers, reconfiguration, read-only mode, four-letter words, and the disk's time:
a transaction is on disk at once.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from harness.sim.servers.zookeeper import jute

from ...service import Conn, ServiceHost
from .jute import NAMES, Code, Malformed, Op, Reader
from .tree import CHANGED, CHILDREN, CREATED, DELETED, SYSTEM, Result, Tree, Txn
from .watches import Watches

CLIENT_PORT: Final = 2181
_WRITES: Final = {Op.CREATE, Op.CREATE2, Op.DELETE, Op.SETDATA, Op.SETACL, Op.MULTI, Op.SYNC, Op.CLOSE}


class Asked:
    """A request that waits for its turn or for its transaction."""

    __slots__ = ("body", "client", "done", "op", "result", "xid")

    def __init__(self, client: Client, xid: int, op: int, body: bytes) -> None:
        self.client = client
        self.xid = xid
        self.op = op
        self.body = body
        self.done = op not in _WRITES
        self.result = Result()


class Client:
    """One connection. ``session`` is 0 until the server has answered its connect request."""

    __slots__ = ("asked", "conn", "greeted", "open", "rest", "session", "timeout")

    def __init__(self, conn: Conn) -> None:
        self.conn = conn
        self.rest = b""
        self.greeted = False
        self.session = 0
        self.timeout = 0
        self.asked: deque[Asked] = deque()
        self.open = True


class Ensemble(Protocol):
    """What a server asks of the servers together. Answers come through the methods of :class:`ZooKeeperServer`."""

    def submit(self, number: int, session: int, op: int, body: bytes) -> None:
        """Make this a transaction; :meth:`ZooKeeperServer.committed` is called with the number."""

    def revalidate(self, number: int, session: int, timeout: int) -> None:
        """Is this session alive? The client has come to this server;  :meth:`ZooKeeperServer.revalidated` is called."""

    def touch(self, session: int, timeout: int) -> None:
        """Its client was heard of."""


class ZooKeeperServer:
    """A service (:class:`harness.sim.service.Service`) for clients; ``number`` is its id in the ensemble, from 1."""

    port = CLIENT_PORT

    def __init__(self, number: int, tick_ms: int) -> None:
        self.number = number
        self._timeouts = (2 * tick_ms, 20 * tick_ms)
        self.ensemble: Ensemble
        self.tree = Tree()
        self.on_command: Callable[[str, str], None] | None = None
        """Told (client's host, name of the operation) when one has been executed, before its answer leaves."""
        self.hosts: dict[int, str] = {}
        """Session to the host of its client, of those that have come here: for observers."""
        self._host: ServiceHost
        self._life = 0
        self._reset()

    def _reset(self) -> None:
        self.serving = False
        self._clients: dict[Client, None] = {}
        self._waiting: dict[int, Asked | Client] = {}
        self._watches = Watches(self._notify)
        self._numbers = 0
        self._next_session = 0

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self._host = host
        if wiped:
            self.tree = Tree()
        self.use(self.tree)
        elapsed = host.monotonic_ns() // 1_000_000
        self._next_session = self.number << 56 | elapsed << 24 >> 8 & (1 << 56) - 1

    def stop(self) -> None:
        self._life += 1
        self._reset()

    def size(self) -> int:
        """How many znodes there are, beside the server's own."""
        return len(self.tree.nodes) - len(SYSTEM)

    def use(self, tree: Tree) -> None:
        """Serve from these znodes."""
        self.tree = tree
        tree.trigger = self._trigger

    def serve(self, yes: bool) -> None:
        """Begin to serve, or stop: all connections are closed, as there is no majority behind this server."""
        self.serving = yes
        if not yes:
            for client in list(self._clients):
                self._drop(client)
            self._waiting.clear()

    # Connections.

    def opened(self, conn: Conn) -> None:
        if self.serving:
            conn.session = client = Client(conn)
            self._clients[client] = None
        else:
            conn.close()

    def closed(self, conn: Conn) -> None:
        if conn.session is not None:
            self._forget(conn.session)

    def _drop(self, client: Client) -> None:
        self._forget(client)
        client.conn.close()

    def _forget(self, client: Client) -> None:
        client.open = False
        if client in self._clients:
            del self._clients[client]
            self._watches.forget(client)
            client.asked.clear()

    def received(self, conn: Conn, data: bytes) -> None:
        client: Client = conn.session
        if client is None or not client.open:
            return
        life = self._life
        try:
            whole, client.rest = jute.frames(client.rest + data)
            for body in whole:
                if not client.open or life != self._life:
                    return
                if client.greeted:
                    self._request(client, body)
                else:
                    self._connect(client, Reader(body))
        except Malformed:
            self._drop(client)

    def _wait_for(self, what: Asked | Client) -> int:
        self._numbers += 1
        self._waiting[self._numbers] = what
        return self._numbers

    # Sessions.

    def _password(self, session: int) -> bytes:
        return hashlib.blake2s(session.to_bytes(8, "big", signed=True), digest_size=16).digest()

    def _connect(self, client: Client, reader: Reader) -> None:
        reader.integer()
        seen, timeout, session, password = reader.long(), reader.integer(), reader.long(), reader.buffer()
        if self.behind(seen):
            self._drop(client)
            return
        client.greeted = True
        low, high = self._timeouts
        client.timeout = min(max(timeout, low), high)
        if not session:
            self._next_session += 1
            client.session = self._next_session
            self.hosts[client.session] = client.conn.peer
            number = self._wait_for(client)
            self.ensemble.submit(number, client.session, Op.CREATE_SESSION, jute.integer(client.timeout))
            return
        for other in [other for other in self._clients if other.session == session]:
            self._drop(other)
        client.session = session
        if password == self._password(session):
            self.ensemble.revalidate(self._wait_for(client), session, client.timeout)
        else:
            self._greet(client, valid=False)

    def behind(self, zxid: int) -> bool:
        """Whether a client that has seen this must find another server: it would see time go backwards."""
        return zxid > self.tree.zxid

    def revalidated(self, number: int, valid: bool) -> None:
        client = self._waiting.pop(number, None)
        if isinstance(client, Client) and client.open:
            self._greet(client, valid)

    def _greet(self, client: Client, valid: bool) -> None:
        if not self._executed(client, jute.CONNECT):
            return
        timeout, session = (client.timeout, client.session) if valid else (0, 0)
        password = self._password(session) if valid else bytes(16)
        body = jute.integer(0) + jute.integer(timeout) + jute.long(session) + jute.buffer(password)
        client.conn.send(jute.frame(body + jute.boolean(False)))
        if not valid:
            self._drop(client)

    # Requests.

    def _request(self, client: Client, body: bytes) -> None:
        reader = Reader(body)
        xid, op = reader.integer(), reader.integer()
        self.ensemble.touch(client.session, client.timeout)
        asked = Asked(client, xid, op, body[8:])
        client.asked.append(asked)
        if not asked.done:
            self.ensemble.submit(self._wait_for(asked), client.session, op, asked.body)
        elif len(client.asked) == 1:
            self._answer(client)

    def committed(self, txn: Txn, number: int | None) -> None:
        """The next transaction in order; ``number`` is that of this server's own request, if it was one."""
        life = self._life
        result = self.tree.apply(txn)
        waiting = None if number is None else self._waiting.pop(number, None)
        if isinstance(waiting, Client):
            if waiting.open:
                self._greet(waiting, valid=True)
        elif waiting is not None:
            waiting.done, waiting.result = True, result
            self._answer(waiting.client)
        if txn.op == Op.CLOSE and life == self._life:  # closed from elsewhere, or over
            for client in [client for client in self._clients if client.session == txn.session]:
                self._drop(client)

    def synced(self, number: int) -> None:
        """All that the leader had committed when it was asked has been applied here."""
        waiting = self._waiting.pop(number, None)
        if isinstance(waiting, Asked):
            waiting.done = True
            self._answer(waiting.client)

    def _answer(self, client: Client) -> None:
        """Answer what is due, in order."""
        while client.asked and client.asked[0].done and client.open:
            asked = client.asked.popleft()
            if asked.result.code == Code.SESSION_MOVED:
                self._drop(client)
                return
            code, body = asked.result.code, b""
            if code == Code.OK:
                try:
                    code, body = self._execute(asked)
                except Malformed:
                    code = Code.MARSHALLING
            if not self._executed(client, NAMES.get(asked.op, "")):
                return
            client.conn.send(jute.reply(asked.xid, 0 if asked.op == Op.AUTH else self.tree.zxid, code, body))
            if asked.op in (Op.CLOSE, Op.AUTH) or asked.op not in NAMES:
                self._drop(client)

    def _executed(self, client: Client, name: str) -> bool:
        """Let the observer look; False if the server or the connection has not survived it."""
        if self.on_command is not None and name:
            life = self._life
            self.on_command(client.conn.peer, name)
            return life == self._life and client.open
        return True

    def _execute(self, asked: Asked) -> tuple[int, bytes]:
        """The code and the body of the reply to a request whose turn has come."""
        reader, result = Reader(asked.body), asked.result
        match asked.op:
            case Op.PING | Op.CLOSE | Op.DELETE:
                return Code.OK, b""
            case Op.CREATE | Op.CREATE2 | Op.SETDATA | Op.SETACL:
                return Code.OK, _written(asked.op, result)
            case Op.MULTI:
                return Code.OK, _multi(result)
            case Op.SYNC:
                return Code.OK, jute.buffer(reader.buffer())
            case Op.EXISTS | Op.GETDATA | Op.GETACL | Op.GETCHILDREN | Op.GETCHILDREN2:
                path = reader.path()
                return self._read(asked, path, watch=asked.op != Op.GETACL and reader.boolean())
            case Op.SETWATCHES | Op.SETWATCHES2:
                return self._set_watches(asked.client, reader, recursive=asked.op == Op.SETWATCHES2)
            case Op.AUTH:
                return Code.AUTH_FAILED, b""
        return Code.UNIMPLEMENTED, b""

    def _read(self, asked: Asked, path: str, watch: bool) -> tuple[int, bytes]:
        if asked.op == Op.EXISTS and "\0" in path:
            return Code.BAD_ARGUMENTS, b""
        node = self.tree.get(path)
        if watch and asked.op == Op.EXISTS:  # also for what does not exist yet
            self._watches.watch_data(path, asked.client)
        if node is None:
            return Code.NO_NODE, b""
        stat = jute.stat(node.stat())
        match asked.op:
            case Op.EXISTS:
                return Code.OK, stat
            case Op.GETACL:
                return Code.OK, jute.acls(node.acl) + stat
            case Op.GETDATA:
                if watch:
                    self._watches.watch_data(path, asked.client)
                return Code.OK, jute.buffer(node.data) + stat
        if watch:
            self._watches.watch_children(path, asked.client)
        return Code.OK, jute.strings(node.names()) + (stat if asked.op == Op.GETCHILDREN2 else b"")

    # Watches.

    def _trigger(self, kind: int, path: str) -> None:
        self._watches.trigger(kind, path)

    def _notify(self, client: Client, kind: int, path: str) -> None:
        client.conn.send(jute.event(kind, path))

    def _set_watches(self, client: Client, reader: Reader, recursive: bool) -> tuple[int, bytes]:
        """Watches that a client had on its last connection; it is told at once what it has missed."""
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


def _written(op: int, result: Result) -> bytes:
    match op:
        case Op.CREATE:
            return jute.string(result.path)
        case Op.CREATE2:
            return jute.string(result.path) + jute.stat(result.stat)
        case Op.SETDATA | Op.SETACL:
            return jute.stat(result.stat)
    return b""


def _multi(result: Result) -> bytes:
    """A failed transaction is a reply without error whose parts are errors."""
    parts = []
    for number, part in result.parts:
        op = Op.CREATE if number == Op.CREATE2 else number  # the real server does not tell them apart here
        body = jute.integer(part.code) if op == Op.ERROR else _written(op, part)
        parts.append(jute.integer(op) + jute.boolean(False) + jute.integer(part.code) + body)
    return b"".join(parts) + jute.integer(-1) + jute.boolean(True) + jute.integer(-1)
