"""A simulated ZooKeeper ensemble: n1, n2, ... on port 2181, each server's id being its number.

``server_options``: ``tick_ms`` is the real server's tickTime (default 500). Session time-outs are at least 2 and at
most 20 ticks; a leader or follower that is silent for syncLimit (4) ticks is given up; initLimit is 10 ticks.
"""

from __future__ import annotations

from typing import Any, Final

from ..sim.servers.zookeeper.jute import commands
from ..sim.servers.zookeeper.leader import Limits
from ..sim.servers.zookeeper.quorum import Quorum
from ..sim.servers.zookeeper.server import ZooKeeperServer
from .base import Address
from .kinds import KINDS
from .kinds import servers as server_names
from .sim_kinds import MakeHost, OnReply, Servers

TICK_MS: Final = 500
INIT_LIMIT: Final = 10
SYNC_LIMIT: Final = 4


def abilities(kind: str) -> set[str]:  # noqa: ARG001
    """What faults may do, beside the usual."""
    return {"leader", "peers"}


def build(make: MakeHost, kind: str, nodes: int, options: dict[str, Any]) -> Servers:
    """See :func:`harness.clusters.sim_kinds.build`; ``options`` are those above."""
    names = server_names(nodes)
    limits = Limits(options.get("tick_ms", TICK_MS), INIT_LIMIT, SYNC_LIMIT)
    servers = Servers(
        Address(kind, tuple((name, KINDS[kind].port) for name in names)), commands=lambda data: list(commands(data))
    )
    members = []
    for number, name in enumerate(names, 1):
        host = make(name, "server")
        server = ZooKeeperServer(number, limits.tick)
        quorum = Quorum(server, {at: other for at, other in enumerate(names, 1) if at != number}, limits)
        host.install(server)
        host.install(quorum)
        servers.watch[name] = _watch(server)
        servers.size[name] = server.size
        members.append((name, quorum))

    def primary() -> str | None:
        """Who leads; of two who believe so, the one in the later epoch."""
        leading = [(quorum.disk.epoch, name) for name, quorum in members if quorum.leading]
        return max(leading)[1] if leading else None

    servers.primary = primary
    return servers


def _watch(server: ZooKeeperServer) -> Any:
    def watch(on_reply: OnReply | None) -> None:
        server.on_command = on_reply

    return watch
