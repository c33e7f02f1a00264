"""etcd: a cluster of members."""

from __future__ import annotations

from typing import Final

from harness.clusters.server_options import WHOLE

from .kind import Kind

ETCD: Final = Kind(
    name="etcd",
    about="an etcd cluster",
    rank=5,
    port=2379,
    nodes=3,
    sim="harness.clusters.sim.services.etcd:EtcdServers",
    docker="harness.clusters.docker.services.etcd:EtcdServers",
    servers="harness.clusters.servers.services.etcd:EtcdServer",
    options={"heartbeat_ms": WHOLE, "election_ms": WHOLE},
    packages=("etcd3", "grpcio"),
)
