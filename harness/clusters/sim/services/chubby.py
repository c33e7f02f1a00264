"""Simulated Chubby cell: replicas that elect a master."""

from __future__ import annotations

from functools import partial

from harness.clusters.sim.kinds import SimPeers, watch_of
from harness.history.lock_keys import KeyObservation
from harness.sim.servers.chubby.protocol import commands
from harness.sim.servers.chubby.server import ChubbyServer


class ChubbyServers(SimPeers):
    """``options`` are those of :class:`harness.sim.servers.chubby.server.ChubbyServer`."""

    commands = staticmethod(commands)

    def install(self) -> None:
        names = [host.name for host in self.hosts]
        self._programs = [ChubbyServer([other for other in names if other != name], **self.options) for name in names]
        for host, program in zip(self.hosts, self._programs, strict=True):
            host.install(program)
            self.watch[host.name] = watch_of(program)
            self.key_count[host.name] = program.size
            self.look[host.name] = partial(_look, program)

    def leader(self) -> str | None:
        """The master named by the replica with the newest epoch."""
        known_master = [program.known_master for program in self._programs]
        return max(((epoch, master) for epoch, master in known_master if master is not None), default=(0, None))[1]


def _look(program: ChubbyServer, key: str) -> KeyObservation | None:
    found = program.peek(key)
    return None if found is None else KeyObservation(*found)
