"""What every request has to pass and every answer carries, whatever page it is about."""

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
"""Of every answer that does not say otherwise."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
ANYWHERE: Final = frozenset({"0.0.0.0", "::"})


class Guard:
    """Lets through what only reads, is meant for this server, and has a path that is one.

    A page of another site can make a browser ask this server by a name of its own that it lets point here (DNS
    rebinding); it cannot choose the ``Host`` that the browser sends. So only names that are ours are answered; where
    the server listens on all addresses, these as well.
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
            refusal = pages.problem(405, "This server only shows what is there: it answers GET and HEAD.")
            refusal.headers["allow"] = ", ".join(METHODS)
            await refusal(scope, receive, send_with_headers)
        elif not self._is_ours(_hosts(scope)):
            await pages.problem(400, "This server was asked by a name that is not its own.")(
                scope, receive, send_with_headers
            )
        elif parts is None:
            await pages.problem(400, "This is not the address of a page.")(scope, receive, send_with_headers)
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
    """The name in a ``Host`` header, in small letters; empty if it is not well formed."""
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
