"""A simulated etcd cluster: members on n1, n2 ..., port 2379, as the docker backend's.

Options of servers: ``heartbeat_ms`` (100) and ``election_ms`` (1000), etcd's ``--heartbeat-interval`` and
``--election-timeout``. The shortest lease is one and a half election time-outs, in whole seconds upwards: 2 s.
"""

from __future__ import annotations

from typing import Any

from ..sim.servers.etcd.server import CLIENT_PORT, EtcdServer, commands
from .base import Address
from .kinds import servers as server_names
from .sim_kinds import MakeHost, OnReply, Servers


def abilities(kind: str) -> set[str]:  # noqa: ARG001
    """What faults may do, beside the usual."""
    return {"leader", "peers"}


def build(make: MakeHost, kind: str, nodes: int, options: dict[str, Any]) -> Servers:
    """See :func:`harness.clusters.sim_kinds.build`; ``options`` are those of
    :class:`harness.sim.servers.etcd.server.EtcdServer`. Which member leads first depends on the seed."""
    hosts = [make(name, "server") for name in server_names(nodes)]
    names = [host.name for host in hosts]
    servers = Servers(Address(kind, tuple((name, CLIENT_PORT) for name in names)), commands=commands)
    first = hosts[0].kernel.rng("etcd/first leader").choice(names)
    programs = {name: EtcdServer(name, names, first=name == first, **options) for name in names}
    for host in hosts:
        server = programs[host.name]
        host.install(server.peers)
        host.install(server)
        servers.watch[host.name] = _watch(server)
        servers.size[host.name] = server.size

    def primary() -> str | None:
        """Of those that hold themselves to be the leader, the one with the latest term."""
        leaders = {name: server.term for name, server in programs.items() if server.leads}
        return max(leaders, key=lambda name: leaders[name], default=None)

    servers.primary = primary
    return servers


def _watch(server: EtcdServer) -> Any:
    def watch(on_reply: OnReply | None) -> None:
        server.on_command = on_reply

    return watch
