"""A simulated etcd cluster: members on n1, n2 ..., port 2379, as the docker backend's.

Options of servers: ``heartbeat_ms`` (100) and ``election_ms`` (1000), etcd's ``--heartbeat-interval`` and
``--election-timeout``. The shortest lease is one and a half election time-outs, in whole seconds upwards: 2 s.
"""

from __future__ import annotations

from typing import Any

from ..history.lock_keys import Sight, owner_text
from ..sim.servers.etcd.server import CLIENT_PORT, EtcdServer, commands
from ..sim.servers.etcd.store import Store
from .base import Address
from .kinds import servers as server_names
from .sim_kinds import MakeHost, OnReply, Servers


def abilities(kind: str) -> set[str]:  # noqa: ARG001
    """What faults may do, beside the usual."""
    return {"leader", "peers"}


def build(make: MakeHost, kind: str, nodes: int, options: dict[str, Any]) -> Servers:
    """See :func:`harness.clusters.sim_kinds.build`; ``options`` are those of
    :class:`harness.sim.servers.etcd.server.EtcdServer`. Which member leads first depends on the seed."""
    hosts = [make(name, "server") for name in server_names(nodes)]
    names = [host.name for host in hosts]
    servers = Servers(Address(kind, tuple((name, CLIENT_PORT) for name in names)), commands=commands)
    first = hosts[0].kernel.rng("etcd/first leader").choice(names)
    programs = {name: EtcdServer(name, names, first=name == first, **options) for name in names}
    for host in hosts:
        server = programs[host.name]
        host.install(server.peers)
        host.install(server)
        servers.watch[host.name] = _watch(server)
        servers.size[host.name] = server.size
        servers.look[host.name] = _Eye(server, programs).look

    def primary() -> str | None:
        """Of those that hold themselves to be the leader, the one with the latest term."""
        leaders = {name: server.term for name, server in programs.items() if server.leads}
        return max(leaders, key=lambda name: leaders[name], default=None)

    servers.primary = primary
    return servers


class _Eye:
    """Looks at one member's copy: under ``KEY/`` the oldest key holds the lock (etcd's own mutex), else ``/locks/KEY``
    does (python-etcd3's lock), or ``/KEY`` of the v2 API (sherlock's). What was found of v3 is looked for again when a
    key of that lock has changed."""

    def __init__(self, server: EtcdServer, programs: dict[str, EtcdServer]) -> None:
        self._server = server
        self._programs = programs
        self._store = server.member.store
        self._revision = 0
        self._seen: dict[str, tuple[Sight | None, int]] = {}
        """By key what was found in the store as of that revision, and its lease."""

    def look(self, key: str) -> Sight | None:
        store = self._server.member.store
        if store is not self._store or store.revision != self._revision:
            self._forget(store)
        if key not in self._seen:
            self._seen[key] = self._find(store, key)
        if self._seen[key][0] is None and (node := self._server.member.v2.nodes.get(f"/{key}")) is not None:
            return Sight(node.value, node.expires - self._server.member.host.wall_ns() if node.expires else None)
        sight, lease = self._seen[key]
        left = self._server.member.lessor.left(lease) if lease else None
        return sight if sight is None or left is None else Sight(sight.owner, left, sight.client)

    def _forget(self, store: Store) -> None:
        """What may be another now: all of another store."""
        if store is not self._store or store.compact_revision > self._revision:
            self._seen.clear()
        else:
            for change in store.since(self._revision + 1):
                name = change.key.decode(errors="replace").removeprefix("/locks/").partition("/")[0]
                self._seen.pop(name, None)
        self._store, self._revision = store, store.revision

    def _find(self, store: Store, key: str) -> tuple[Sight | None, int]:
        queue = store.range(f"{key}/".encode(), f"{key}0".encode())  # "0" comes after "/"
        if queue:
            first = min(queue, key=lambda kv: kv.create)
            owner = owner_text(first.key).removeprefix(f"{key}/")
        elif held := store.range(f"/locks/{key}".encode(), b""):
            first = held[0]
            owner = owner_text(first.value)
        else:
            return None, 0
        granted = [program.granted for program in self._programs.values()]
        client = next((clients[first.lease] for clients in granted if first.lease in clients), None)
        return Sight(owner, None, client), first.lease


def _watch(server: EtcdServer) -> Any:
    def watch(on_reply: OnReply | None) -> None:
        server.on_command = on_reply

    return watch
