"""A Redis Cluster in containers: half of the nodes are primaries, and each has one replica.

n1, n2, n3 are primaries of the first, second and third range of hash slots; n4, n5, n6 are their replicas. So the
primary of key ``k0`` (slot 8579) is n2 at first, and its replica is n5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import redis

from harness.clusters.docker.kinds import RealPeers
from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds.redis import NODES_FILE, REDIS_PORT, cluster_settings
from harness.clusters.redis_slots import (
    ClusterNode,
    View,
    is_whole,
    key_in,
    owner_of,
    replicas_of,
    slot_of,
    slot_ranges,
    view_of,
)
from harness.errors import EnvironmentLacking, UsageError

from .redis import RedisServers

LEAST: Final = 6
"""Nodes: fewer than three primaries have no majority when one of them dies."""
PATIENCE_S: Final = 10.0
"""Time limit for a command that builds the cluster, seconds."""


class ClusterServers(RedisServers, RealPeers):
    """See :class:`harness.clusters.docker.kinds.RealServers`. Clients get the addresses of all nodes.

    The primary is the owner of the hash slot of the first lock's key.
    """

    RESTORE = f"rm -f {NODES_FILE}"
    PROGRAMS: ClassVar[Mapping[str, str]] = {}
    """No other release: nodes would have to hand over their shards one by one, which is not written yet."""

    def __init__(self, kind: str, nodes: int, options: Mapping[str, Any]) -> None:
        if nodes < LEAST or nodes % 2:
            raise UsageError(f"{kind}: nodes must be an even number from {LEAST}, got {nodes}: half are replicas")
        super().__init__(kind, nodes, options)
        hosts = self.data_hosts
        self._ranges = dict(zip(hosts, slot_ranges(nodes // 2), strict=False))
        self._follows = dict(zip(hosts[nodes // 2 :], hosts, strict=False))

    @property
    def stages(self) -> list[list[str]]:
        return [self.data_hosts]

    def _server(self, host: str) -> list[str]:
        return [*super()._server(host), *cluster_settings(self.options)]

    # Building the cluster.

    def await_stage(self, hosts: list[str]) -> None:
        self.await_hosts(hosts, self.answers)
        self._meet()
        self.await_hosts(hosts, self._knows_all)
        for replica, primary in self._follows.items():
            self._tell(replica, "CLUSTER REPLICATE", self._tell(primary, "CLUSTER MYID"))
        super().await_stage(hosts)

    def _meet(self) -> None:
        """Divide the slots among the primaries, and introduce the nodes to the first one."""
        first, *others = self.data_hosts
        for number, host in enumerate(self.data_hosts):
            self._tell(host, "CLUSTER SET-CONFIG-EPOCH", number + 1)
        for host, (begin, end) in self._ranges.items():
            self._tell(host, "CLUSTER ADDSLOTS", *range(begin, end + 1))
        for host in others:
            self._tell(host, "CLUSTER MEET", self.addresses[first], REDIS_PORT)

    def _tell(self, host: str, *command: str | int) -> Any:
        """Send a command that must succeed and return its answer; EnvironmentLacking if it fails."""
        try:
            with self.gate.open(), self._client(host, PATIENCE_S) as client:
                return client.execute_command(*command)
        except (redis.RedisError, OSError) as error:
            raise EnvironmentLacking(f"{host} refused {command[0]}: {error}") from error

    def _knows_all(self, host: str) -> bool:
        view = self._view(host)
        return view is not None and is_whole(view, len(self.data_hosts))

    def ready(self, host: str) -> bool:
        """Return whether the node knows that the cluster works, and its replication works."""
        view = self._view(host)
        if view is None or not is_whole(view, len(self.data_hosts)):
            return False
        following = sum(1 for node in view if node.primary_id)
        slots = next((node.slots for node in view if self._host(node) == host), ())
        return following == len(self._follows) and bool(self._ask(host, partial(_works, slots=slots)))

    # Probes.

    def _view(self, host: str) -> View | None:
        """Return what a node knows of the cluster; ``None`` if it does not answer."""

        def question(client: redis.Redis) -> View:
            nodes: Any = client.cluster("NODES")
            return view_of(nodes)

        view: View | None = self._ask(host, question)
        return view

    def _shard(self) -> tuple[ClusterNode | None, list[ClusterNode]]:
        """Return the owner of the first key's slot with its replicas."""
        views = [view for view in map(self._view, self.data_hosts) if view is not None]
        owner = owner_of(slot_of(self.keys[0]), views)
        return owner, [] if owner is None else replicas_of(owner, views)

    def primary(self) -> str | None:
        owner, _ = self._shard()
        return None if owner is None else self._host(owner)

    def replicas(self) -> list[str]:
        return sorted(filter(None, map(self._host, self._shard()[1])))

    def _host(self, node: ClusterNode) -> str | None:
        return next((host for host, ip in self.addresses.items() if ip == node.ip), None)

    def key_reader(self, host: str) -> Callable[[], KeyReader]:
        from harness.clusters.key_readers.redis import RedisKeyReader

        return partial(RedisKeyReader, *self.reached(host), cluster=True)


def _works(client: redis.Redis, slots: Sequence[tuple[int, int]]) -> bool:
    """Return whether a node considers the cluster available, and replication works. The owner of ``slots`` is asked
    with WAIT, which counts a replica a second after it is online."""
    cluster: Any = client.cluster("INFO")
    if cluster["cluster_state"] != "ok":
        return False
    if not slots:
        info: Any = client.info("replication")
        return bool(info.get("master_link_status") == "up")
    key = key_in(*slots[0], "lock-harness:probe:")
    client.set(key, "1")
    linked = client.execute_command("WAIT", 1, 50) == 1  # type: ignore[no-untyped-call]
    client.delete(key)
    return bool(linked)
