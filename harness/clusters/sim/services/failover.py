"""Simulated database servers with a failover manager.

Clients connect to the name ``db``, which the manager moves at a failover. Existing connections stay where they are; new
ones go to the new primary.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final

from harness.clusters.base import ClusterEndpoints
from harness.clusters.sim.kinds import SimPeers
from harness.sim.hosts import SimHost
from harness.sim.servers.failover import FailoverManager
from harness.sim.servers.log_replication import LogReplication

NAME: Final = "db"
"""Host name by which clients address the primary."""


class ManagedServers(SimPeers):
    """Mixin for a primary with replicas, and a manager that promotes one of them; before the class of the servers."""

    @abstractmethod
    def install_server(self, host: SimHost, follows: str | None) -> LogReplication[Any]:
        """Install a server that follows a host, or the primary, and return its replication."""

    def install(self) -> None:
        first, (manager_host,) = self.hosts[0], self.sentinels
        for host in self.hosts:
            host.install(self.install_server(host, None if host is first else first.name))

        def move(primary: str) -> None:
            manager_host.network.aliases[NAME] = primary

        self._manager = FailoverManager([host.name for host in self.hosts], move)
        manager_host.install(self._manager)
        move(first.name)

    def address(self) -> ClusterEndpoints:
        return ClusterEndpoints(self.kind, ((NAME, self.port),))

    def primary(self) -> str | None:
        return self._manager.primary
