"""Middleware of ``harness serve``: checks method, host and path of every request, and sets the security headers."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import files, pages

METHODS: Final = ("GET", "HEAD")
NOTHING: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS: Final = {
    "content-security-policy": NOTHING,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Security headers of every response that does not set its own."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
ANYWHERE: Final = frozenset({"0.0.0.0", "::"})


class Guard:
    """ASGI middleware that accepts only GET and HEAD requests for a host name of this server with a well-formed path.

    A page of another site can make a browser send requests to this server through a host name that resolves to it
    (DNS rebinding), but it cannot choose the ``Host`` header. So requests for other host names are refused. A server
    that listens on all addresses also accepts any IP address as host.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        given = {host.lower() for host in hosts}
        self._app = app
        self._hosts = LOOPBACK | given
        self._by_address = bool(given & ANYWHERE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        parts = files.parts_of(scope["raw_path"])
        if scope["method"] not in METHODS:
            refusal = pages.problem(405, "This server is read-only: it answers only GET and HEAD.")
            refusal.headers["allow"] = ", ".join(METHODS)
            await refusal(scope, receive, send_with_headers)
        elif not self._is_ours(_hosts(scope)):
            await pages.problem(400, "The Host header of this request does not name this server.")(
                scope, receive, send_with_headers
            )
        elif parts is None:
            await pages.problem(400, "The path of this address is malformed.")(scope, receive, send_with_headers)
        else:
            end = "/" if parts and scope["raw_path"].endswith(b"/") else ""
            await self._app({**scope, "path": f"/{'/'.join(parts)}{end}"}, receive, send_with_headers)

    def _is_ours(self, hosts: Sequence[str]) -> bool:
        if len(hosts) != 1:
            return False
        name = host_name(hosts[0])
        return name in self._hosts or (self._by_address and _is_address(name))


def _hosts(scope: Scope) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"host"]


def host_name(header: str) -> str:
    """Return the name in a ``Host`` header, in lower case; empty if the header is malformed."""
    if header.startswith("["):
        name, bracket, port = header[1:].partition("]")
        port_follows = bracket and (not port or port.startswith(":"))
        name, port = (name, port[1:]) if port_follows else ("", "")
    else:
        name, _, port = header.partition(":")
    return name.lower() if not port or (port.isascii() and port.isdigit()) else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
