"""Start a Toxiproxy beside each client, in a container that shares the client's network, and redirect traffic to it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial
from typing import Final

from harness.clusters.gate import NetworkGate, Route

from .engine import Box, Deployment, in_parallel
from .helper_client import Helper
from .toxiproxy import PORT, ClientLinks, ProxiedLink

COMMAND: Final = ["/toxiproxy-server", "-host", "0.0.0.0"]
FIRST_PORT: Final = 20_001
"""Port on which the proxy listens for the first server; see :class:`.toxiproxy.ProxiedLink`."""
Peers = Mapping[str, tuple[str, int]]
"""(Address, port) of each host that a client connects to, by name."""


def open_links(
    deployment: Deployment,
    image: str,
    helper: Helper,
    clients: Mapping[str, Box],
    peers: Peers,
    gate: NetworkGate,
    *,
    there: Container[str] = (),
) -> dict[str, ClientLinks]:
    """Start a proxy beside each client that is not in ``there``, redirect all connections to ``peers`` to it, and
    return the links by client."""

    def start(client: str) -> ClientLinks:
        if client not in there:
            deployment.box(f"{client}-proxy", image, "proxy", within=clients[client], command=COMMAND)
        ends = [ProxiedLink(name, *peers[name], FIRST_PORT + number) for number, name in enumerate(peers)]
        links = ClientLinks(gate.address(clients[client].ip, PORT), ends, gate.open)
        links.start()
        return links

    proxies = dict(zip(clients, in_parallel([partial(start, client) for client in clients]), strict=True))
    helper.filter({clients[client]: links.redirects() for client, links in proxies.items()})
    return proxies


def clear_links(client: Box, route: Route) -> None:
    """Reset the proxy beside a client to its initial state, without links and connections. The redirection of the
    client's connections is not part of the proxy and stays."""
    ClientLinks(route(client.ip, PORT), []).clear()
