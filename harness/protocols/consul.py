"""Recorded traffic of a Consul server as requests and replies of its HTTP API.

The words of a request are its method, its target and its body. A reply is JSON: status, X-Consul-Index or null, and the
body, which is text if it is no JSON.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Sequence
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any, Final, NamedTuple, cast

from harness.files import unzipped
from harness.sim.servers.http import parse_requests

from .messages import Reply, Request, Unreadable

_HEAD_END: Final = b"\r\n\r\n"
_MOST_BYTES: Final = 1 << 26
"""Size of an unpacked body that is still read."""


class Answer(NamedTuple):
    """A reply. ``change`` is its index, None if it has none."""

    status: int
    change: int | None
    body: Any


def packed(answer: Answer) -> bytes:
    return json.dumps(answer, sort_keys=True).encode()


def unpacked(data: bytes) -> Answer:
    return Answer(*json.loads(data))


class ConsulParser:
    """A :class:`~harness.protocols.messages.Parser`."""

    def __init__(self) -> None:
        self._in = self._out = b""
        self._waiting: list[Request] = []

    def requests(self, time_ns: int, data: bytes) -> Sequence[Request]:
        try:
            requests, self._in = parse_requests(self._in + data)
        except ValueError:
            raise Unreadable("not a request of HTTP") from None
        found = [Request(time_ns, (one.method.encode(), one.target.encode(), one.body), b"") for one in requests]
        self._waiting += found
        return found

    def replies(self, time_ns: int, data: bytes) -> Sequence[Reply]:
        self._out += data
        found = []
        while self._waiting and (read := _read(self._waiting[0], self._out)):
            answer, size = read
            self._out = self._out[size:]
            request = self._waiting.pop(0)
            request.replied_ns = time_ns
            found.append(Reply(time_ns, packed(answer), time_ns, request))
        return found


class _Socket(io.BytesIO):
    """The data of a connection as HTTPResponse reads it: a socket, and a file that stays open."""

    def makefile(self, mode: str) -> _Socket:  # noqa: ARG002
        return self

    def close(self) -> None: ...


def _read(request: Request, data: bytes) -> tuple[Answer, int] | None:
    """Return the first response in the data and its size, None if it is incomplete."""
    if _HEAD_END not in data:
        return None
    connection = _Socket(data)
    response = HTTPResponse(cast("Any", connection), method=request.words[0].decode())
    try:
        response.begin()
        body = response.read()
    except IncompleteRead:
        return None
    except (HTTPException, ValueError):
        raise Unreadable("not a response of HTTP") from None
    index = response.getheader("X-Consul-Index")
    return Answer(response.status, int(index) if index else None, _content(response, body)), connection.tell()


def _content(response: HTTPResponse, body: bytes) -> Any:
    if response.getheader("Content-Encoding") == "gzip":
        try:
            body = unzipped(body, _MOST_BYTES)
        except (ValueError, zlib.error):
            raise Unreadable("not an answer of Consul: its gzip data") from None
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
