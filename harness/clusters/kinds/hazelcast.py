"""Hazelcast: members with a CP group."""

from __future__ import annotations

from typing import Final

from harness.clusters.server_options import WHOLE

from .kind import Kind

HAZELCAST: Final = Kind(
    name="hazelcast",
    about="Hazelcast members with a CP group",
    rank=7,
    port=5701,
    nodes=3,
    docker="harness.clusters.docker.services.hazelcast:HazelcastServers",
    options={"session_ttl": WHOLE, "session_heartbeat": WHOLE},
    packages=("hazelcast-python-client",),
    redirects=True,
)
