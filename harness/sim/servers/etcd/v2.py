"""The v2 API of a simulated etcd member: keys over HTTP/1.1, beside gRPC on the port for clients.

``PUT``, ``GET`` and ``DELETE`` of ``/v2/keys/KEY`` with prevExist, prevValue, prevIndex, ttl, refresh and quorum, and
``GET /v2/machines``: server/etcdserver/api/v2http of etcd 3.4, which has it with ``--enable-v2``. A GET without quorum
is answered from what this member has. Abstracted: POST, wait, recursive and dir (answered 501), authentication.
Source: https://etcd.io/docs/v2.3/api/.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from ...grpc_wire import Failed
from ...service import Conn
from .member import CLUSTER_ID, Member
from .v2_store import COMPARE_FAILED, EXISTS, NOT_FOUND, NS_PER_S, Event, V2Error, V2Request

KEYS: Final = "/v2/keys"
METHODS: Final = (b"GET ", b"PUT ", b"DELETE ", b"POST ", b"HEAD ")
_STATUS: Final = {NOT_FOUND: 404, COMPARE_FAILED: 412, EXISTS: 412, 300: 500}
_BEYOND: Final = ("wait", "recursive", "dir", "stream", "sorted")
_BOOLS: Final = {**dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
                 **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False)}  # fmt: skip
OnDone = Callable[[str, str], None]


def is_http(data: bytes) -> bool:
    """Is this the beginning of a request over HTTP/1.1?"""
    return data.startswith(METHODS)


def commands(data: bytes) -> list[str]:
    """The methods of the requests that a client sends in one piece of data."""
    return [asked.method for asked in _split(data)[0]]


@dataclass(frozen=True, slots=True)
class _Asked:
    method: str
    target: str
    body: bytes

    def form(self) -> dict[str, str]:
        """Fields of the body, else of the address."""
        address = parse_qs(urlsplit(self.target).query, keep_blank_values=True)
        fields = {**address, **parse_qs(self.body.decode(), keep_blank_values=True)}
        return {name: values[0] for name, values in fields.items()}


class _Session:
    __slots__ = ("busy", "input", "waiting")

    def __init__(self) -> None:
        self.input = b""
        self.waiting: list[_Asked] = []
        self.busy = False


class V2Service:
    """``told`` is called with (client host, method) when a request is done, before its answer leaves."""

    def __init__(self, member: Member, machines: list[str], told: OnDone) -> None:
        self._member = member
        self._machines = machines
        self._told = told

    def received(self, conn: Conn, data: bytes) -> None:
        if not isinstance(conn.session, _Session):
            conn.session = _Session()
        session: _Session = conn.session
        asked, session.input = _split(session.input + data)
        session.waiting += asked
        self._next(conn)

    @staticmethod
    def mine(conn: Conn) -> bool:
        """Has this connection spoken HTTP/1.1?"""
        return isinstance(conn.session, _Session)

    def _next(self, conn: Conn) -> None:
        session: _Session = conn.session
        if session.waiting and not session.busy:
            session.busy = True
            self._serve(conn, session.waiting.pop(0))

    def _serve(self, conn: Conn, asked: _Asked) -> None:
        path = unquote(urlsplit(asked.target).path)
        if path == "/v2/machines":
            self._answer(conn, asked, 200, ", ".join(self._machines).encode())
            return
        form = asked.form()
        beyond = [name for name in _BEYOND if form.get(name, "false") != "false"]
        if not path.startswith(KEYS + "/") or asked.method not in ("GET", "PUT", "DELETE") or beyond:
            self._answer(conn, asked, 501, f"not simulated: {asked.method} {asked.target}\n".encode())
            return
        try:
            self._do(conn, asked, path.removeprefix(KEYS), form)
        except V2Error as refused:
            self._later(conn, asked, refused)

    def _do(self, conn: Conn, asked: _Asked, key: str, form: dict[str, str]) -> None:
        host = self._member.host
        request = _request(asked.method, key, form, host.wall_ns())
        if asked.method == "GET" and not _boolean(form, "quorum"):
            self._later(conn, asked, self._member.v2.get(key, host.wall_ns()))
        else:
            self._member.propose("v2", request, lambda result: self._tell(conn, asked, result))

    # Answers.

    def _later(self, conn: Conn, asked: _Asked, result: Any) -> None:
        """In a turn of its own: a fault that waits for it may kill the host."""
        self._member.host.call_later(0, self._tell, conn, asked, result)

    def _tell(self, conn: Conn, asked: _Asked, result: Event | V2Error | Failed) -> None:
        if isinstance(result, Failed):
            result = V2Error(300, result.details)
        status = _STATUS.get(result.code, 400) if isinstance(result, V2Error) else 201 if _is_new(result) else 200
        told = result.told() if isinstance(result, V2Error) else result.told
        self._answer(conn, asked, status, json.dumps(told, separators=(",", ":")).encode() + b"\n", result.index)

    def _answer(self, conn: Conn, asked: _Asked, status: int, body: bytes, index: int | None = None) -> None:
        disk = self._member.raft.disk
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"Content-Type: {'text/plain' if index is None else 'application/json'}",
            f"X-Etcd-Cluster-Id: {CLUSTER_ID:x}",
        ]
        if index is not None:
            lines += [f"X-Etcd-Index: {index}", f"X-Raft-Index: {disk.applied}", f"X-Raft-Term: {disk.term}"]
        lines += [f"Content-Length: {len(body)}", "", ""]
        self._told(conn.peer, asked.method)
        conn.send("\r\n".join(lines).encode() + body)
        conn.session.busy = False
        self._next(conn)


def _is_new(event: Event) -> bool:
    return event.new and event.told["action"] in ("create", "set")


def _split(data: bytes) -> tuple[list[_Asked], bytes]:
    """The whole requests at the start of ``data``, and what is left over."""
    found = []
    while b"\r\n\r\n" in data:
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(fields.get("content-length", "0"))
        if len(rest) < size:
            break
        method, target, *_ = first.split(" ")
        found.append(_Asked(method, target, rest[:size]))
        data = rest[size:]
    return found, data


# What a form says: etcd's parseKeyRequest.


def _request(method: str, key: str, form: dict[str, str], wall_ns: int) -> V2Request:
    """Raises V2Error."""
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
