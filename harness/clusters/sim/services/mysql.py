"""Simulated MySQL clusters: one MariaDB, or a primary with replicas and a manager that promotes one of them.

Options of servers: ``lock_wait_timeout`` (how long a statement waits for a row lock, s, usually 50) and
``wait_timeout`` (after how long an idle connection is closed, s, usually 28800); of the replicated kind also
``semi_sync`` (whether a commit waits until a replica has it) and ``semi_sync_timeout`` (for how long, s, usually 10).

A cluster of the single kind may have several independent servers.

Clients of the replicated kind connect to the name ``db``, which the manager moves at a failover. Existing connections
stay where they are; new ones go to the new primary.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from harness.clusters.base import ClusterEndpoints
from harness.clusters.sim.kinds import SimPeers, SimServers, watch_of
from harness.history.lock_keys import KeyObservation
from harness.sim.hosts import SimHost
from harness.sim.servers.mysql.manager import FailoverManager
from harness.sim.servers.mysql.observer import LockObserver
from harness.sim.servers.mysql.replication import MysqlReplication
from harness.sim.servers.mysql.server import MysqlServer

NAME: Final = "db"
"""Host name by which clients address the primary."""
_QUERY: Final = re.compile(rb"\A...\x00\x03\s*([A-Za-z]+)", re.DOTALL)


def commands(data: bytes) -> list[str]:
    """Return the first keywords of the SQL statements in a client's data."""
    return [word.decode().upper() for word in _QUERY.findall(data)]


class MysqlServers(SimServers):
    """Independent servers."""

    lapses = True

    commands = staticmethod(commands)

    def install(self) -> None:
        for host in self.hosts:
            self._install_server(host)

    def _install_server(self, host: SimHost) -> MysqlServer:
        timeouts = {name: value for name, value in self.options.items() if not name.startswith("semi_sync")}
        server = MysqlServer(port=self.port, **timeouts)
        host.install(server)
        self.watch[host.name] = watch_of(server)
        self.key_count[host.name] = server.size
        self.look[host.name] = partial(_look, host, LockObserver(server))
        return server


class ReplicatedMysqlServers(MysqlServers, SimPeers):
    """A primary with replicas, and a manager that promotes one of them."""

    def install(self) -> None:
        first, (manager_host,) = self.hosts[0], self.sentinels
        for host in self.hosts:
            server = self._install_server(host)
            server.replication = MysqlReplication(
                server,
                follows=None if host is first else first.name,
                semi_sync=self.options.get("semi_sync", False),
                timeout_s=self.options.get("semi_sync_timeout", 10.0),
            )
            host.install(server.replication)

        def move(primary: str) -> None:
            manager_host.network.aliases[NAME] = primary

        self._manager = FailoverManager([host.name for host in self.hosts], move)
        manager_host.install(self._manager)
        move(first.name)

    def address(self) -> ClusterEndpoints:
        return ClusterEndpoints(self.kind, ((NAME, self.port),))

    def primary(self) -> str | None:
        return self._manager.primary


def _look(host: SimHost, peek: LockObserver, key: str) -> KeyObservation | None:
    found = peek.look(key)
    if found is None or found.end is None:
        return None if found is None else KeyObservation(found.owner, None, found.client)
    left = host.wall_in_ns(found.end)
    return KeyObservation(found.owner, left, found.client) if left > 0 else None
