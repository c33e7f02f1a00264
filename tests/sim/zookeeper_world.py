"""A simulated ZooKeeper ensemble for the tests, with raw clients on its hosts and a look into its servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.clusters.base import Checkpoint
from harness.clusters.sim import SimCluster
from harness.sim.servers.zookeeper.quorum import Quorum
from harness.sim.servers.zookeeper.server import ZooKeeperServer
from tests.clusters.bench import make, on
from tests.sim.zookeeper_client import Client, RealStream

SERVERS = ("n1", "n2", "n3")


def play(main: Callable[[SimCluster], Any], *, clients: int = 3, seed: int = 0, **options: Any) -> Any:
    """What ``main`` returns on the control side of an ensemble."""
    cluster = make("zookeeper", clients=clients, seed=seed, **options)
    return on(cluster, lambda: main(cluster))


def client(server: str, **session: Any) -> Client:
    """A raw client, for code on a client's host."""
    return Client(RealStream((server, 2181)), **session)


def alone(cluster: SimCluster, main: Callable[[], Any], host: str = "c0") -> Any:
    """Run it on a client's host, to its end."""
    return together(cluster, {host: main})[0]


def together(cluster: SimCluster, mains: dict[str, Callable[[], Any]]) -> list[Any]:
    """Run each on its client's host, at once; what they returned."""
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


def quorum(cluster: SimCluster, name: str) -> Quorum:
    found = cluster._network.hosts[name].services[2888]
    assert isinstance(found, Quorum)
    return found


def others(name: str) -> list[str]:
    return [other for other in SERVERS if other != name]


def links(name: str, *to: str) -> list[tuple[str, str]]:
    """Both ways between a host and some."""
    return [(name, other) for other in to] + [(other, name) for other in to]
