"""A simulated Consul 1.15.4 server, alone in its cluster: connections, sessions' timers and lock-delays.

Served: ``/v1/kv/KEY`` (GET, PUT, DELETE with acquire, release, cas, flags, index, wait, consistent, stale),
``/v1/session/`` create, destroy, renew and info, ``/v1/status/leader`` (:mod:`.api`). Everything else is answered 501.

A session ends after twice its TTL, and its keys then have its lock-delay. Timers and lock-delays are in the memory of
the leader, by its monotonic clock: a server that is started again lets all lock-delays go, and begins each TTL anew. It
needs one to two seconds to become leader again; requests wait for that (at most seven seconds on a real server).
Abstracted: agents beside clients, health checks, ACLs, the wire protocol between servers.
Source: agent/consul (session_ttl.go, kvs_endpoint.go, state/delay_oss.go).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from harness.sim.servers.http import HttpRequest, parse_requests
from harness.sim.service import Conn, ServiceHost, Timer

from .api import BlockingQuery, ConsulApi
from .store import NS_PER_S, ConsulStore
from .values import MOST_LOCK_DELAY_NS

PORT: Final = 8500
TTL_MULTIPLIER: Final = 2
ELECTION_NS: Final = NS_PER_S
"""Shortest time from a start with data until the server is leader; the longest is twice that."""


class _HttpSession:
    __slots__ = ("busy", "input", "query", "waiting")

    def __init__(self) -> None:
        self.input = b""
        self.waiting: list[HttpRequest] = []
        self.busy = False
        self.query: BlockingQuery | None = None


class ConsulServer:
    """The server's :class:`~harness.sim.service.Service`.

    ``on_command`` is called with (client host, HTTP method) when a request has been executed, before its answer is
    sent. It may kill this server.
    """

    def __init__(self, node: str, port: int = PORT) -> None:
        self.port = port
        self.node = node
        self.on_command: Callable[[str, str], None] | None = None
        self.store: ConsulStore | None = None
        self.leads = False
        self._host: ServiceHost | None = None
        self._timers: dict[str, Timer] = {}
        self._delays: dict[str, int] = {}
        """End of each key's lock-delay, monotonic ns."""
        self._early: list[Conn] = []
        """Connections with requests that wait for a leader."""
        self._api: ConsulApi | None = None
        self._queries: dict[str, list[BlockingQuery]] = {}

    # Start and stop.

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self._host = host
        if self.store is None or wiped:
            self.store = ConsulStore()
            self._lead()
        else:
            host.call_later(ELECTION_NS + host.rng.randrange(ELECTION_NS), self._lead)

    def _lead(self) -> None:
        assert self.store is not None
        self.leads = True
        self.store.on_change = self._wake
        self._api = ConsulApi(self, self.store)
        for session in self.store.sessions:
            self.renew(session)
        waiting, self._early = self._early, []
        for conn in waiting:
            self._next(conn)

    def stop(self) -> None:
        self.leads = False
        self._api = None
        self._timers.clear()
        self._delays.clear()
        self._early.clear()
        self._queries.clear()

    def size(self) -> int:
        """Return the number of keys."""
        return len(self.store.keys) if self.store else 0

    # Timers of sessions, and lock-delays.

    @property
    def host(self) -> ServiceHost:
        assert self._host is not None
        return self._host

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.host.rng.getrandbits(128)))

    def renew(self, session_id: str) -> None:
        """Begin the TTL of a session anew."""
        assert self.store is not None
        ttl_ns = self.store.sessions[session_id].ttl_ns
        self.clear_timer(session_id)
        if ttl_ns:
            self._timers[session_id] = self.host.call_later(TTL_MULTIPLIER * ttl_ns, self.end_session, session_id)

    def clear_timer(self, session_id: str) -> None:
        timer = self._timers.pop(session_id, None)
        if timer is not None:
            timer.cancel()

    def end_session(self, session_id: str) -> None:
        """Destroy a session; nobody can acquire the keys that it held until its lock-delay is over."""
        assert self.store is not None
        self.clear_timer(session_id)
        ended = self.store.destroy(session_id)
        if ended is None:
            return
        session, keys = ended
        delay_ns = min(session.lock_delay_ns, MOST_LOCK_DELAY_NS)
        self._delays.update(dict.fromkeys(keys, self.host.monotonic_ns() + delay_ns))

    def delayed(self, key: str) -> bool:
        """Return whether a lock-delay of the key is in effect."""
        return self._delays.get(key, 0) > self.host.monotonic_ns()

    # Connections.

    def opened(self, conn: Conn) -> None:
        conn.session = _HttpSession()

    def closed(self, conn: Conn) -> None:
        session: _HttpSession = conn.session
        if session.query is not None:
            self._forget(session.query)

    def received(self, conn: Conn, data: bytes) -> None:
        session: _HttpSession = conn.session
        requests, session.input = parse_requests(session.input + data)
        session.waiting += requests
        self._next(conn)

    def _next(self, conn: Conn) -> None:
        session: _HttpSession = conn.session
        if not session.waiting or session.busy:
            return
        if self._api is None:
            self._early.append(conn)
            return
        session.busy = True
        request = session.waiting.pop(0)
        answer = self._api.execute(request)
        if isinstance(answer, BlockingQuery):
            answer.answer = lambda: self._end_query(conn, request, answer)
            answer.timer = self.host.call_later(answer.limit_ns(self.host.rng), answer.answer)
            session.query = answer
            self._queries.setdefault(answer.key, []).append(answer)
        else:
            if answer[0] == HTTPStatus.NOT_IMPLEMENTED:
                self.host.lacks(conn.peer, f"{request.method} {request.target} of Consul")
            # An event of its own: a fault that is triggered by the answer may kill the host.
            self.host.call_later(0, self._send, conn, request, *answer)

    # Blocking queries.

    def _wake(self, key: str) -> None:
        for query in tuple(self._queries.get(key, ())):
            if query.is_due():
                self._forget(query)
                self.host.call_later(0, query.answer)

    def _forget(self, query: BlockingQuery) -> None:
        if query in self._queries.get(query.key, ()):
            self._queries[query.key].remove(query)
        if query.timer is not None:
            query.timer.cancel()

    def _end_query(self, conn: Conn, request: HttpRequest, query: BlockingQuery) -> None:
        self._forget(query)
        conn.session.query = None
        self._send(conn, request, *query.result())

    def _send(self, conn: Conn, request: HttpRequest, status: int, body: Any, index: int | None) -> None:
        text = body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body).encode()
        kind = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Type: {kind}"]
        if index is not None:
            lines += [f"X-Consul-Index: {index}", "X-Consul-KnownLeader: true", "X-Consul-LastContact: 0"]
        if self.on_command is not None:
            self.on_command(conn.peer, request.method)
        conn.send("\r\n".join([*lines, f"Content-Length: {len(text)}", "", ""]).encode() + text)
        conn.session.busy = False
        self._next(conn)


def commands(data: bytes) -> list[str]:
    """Return the HTTP methods of the requests in one piece of data from a client."""
    return [request.method for request in parse_requests(data)[0]]
