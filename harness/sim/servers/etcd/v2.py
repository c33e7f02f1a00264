"""The v2 API of a simulated etcd member: keys over HTTP/1.1, on the same port as gRPC.

``PUT``, ``GET`` and ``DELETE`` of ``/v2/keys/KEY`` with prevExist, prevValue, prevIndex, ttl, refresh and quorum, and
``GET /v2/machines``, as server/etcdserver/api/v2http of etcd 3.4 serves them with ``--enable-v2``. A GET without quorum
is answered from this member's own data. Abstracted: POST, wait, recursive and dir (answered 501), authentication.
Source: https://etcd.io/docs/v2.3/api/.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from harness.sim.grpc_wire import StatusError
from harness.sim.servers.http import HttpRequest, parse_requests
from harness.sim.service import Conn

from .member import CLUSTER_ID, Member
from .v2_store import COMPARE_FAILED, EXISTS, NOT_FOUND, NS_PER_S, V2Error, V2Event, V2Request

KEYS: Final = "/v2/keys"
METHODS: Final = (b"GET ", b"PUT ", b"DELETE ", b"POST ", b"HEAD ")
_STATUS: Final = {NOT_FOUND: 404, COMPARE_FAILED: 412, EXISTS: 412, 300: 500}
_NOT_SIMULATED: Final = ("wait", "recursive", "dir", "stream", "sorted")
_BOOLS: Final = {**dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
                 **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False)}  # fmt: skip
OnRequest = Callable[[str, str], None]


def is_http(data: bytes) -> bool:
    """Return whether ``data`` begins with an HTTP/1.1 request."""
    return data.startswith(METHODS)


def commands(data: bytes) -> list[str]:
    """Return the HTTP methods of the requests in one piece of data from a client."""
    return [request.method for request in parse_requests(data)[0]]


class _HttpSession:
    __slots__ = ("busy", "input", "waiting")

    def __init__(self) -> None:
        self.input = b""
        self.waiting: list[HttpRequest] = []
        self.busy = False


class V2Service:
    """HTTP requests of the v2 API on one member.

    ``machines`` are the client URLs of all members. ``report`` is called with (client host, method) when a request has
    been executed, before its answer is sent.
    """

    def __init__(self, member: Member, machines: list[str], report: OnRequest) -> None:
        self._member = member
        self._machines = machines
        self._report = report

    def received(self, conn: Conn, data: bytes) -> None:
        if not isinstance(conn.session, _HttpSession):
            conn.session = _HttpSession()
        session: _HttpSession = conn.session
        requests, session.input = parse_requests(session.input + data)
        session.waiting += requests
        self._next(conn)

    @staticmethod
    def owns(conn: Conn) -> bool:
        """Return whether HTTP/1.1 has been received on this connection."""
        return isinstance(conn.session, _HttpSession)

    def _next(self, conn: Conn) -> None:
        session: _HttpSession = conn.session
        if session.waiting and not session.busy:
            session.busy = True
            self._serve(conn, session.waiting.pop(0))

    def _serve(self, conn: Conn, request: HttpRequest) -> None:
        path = unquote(urlsplit(request.target).path)
        if path == "/v2/machines":
            self._answer(conn, request, 200, ", ".join(self._machines).encode())
            return
        form = request.form()
        unsupported = [name for name in _NOT_SIMULATED if form.get(name, "false") != "false"]
        if not path.startswith(KEYS + "/") or request.method not in ("GET", "PUT", "DELETE") or unsupported:
            self._member.host.lacks(conn.peer, f"{request.method} {request.target} of etcd's HTTP API")
            self._answer(conn, request, 501, f"not simulated: {request.method} {request.target}\n".encode())
            return
        try:
            self._execute(conn, request, path.removeprefix(KEYS), form)
        except V2Error as refused:
            self._answer_later(conn, request, refused)

    def _execute(self, conn: Conn, request: HttpRequest, key: str, form: dict[str, str]) -> None:
        host = self._member.host
        entry = _key_request(request.method, key, form, host.wall_ns())
        if request.method == "GET" and not _boolean(form, "quorum"):
            self._answer_later(conn, request, self._member.v2.get(key, host.wall_ns()))
        else:
            self._member.propose("v2", entry, lambda result: self._answer_result(conn, request, result))

    # Answers.

    def _answer_later(self, conn: Conn, request: HttpRequest, result: Any) -> None:
        """Answer in an event of its own: a fault that is triggered by the answer may kill the host."""
        self._member.host.call_later(0, self._answer_result, conn, request, result)

    def _answer_result(self, conn: Conn, request: HttpRequest, result: V2Event | V2Error | StatusError) -> None:
        if isinstance(result, StatusError):
            result = V2Error(300, result.details)
        status = _STATUS.get(result.code, 400) if isinstance(result, V2Error) else 201 if _is_created(result) else 200
        answer = result.body() if isinstance(result, V2Error) else result.body
        self._answer(conn, request, status, json.dumps(answer, separators=(",", ":")).encode() + b"\n", result.index)

    def _answer(self, conn: Conn, request: HttpRequest, status: int, body: bytes, index: int | None = None) -> None:
        disk = self._member.raft.disk
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"Content-Type: {'text/plain' if index is None else 'application/json'}",
            f"X-Etcd-Cluster-Id: {CLUSTER_ID:x}",
        ]
        if index is not None:
            lines += [f"X-Etcd-Index: {index}", f"X-Raft-Index: {disk.applied}", f"X-Raft-Term: {disk.term}"]
        lines += [f"Content-Length: {len(body)}", "", ""]
        self._report(conn.peer, request.method)
        conn.send("\r\n".join(lines).encode() + body)
        conn.session.busy = False
        self._next(conn)


def _is_created(event: V2Event) -> bool:
    return event.created and event.body["action"] in ("create", "set")


def _key_request(method: str, key: str, form: dict[str, str], wall_ns: int) -> V2Request:
    """Convert form fields into a request, as etcd's parseKeyRequest does. Raises V2Error."""
    prev_index = _number(form, "prevIndex", 203)
    if form.get("prevValue") == "":
        raise V2Error(201, '"prevValue" cannot be empty')
    ttl = _number(form, "ttl", 202) if form.get("ttl") else None
    exist = _boolean(form, "prevExist") if "prevExist" in form else None
    refresh = _boolean(form, "refresh")
    if refresh and form.get("value"):
        raise V2Error(211, "A value was provided on a refresh")
    if refresh and ttl is None:
        raise V2Error(212, "No TTL value set")
    return V2Request(
        method, key, form.get("value", ""), exist, form.get("prevValue", ""), prev_index,
        0 if ttl is None else wall_ns + ttl * NS_PER_S, refresh,
    )  # fmt: skip


def _number(form: dict[str, str], name: str, code: int) -> int:
    text = form.get(name, "0")
    if not (text.isascii() and text.isdigit()):
        raise V2Error(code, f'invalid value for "{name}"')
    return int(text)


def _boolean(form: dict[str, str], name: str) -> bool:
    found = _BOOLS.get(form.get(name, "false"))
    if found is None:
        raise V2Error(209, "invalid value for " + (f'"{name}"' if name == "quorum" else name))
    return found
