"""Simulated etcd cluster: members on n1, n2 ..., port 2379, as on the docker backend.

Options of servers: ``heartbeat_ms`` (100) and ``election_ms`` (1000), etcd's ``--heartbeat-interval`` and
``--election-timeout``. The shortest lease is one and a half election time-outs, in whole seconds upwards: 2 s.
"""

from __future__ import annotations

from harness.clusters.sim.kinds import SimPeers, watch_of
from harness.history.lock_keys import KeyObservation, owner_text
from harness.sim.servers.etcd.server import EtcdServer, commands
from harness.sim.servers.etcd.store import EtcdStore


class EtcdServers(SimPeers):
    """``options`` are those of :class:`harness.sim.servers.etcd.server.EtcdServer`. Which member leads first depends on
    the seed."""

    commands = staticmethod(commands)

    def install(self) -> None:
        names = [host.name for host in self.hosts]
        first = self.hosts[0].kernel.rng("etcd/first leader").choice(names)
        self._programs = {name: EtcdServer(name, names, first=name == first, **self.options) for name in names}
        for host in self.hosts:
            server = self._programs[host.name]
            host.install(server.peers)
            host.install(server)
            self.watch[host.name] = watch_of(server)
            self.key_count[host.name] = server.size
            self.look[host.name] = _LockKeyReader(server, self._programs).look

    def leader(self) -> str | None:
        """The leader; of several members that consider themselves leader, the one with the latest term."""
        leaders = {name: server.term for name, server in self._programs.items() if server.leads}
        return max(leaders, key=lambda name: leaders[name], default=None)


class _LockKeyReader:
    """Reads locks from one member's copy. The oldest key under ``KEY/`` holds the lock (etcd's own mutex), else
    ``/locks/KEY`` (python-etcd3's lock), else ``/KEY`` of the v2 API (sherlock's). Results of v3 are cached until a key
    of that lock changes."""

    def __init__(self, server: EtcdServer, programs: dict[str, EtcdServer]) -> None:
        self._server = server
        self._programs = programs
        self._store = server.member.store
        self._revision = 0
        self._seen: dict[str, tuple[KeyObservation | None, int]] = {}
        """Cached (result, lease id) by key, as of ``_revision``."""

    def look(self, key: str) -> KeyObservation | None:
        store = self._server.member.store
        if store is not self._store or store.revision != self._revision:
            self._forget(store)
        if key not in self._seen:
            self._seen[key] = self._find(store, key)
        if self._seen[key][0] is None and (node := self._server.member.v2.nodes.get(f"/{key}")) is not None:
            return KeyObservation(
                node.value, node.expires - self._server.member.host.wall_ns() if node.expires else None
            )
        sight, lease = self._seen[key]
        left = self._server.member.lessor.left(lease) if lease else None
        return sight if sight is None or left is None else KeyObservation(sight.owner, left, sight.client)

    def _forget(self, store: EtcdStore) -> None:
        """Drop cached results of changed keys, or all if the store was replaced."""
        if store is not self._store or store.compact_revision > self._revision:
            self._seen.clear()
        else:
            for change in store.since(self._revision + 1):
                name = change.key.decode(errors="replace").removeprefix("/locks/").partition("/")[0]
                self._seen.pop(name, None)
        self._store, self._revision = store, store.revision

    def _find(self, store: EtcdStore, key: str) -> tuple[KeyObservation | None, int]:
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
        return KeyObservation(owner, None, client), first.lease
