"""etcd: a cluster of members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.clusters.server_options import WHOLE

from .kind import Kind
from .releases import release_option

HEARTBEAT_MS: Final = 100
ELECTION_MS: Final = 1000
NEWEST_FILES: Final = ("etcd/member/wal/*.wal",)
"""Files with a member's newest data in its data folder."""
MEMBER_ENVIRONMENT: Final = {"ETCD_ENABLE_V2": "true"}
"""Environment of a real member. Sherlock's lock speaks version 2 of the API. etcd 3.6 no longer has it: it would refuse
the flag ``--enable-v2``, and only warns of the variable."""


def member_flags(options: Mapping[str, Any], client_url: str, client_port: int, peer_port: int) -> list[str]:
    """Return the flags of a real member, beside its name, its data and the members of its cluster."""
    return [
        "--listen-client-urls", f"http://0.0.0.0:{client_port}",
        "--advertise-client-urls", client_url,
        "--listen-peer-urls", f"http://0.0.0.0:{peer_port}",
        "--heartbeat-interval", str(options.get("heartbeat_ms", HEARTBEAT_MS)),
        "--election-timeout", str(options.get("election_ms", ELECTION_MS)),
        "--logger", "zap", "--log-outputs", "stderr",
    ]  # fmt: skip


ETCD: Final = Kind(
    name="etcd",
    about="an etcd cluster",
    rank=5,
    port=2379,
    nodes=3,
    sim="harness.clusters.sim.services.etcd:EtcdServers",
    docker="harness.clusters.docker.services.etcd:EtcdServers",
    servers="harness.clusters.servers.services.etcd:EtcdServer",
    ssh="harness.clusters.ssh.services.etcd:EtcdServers",
    options={"release": release_option("etcd"), "heartbeat_ms": WHOLE, "election_ms": WHOLE},
    packages=("etcd3", "grpcio"),
)
