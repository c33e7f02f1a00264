"""Simulated MySQL clusters: one MariaDB, or a primary with replicas and a manager that promotes one of them.

Options of servers: ``lock_wait_timeout`` (how long a statement waits for a row lock, s, usually 50) and
``wait_timeout`` (after how long an idle connection is closed, s, usually 28800); of the replicated kind also
``semi_sync`` (whether a commit waits until a replica has it) and ``semi_sync_timeout`` (for how long, s, usually 10).

A cluster of the single kind may have several independent servers.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from harness.clusters.sim.kinds import SimServers, watch_of
from harness.history.lock_keys import KeyObservation
from harness.sim.hosts import SimHost
from harness.sim.servers.mysql.observer import LockObserver
from harness.sim.servers.mysql.replication import MysqlReplication
from harness.sim.servers.mysql.server import MysqlServer

from .failover import ManagedServers

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


class ReplicatedMysqlServers(ManagedServers, MysqlServers):
    """A primary with replicas, and a manager that promotes one of them."""

    def install_server(self, host: SimHost, follows: str | None) -> MysqlReplication:
        server = self._install_server(host)
        server.replication = MysqlReplication(
            server,
            follows=follows,
            semi_sync=self.options.get("semi_sync", False),
            timeout_s=self.options.get("semi_sync_timeout", 10.0),
        )
        return server.replication


def _look(host: SimHost, peek: LockObserver, key: str) -> KeyObservation | None:
    found = peek.look(key)
    if found is None or found.end is None:
        return None if found is None else KeyObservation(found.owner, None, found.client)
    left = host.wall_in_ns(found.end)
    return KeyObservation(found.owner, left, found.client) if left > 0 else None
