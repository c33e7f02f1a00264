"""A cluster with idle or busy clients on it, for tests of the seam: what is written here knows no backend but
by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import redis

from harness import client_program
from harness.clusters.base import Cluster, names
from harness.clusters.sim import SimCluster
from harness.faults.base import Scene, Seen
from harness.nemesis import fault_class
from harness.workloads.resource import Resource

TTL = 2.0


def make(kind: str = "redis-independent", *, clients: int = 3, seed: int = 0, **options: Any) -> SimCluster:
    """A cluster that has not been started."""
    return SimCluster(
        kind=kind,
        nodes=0,
        clients=clients,
        seed=seed,
        resource=Resource("off", {}).answer,
        options=options,
        program=client_program.run,
    )


def on(cluster: Cluster, main: Callable[[], Any]) -> Any:
    """What ``main`` returns when it is called on the cluster's control side."""
    got: list[Any] = []
    cluster.run(lambda: got.append(main()))
    return got[0]


def chatter(cluster: SimCluster) -> None:
    """Each client sets and reads a key of its own on each server, ten times a second, for ever."""
    addresses = cluster.endpoints().addresses if cluster.kind != "redis-sentinel" else (("n1", 6379),)

    def main(name: str) -> Callable[[Callable[[], None]], None]:
        def talk(checkpoint: Callable[[], None]) -> None:
            servers = [redis.Redis(host=host, port=port, socket_timeout=0.3) for host, port in addresses]
            while True:
                for server in servers:
                    try:
                        server.set(f"key-{name}", "x", px=60_000)
                    except redis.RedisError:
                        time.sleep(0.1)
                checkpoint()
                time.sleep(0.1)

        return talk

    for name in names(cluster.hosts, "client"):
        cluster.spawn(name, main(name))


def scene(cluster: Cluster, client: str = "c0") -> Scene:
    return Scene(cluster, Random(1), TTL, client)


def strike(cluster: SimCluster, fault: str, params: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
    """Inject among chatting clients, observe, wait, heal: what was seen, and what the heal found."""

    def main() -> tuple[Seen, dict[str, Any]]:
        chatter(cluster)
        time.sleep(1)
        damage = msgspec.convert(params or {}, fault_class(fault)).inject(scene(cluster))
        seen = damage.observe()
        time.sleep(0.5)
        return seen, damage.heal()

    found: tuple[Seen, dict[str, Any]] = on(cluster, main)
    return found
