"""Simulated Consul servers, independent of each other; clients use the first."""

from __future__ import annotations

from functools import partial

from harness.clusters.sim.kinds import SimServers, watch_of
from harness.history.lock_keys import KeyObservation
from harness.sim.servers.consul.server import ConsulServer, commands


class ConsulServers(SimServers):
    """The agent of a server is the agent of all clients too."""

    commands = staticmethod(commands)

    def install(self) -> None:
        for host in self.hosts:
            server = ConsulServer(host.name, self.port)
            host.install(server)
            self.watch[host.name] = watch_of(server)
            self.key_count[host.name] = server.size
            self.look[host.name] = partial(_look, server)


def _look(server: ConsulServer, key: str) -> KeyObservation | None:
    entry = server.store.keys.get(key) if server.store else None
    return KeyObservation(entry.session) if entry and entry.session else None
