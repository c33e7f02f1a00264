"""Listen to the commands between clients and servers, at the clients' proxies."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial

from harness.clusters.abilities import Tap
from harness.clusters.docker.containers.engine import Box
from harness.clusters.docker.containers.gate import NetworkGate
from harness.clusters.docker.containers.proxy_tap import Piece, ProxyTap

from .commands import CommandReader


class CommandTap:
    """Implements :class:`harness.clusters.abilities.CommandTaps`. A message that is heard is held until the tap has
    returned, so that a fault strikes before it arrives.

    ``clients`` are the hosts that have a proxy. ``reader`` is made for each connection.
    """

    def __init__(
        self, clients: Mapping[str, Box], servers: frozenset[str], reader: type[CommandReader], gate: NetworkGate
    ) -> None:
        self._clients = clients
        self._servers = servers
        self._reader = reader
        self._gate = gate
        self._open: list[ProxyTap] = []
        self._lock = threading.Lock()

    def tap(self, tap: Tap | None) -> None:
        """See :meth:`harness.clusters.abilities.CommandTaps.tap`."""
        with self._lock:
            before, self._open = self._open, []
            for one in before:
                one.close()
            if tap is not None:
                self._open = [
                    ProxyTap(box.ip, partial(self._hear, tap, client, {}), self._gate.open)
                    for client, box in self._clients.items()
                ]

    def _hear(self, tap: Tap, client: str, readers: dict[tuple[str, int], CommandReader], piece: Piece) -> None:
        if piece.link not in self._servers:
            return
        reader = readers.setdefault((piece.link, piece.connection), self._reader())
        read = reader.requests if piece.direction == "request" else reader.replies
        for name in read(piece.data):
            tap(piece.direction, client, piece.link, name)
