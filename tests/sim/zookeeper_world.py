"""A simulated ZooKeeper ensemble for tests, with raw clients on its hosts and access to its servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.clusters.base import Checkpoint
from harness.clusters.sim.cluster import SimCluster
from harness.fidelity.zookeeper.client import RawZooKeeperClient, SocketStream
from harness.sim.servers.zookeeper.quorum import QuorumPeer
from harness.sim.servers.zookeeper.server import ZooKeeperServer
from tests.clusters.bench import make, on

SERVERS = ("n1", "n2", "n3")


def run_ensemble(main: Callable[[SimCluster], Any], *, clients: int = 3, seed: int = 0, **options: Any) -> Any:
    """Call ``main`` outside the ensemble's hosts and return its result."""
    cluster = make("zookeeper", clients=clients, seed=seed, **options)
    return on(cluster, lambda: main(cluster))


def client(server: str, **session: Any) -> RawZooKeeperClient:
    """Return a raw client; call it on a client host."""
    return RawZooKeeperClient(SocketStream((server, 2181)), **session)


def alone(cluster: SimCluster, main: Callable[[], Any], host: str = "c0") -> Any:
    """Call ``main`` on a client host and return its result."""
    return run_on_hosts(cluster, {host: main})[0]


def run_on_hosts(cluster: SimCluster, mains: dict[str, Callable[[], Any]]) -> list[Any]:
    """Call each function on its client host at the same time; return their results in order."""
    results: dict[str, Any] = {}

    def program(host: str, main: Callable[[], Any]) -> Callable[[Checkpoint], None]:
        def call(checkpoint: Checkpoint) -> None:
            results[host] = main()

        return call

    joins = [cluster.spawn(host, program(host, main)) for host, main in mains.items()]
    assert all(join(300) for join in joins)
    return [results[host] for host in mains]


def server(cluster: SimCluster, name: str) -> ZooKeeperServer:
    found = cluster._network.hosts[name].services[2181]
    assert isinstance(found, ZooKeeperServer)
    return found


def quorum(cluster: SimCluster, name: str) -> QuorumPeer:
    found = cluster._network.hosts[name].services[2888]
    assert isinstance(found, QuorumPeer)
    return found


def others(name: str) -> list[str]:
    return [other for other in SERVERS if other != name]


def links(name: str, *to: str) -> list[tuple[str, str]]:
    """Return the links in both directions between a host and others."""
    return [(name, other) for other in to] + [(other, name) for other in to]
