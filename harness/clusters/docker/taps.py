"""Listen to the commands between clients and servers, at the clients' proxies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.clusters.abilities.network import Tap
from harness.clusters.docker.containers.engine import Box
from harness.clusters.docker.containers.proxy_tap import PORT, Piece, ProxyTap
from harness.clusters.gate import NetworkGate

from .commands import CommandReader
from .hosts import ContainerClient

LOOK_S: Final = 0.002
"""Seconds between two looks whether a client is still paused."""


class CommandTap:
    """Implements :class:`harness.clusters.abilities.network.CommandTaps`. A message that is heard is held until the tap
    has returned, so that a fault strikes before it arrives.

    A request that is heard counts as not sent yet: it is held while a fault pauses its client, and lost if a fault
    kills it. ``clients`` are hosts with a proxy, by name; ``paused`` says whether a client is paused. ``reader`` is
    made for each connection.
    """

    def __init__(
        self,
        clients: Mapping[str, ContainerClient],
        servers: frozenset[str],
        reader: type[CommandReader],
        gate: NetworkGate,
        paused: Callable[[str], bool],
    ) -> None:
        self._clients = clients
        self._servers = servers
        self._reader = reader
        self._gate = gate
        self._paused = paused
        self._taps: list[_ClientTap] = []

    def tap(self, tap: Tap | None) -> None:
        """See :meth:`harness.clusters.abilities.network.CommandTaps.tap`."""
        before, self._taps = self._taps, []
        for one in before:
            one.close()
        if tap is not None:
            for client in self._clients.values():  # one by one, so that those before a failure are known and closed
                self._taps.append(self._tapped(client, tap))

    def _tapped(self, client: ContainerClient, tap: Tap) -> _ClientTap:
        found = _ClientTap(client, self._servers, self._reader, self._paused, tap)
        found.open(client.box, self._gate)
        return found


@dataclass(eq=False)
class _ClientTap:
    """The tap at one client's proxy."""

    client: ContainerClient
    servers: frozenset[str]
    reader: type[CommandReader]
    paused: Callable[[str], bool]
    tap: Tap
    over: threading.Event = field(default_factory=threading.Event)
    readers: dict[tuple[str, int], CommandReader] = field(default_factory=dict)

    def open(self, box: Box, gate: NetworkGate) -> None:
        host, port = gate.address(box.ip, PORT)
        self._proxy = ProxyTap(host, self._hear, gate.open, port)

    def close(self) -> None:
        self.over.set()
        self._proxy.close()

    def _hear(self, piece: Piece) -> bool:
        if piece.link not in self.servers:
            return True
        reader = self.readers.setdefault((piece.link, piece.connection), self.reader())
        kills = self.client.kills
        for name in reader.requests(piece.data) if piece.direction == "request" else reader.replies(piece.data):
            self.tap(piece.direction, self.client.name, piece.link, name)
        return piece.direction == "reply" or self._sends(kills)

    def _sends(self, kills: int) -> bool:
        """Wait until the client is not paused, and return whether it was not killed since ``kills`` were counted."""
        while self.paused(self.client.name) and self.client.kills == kills and not self.over.is_set():
            time.sleep(LOOK_S)
        return self.client.kills == kills
