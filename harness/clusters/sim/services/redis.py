"""Simulated Redis clusters: one server, independent ones, or a primary with replicas and sentinels."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from harness.clusters.base import ClusterEndpoints
from harness.clusters.kinds.redis import (
    DOWN_AFTER_MS,
    FAILOVER_TIMEOUT_MS,
    QUORUM,
    REDIS_PORT,
    SENTINEL_PORT,
    SERVICE,
)
from harness.clusters.sim.kinds import OnReply, SimPeers, SimServers
from harness.history.lock_keys import KeyObservation, owner_text
from harness.sim.hosts import SimHost
from harness.sim.servers.redis.sentinel import SentinelServer
from harness.sim.servers.redis.server import RedisServer
from harness.sim.servers.redis.state import NS_PER_MS
from harness.sim.servers.redis.values import SortedSet, Value

_COMMAND: Final = re.compile(rb"\*\d+\r\n\$\d+\r\n([A-Za-z.]+)\r\n")


def commands(data: bytes) -> list[str]:
    """Return the names of the Redis commands in a client's data."""
    return [name.decode().upper() for name in _COMMAND.findall(data)]


class RedisServers(SimServers):
    """Independent servers. ``options`` are those of :class:`harness.sim.servers.redis.server.RedisServer`."""

    lapses = True

    commands = staticmethod(commands)

    def install(self) -> None:
        for host in self.hosts:
            self._install_server(host)

    def _install_server(self, host: SimHost, replica_of: tuple[str, int] | None = None) -> None:
        server = RedisServer(port=REDIS_PORT, replica_of=replica_of, **self.options)
        host.install(server)

        def watch(on_reply: OnReply | None) -> None:
            server.on_command = (
                None
                if on_reply is None
                else lambda peer, args: on_reply(peer, args[0].decode(errors="replace").upper())
            )

        self.watch[host.name] = watch
        self.key_count[host.name] = server.size
        self.look[host.name] = partial(_look, host, server)


class SentinelServers(RedisServers, SimPeers):
    """A primary with replicas, and sentinels that promote one of them."""

    def install(self) -> None:
        first = (self.hosts[0].name, REDIS_PORT)
        for host in self.hosts:
            self._install_server(host, None if host is self.hosts[0] else first)
        self._programs = []
        for host in self.sentinels:
            sentinel = SentinelServer(
                port=SENTINEL_PORT,
                name=SERVICE,
                primary=first,
                quorum=QUORUM,
                peers=[(other.name, SENTINEL_PORT) for other in self.sentinels if other is not host],
                down_after_ms=DOWN_AFTER_MS,
                failover_timeout_ms=FAILOVER_TIMEOUT_MS,
            )
            host.install(sentinel)
            self._programs.append(sentinel)

    def address(self) -> ClusterEndpoints:
        return ClusterEndpoints(self.kind, tuple((host.name, SENTINEL_PORT) for host in self.sentinels))

    def primary(self) -> str | None:
        """The primary that most sentinels name."""
        named = [sentinel.primary_host for sentinel in self._programs]
        return max(named, key=named.count)


def _look(host: SimHost, server: RedisServer, key: str) -> KeyObservation | None:
    value, expires_ms = server.peek(key.encode())
    if value is None:
        return None
    if expires_ms is None:
        return KeyObservation(_owner(value))
    left = host.wall_in_ns((expires_ms + 1) * NS_PER_MS)  # the key still exists in its last millisecond
    return KeyObservation(_owner(value), left) if left > 0 else None


def _owner(value: Value) -> str:
    """Return the owner named by a key's value: a string itself, the first field of a hash, or the first member of
    another collection."""
    if not isinstance(value, bytes):
        members = value.order[0][1:] if isinstance(value, SortedSet) else value
        value = next(iter(members))
    return owner_text(value)
