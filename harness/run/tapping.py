"""Commands between clients and servers of a simulated run. Histories do not contain them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from harness.clusters.abilities import TAPS
from harness.clusters.base import Cluster

Hear = Callable[[str, str, str, str], None]


class Command(msgspec.Struct, frozen=True):
    """A command between a client and a server at ``time`` (ns, as in the history).

    ``phase`` is ``request`` (the client is about to send it) or ``reply`` (the server has executed it). ``name`` is in
    capitals.
    """

    time: int
    phase: str
    client: str
    server: str
    name: str


class TappedCluster:
    """A simulated cluster that passes each command to ``on_command`` and also to the tap that a run installs."""

    def __init__(self, cluster: Cluster, on_command: Callable[[Command], None]) -> None:
        self._cluster = cluster
        self._on_command = on_command
        self._taps = TAPS.of(cluster)
        self._taps.tap(self._hear)

    @property
    def parts(self) -> tuple[object, ...]:
        return self, *self._cluster.parts

    def tap(self, tap: Hear | None) -> None:
        def both(phase: str, client: str, server: str, command: str) -> None:
            self._hear(phase, client, server, command)
            if tap is not None:
                tap(phase, client, server, command)

        self._taps.tap(both)

    def _hear(self, phase: str, client: str, server: str, command: str) -> None:
        self._on_command(Command(self._cluster.clock()[0], phase, client, server, command))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)
