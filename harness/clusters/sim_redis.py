"""Simulated Redis clusters: one server, independent ones, or a primary with replicas and sentinels."""

from __future__ import annotations

import re
from typing import Any, Final

from ..history.lock_keys import Sight, owner_text
from ..sim.hosts import Host
from ..sim.servers.redis.sentinel import SentinelServer
from ..sim.servers.redis.server import RedisServer
from ..sim.servers.redis.state import NS_PER_MS
from ..sim.servers.redis.values import SortedSet, Value
from .base import Address
from .kinds import DOWN_AFTER_MS, FAILOVER_TIMEOUT_MS, QUORUM, REDIS_PORT, SENTINEL_PORT, SERVICE, sentinels
from .kinds import servers as server_names
from .sim_kinds import MakeHost, OnReply, Servers

_COMMAND: Final = re.compile(rb"\*\d+\r\n\$\d+\r\n([A-Za-z.]+)\r\n")


def abilities(kind: str) -> set[str]:
    """What faults may do, beside the usual."""
    return {"evict"} | ({"failover", "peers"} if kind == "redis-sentinel" else set())


def commands(data: bytes) -> list[str]:
    """The names of the Redis commands in what a client sends."""
    return [name.decode().upper() for name in _COMMAND.findall(data)]


def _redis(
    servers: Servers, host: Host, options: dict[str, Any], replica_of: tuple[str, int] | None = None
) -> RedisServer:
    server = RedisServer(port=REDIS_PORT, replica_of=replica_of, **options)
    host.install(server)

    def watch(on_reply: OnReply | None) -> None:
        server.on_command = (
            None if on_reply is None else lambda peer, args: on_reply(peer, args[0].decode(errors="replace").upper())
        )

    servers.watch[host.name] = watch
    servers.size[host.name] = server.size
    servers.look[host.name] = lambda key: _look(host, server, key)
    servers.lapses = True
    return server


def _look(host: Host, server: RedisServer, key: str) -> Sight | None:
    value, expires_ms = server.peek(key.encode())
    if value is None:
        return None
    if expires_ms is None:
        return Sight(_owner(value))
    left = host.wall_in_ns((expires_ms + 1) * NS_PER_MS)  # in its last millisecond it is still there
    return Sight(_owner(value), left) if left > 0 else None


def _owner(value: Value) -> str:
    """A string; of a hash the first field, of other collections the first member."""
    if not isinstance(value, bytes):
        members = value.order[0][1:] if isinstance(value, SortedSet) else value
        value = next(iter(members))
    return owner_text(value)


def _independent(make: MakeHost, kind: str, nodes: int, options: dict[str, Any]) -> Servers:
    hosts = [make(name, "server") for name in server_names(nodes)]
    servers = Servers(Address(kind, tuple((host.name, REDIS_PORT) for host in hosts)), commands=commands)
    for host in hosts:
        _redis(servers, host, options)
    return servers


def _sentinel(make: MakeHost, kind: str, nodes: int, options: dict[str, Any]) -> Servers:
    hosts = [make(name, "server") for name in server_names(nodes)]
    watchers = [make(name, "sentinel") for name in sentinels(kind)]
    servers = Servers(Address(kind, tuple((host.name, SENTINEL_PORT) for host in watchers)), commands=commands)
    first = (hosts[0].name, REDIS_PORT)
    for host in hosts:
        _redis(servers, host, options, None if host is hosts[0] else first)
    programs = []
    for host in watchers:
        peers = [(other.name, SENTINEL_PORT) for other in watchers if other is not host]
        sentinel = SentinelServer(
            port=SENTINEL_PORT,
            name=SERVICE,
            primary=first,
            quorum=QUORUM,
            peers=peers,
            down_after_ms=DOWN_AFTER_MS,
            failover_timeout_ms=FAILOVER_TIMEOUT_MS,
        )
        host.install(sentinel)
        programs.append(sentinel)

    def primary() -> str | None:
        named = [sentinel.primary_host for sentinel in programs]
        return max(named, key=named.count)

    servers.primary = primary
    return servers


def build(make: MakeHost, kind: str, nodes: int, options: dict[str, Any]) -> Servers:
    """See :func:`harness.clusters.sim_kinds.build`; ``options`` are those of
    :class:`harness.sim.servers.redis.server.RedisServer`."""
    return (_sentinel if kind == "redis-sentinel" else _independent)(make, kind, nodes, options)
