"""A proxy beside each client, in a container that shares the client's network."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial
from typing import Final

from .engine import Box, Deployment, in_parallel
from .gate import Gate
from .helper import Helper
from .toxiproxy import Link, Links

COMMAND: Final = ["/toxiproxy-server", "-host", "0.0.0.0"]
FIRST_PORT: Final = 20_001
"""Where it listens for connections to the first server; see :class:`.toxiproxy.Link`."""
Peers = Mapping[str, tuple[str, int]]
"""Whom a client talks to: address and port by name."""


def open_links(
    deployment: Deployment,
    image: str,
    helper: Helper,
    clients: Mapping[str, Box],
    peers: Peers,
    gate: Gate,
    *,
    there: Container[str] = (),
) -> dict[str, Links]:
    """Start a proxy beside each client, but those where one is ``there``, and lead all its connections to ``peers``
    through it."""

    def start(client: str) -> Links:
        if client not in there:
            deployment.box(f"{client}-proxy", image, "proxy", within=clients[client], command=COMMAND)
        ends = [Link(name, *peers[name], FIRST_PORT + number) for number, name in enumerate(peers)]
        links = Links(clients[client].ip, ends, gate=gate.open)
        links.start()
        return links

    proxies = dict(zip(clients, in_parallel([partial(start, client) for client in clients]), strict=True))
    helper.filter({clients[client]: links.redirects() for client, links in proxies.items()})
    return proxies


def forget(client: Box) -> None:
    """Let the proxy beside a client be as it was at its start, without any links and their connections; what leads the
    client's connections to it is not its own."""
    Links(client.ip, []).clear()
