"""ZooKeeper: an ensemble."""

from __future__ import annotations

from typing import Final

from harness.clusters.server_options import WHOLE

from .kind import Kind
from .releases import release_option

ZOOKEEPER: Final = Kind(
    name="zookeeper",
    about="a ZooKeeper ensemble",
    rank=4,
    port=2181,
    nodes=3,
    sim="harness.clusters.sim.services.zookeeper:ZooKeeperServers",
    docker="harness.clusters.docker.services.zookeeper:ZooKeeperServers",
    servers="harness.clusters.servers.services.zookeeper:ZooKeeperServer",
    options={"release": release_option("zookeeper"), "tick_ms": WHOLE},
    packages=("kazoo",),
)
