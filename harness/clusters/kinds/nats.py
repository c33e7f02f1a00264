"""NATS: a cluster of servers with JetStream, whose key-value buckets have the locks."""

from __future__ import annotations

from typing import Final

from harness.clusters.server_options import SWITCH

from .kind import Kind

NATS: Final = Kind(
    name="nats",
    about="NATS servers with JetStream",
    rank=8,
    port=4222,
    nodes=3,
    docker="harness.clusters.docker.services.nats:NatsServers",
    options={"sync_always": SWITCH},
    packages=("nats-py",),
)
