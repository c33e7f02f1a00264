"""Requests of Consul's HTTP API, as agent/kvs_endpoint.go and agent/session_endpoint.go of Consul 1.15.4 do them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from harness.sim.servers.http import HttpRequest
from harness.sim.service import Timer

from .store import NS_PER_S, ConsulStore, Refused
from .values import entry_json, parse_duration, parse_session, session_json

DEFAULT_WAIT_NS: Final = 300 * NS_PER_S
MOST_WAIT_NS: Final = 600 * NS_PER_S
JITTER: Final = 16
"""A blocking query takes up to this fraction of its wait longer."""
SERVED: Final = frozenset({"acquire", "release", "cas", "flags", "index", "wait", "consistent", "stale", "dc"})
_KV: Final = "/v1/kv/"
_SESSION: Final = "/v1/session/"

Answer = tuple[int, Any, int | None]
"""HTTP status, body (a text, or what becomes JSON; None for an empty one), index or None."""


class SessionHost(Protocol):
    """The part of a server that is not in its store: the timers of sessions, and lock-delays."""

    node: str

    def new_id(self) -> str: ...

    def renew(self, session_id: str) -> None: ...

    def end_session(self, session_id: str) -> None: ...

    def delayed(self, key: str) -> bool: ...


class BlockingQuery:
    """A GET of a key that waits for an index above ``index``, for ``wait_ns`` at most."""

    def __init__(self, store: ConsulStore, key: str, index: int, wait_ns: int) -> None:
        self.key = key
        self.timer: Timer | None = None
        self.answer: Callable[[], None] = lambda: None
        self._store = store
        self._index = index
        self._wait_ns = wait_ns
        self._absent = False

    def limit_ns(self, rng: Random) -> int:
        """Return how long the query may wait."""
        wait_ns = min(self._wait_ns, MOST_WAIT_NS) if self._wait_ns else DEFAULT_WAIT_NS
        return wait_ns + rng.randrange(wait_ns // JITTER + 1)

    def result(self) -> Answer:
        entry = self._store.keys.get(self.key)
        if entry is None:
            return 404, None, max(1, self._store.keys_index)
        return 200, [entry_json(self.key, entry)], entry.modify_index

    def is_due(self) -> bool:
        """Return whether the query is to be answered now; a key that stays absent does not count as changed."""
        status, _, index = self.result()
        assert index is not None
        if status == 404:
            if self._absent:
                self._index = index
            self._absent = True
        return index > self._index


class ConsulApi:
    """Executes requests on a store."""

    def __init__(self, host: SessionHost, store: ConsulStore) -> None:
        self._host = host
        self._store = store

    def execute(self, request: HttpRequest) -> Answer | BlockingQuery:
        path = unquote(urlsplit(request.target).path)
        fields = request.query()
        try:
            if path.startswith(_KV) and fields.keys() <= SERVED:
                return self._kv(request, path.removeprefix(_KV), fields)
            if path.startswith(_SESSION):
                verb, _, session_id = path.removeprefix(_SESSION).partition("/")
                return self._session(request, verb, session_id)
            if path == "/v1/status/leader":
                return 200, f'"{self._host.node}:8300"', None
        except Refused as refused:
            return refused.status, str(refused), None
        return _not_simulated(request)

    # Keys.

    def _kv(self, request: HttpRequest, key: str, fields: dict[str, str]) -> Answer | BlockingQuery:
        if not key:
            raise Refused("Missing key name", 400)
        if request.method == "GET":
            return self._get(key, fields)
        if request.method == "PUT":
            return 200, self._put(key, request.body, fields), None
        if request.method == "DELETE":
            return 200, self._store.delete(key, _number(fields, "cas")), None
        return _not_simulated(request)

    def _get(self, key: str, fields: dict[str, str]) -> Answer | BlockingQuery:
        wait_ns = parse_duration(fields.get("wait") or "0")
        if wait_ns is None:
            raise Refused("Invalid wait time", 400)
        index = _number(fields, "index") or 0
        query = BlockingQuery(self._store, key, index, wait_ns)
        return query if index and not query.is_due() else query.result()

    def _put(self, key: str, value: bytes, fields: dict[str, str]) -> bool:
        conditions = fields.keys() & {"acquire", "release", "cas"}
        if len(conditions) > 1:
            raise Refused(f"Conflicting flags: {'&'.join(sorted(conditions))}", 400)
        flags = _number(fields, "flags") or 0
        if "acquire" in fields:
            return not self._host.delayed(key) and self._store.lock(key, value, flags, fields["acquire"])
        if "release" in fields:
            return self._store.unlock(key, value, flags, fields["release"])
        return self._store.put(key, value, flags, _number(fields, "cas"))

    # Sessions.

    def _session(self, request: HttpRequest, verb: str, session_id: str) -> Answer:
        sessions = self._store.sessions
        if request.method == "PUT" and verb == "create":
            session = parse_session(request.body, self._host.new_id(), self._host.node)
            self._store.create(session)
            self._host.renew(session.id)
            return 200, {"ID": session.id}, None
        if request.method == "PUT" and verb == "destroy":
            self._host.end_session(session_id)
            return 200, True, None
        if request.method == "PUT" and verb == "renew":
            if session_id not in sessions:
                raise Refused(f"Session id '{session_id}' not found", 404)
            self._host.renew(session_id)
            return 200, [session_json(sessions[session_id])], None
        if request.method == "GET" and verb == "info" and "index" not in request.query():
            found = [session_json(sessions[session_id])] if session_id in sessions else []
            return 200, found, max(1, self._store.sessions_index)
        return _not_simulated(request)


def _not_simulated(request: HttpRequest) -> Answer:
    return 501, f"not simulated: {request.method} {request.target}", None


def _number(fields: dict[str, str], name: str) -> int | None:
    text = fields.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise Refused(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)
