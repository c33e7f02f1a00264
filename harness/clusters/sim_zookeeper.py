"""A simulated ZooKeeper ensemble: n1, n2, ... on port 2181, each server's id being its number.

``server_options``: ``tick_ms`` is the real server's tickTime (default 500). Session time-outs are at least 2 and at
most 20 ticks; a leader or follower that is silent for syncLimit (4) ticks is given up; initLimit is 10 ticks.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ..history.lock_keys import Sight, owner_text
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
DIGITS: Final = 10
"""Of the number at the end of a sequential node's name."""


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
    ensemble: list[ZooKeeperServer] = []
    for number, name in enumerate(names, 1):
        host = make(name, "server")
        server = ZooKeeperServer(number, limits.tick)
        quorum = Quorum(server, {at: other for at, other in enumerate(names, 1) if at != number}, limits)
        host.install(server)
        host.install(quorum)
        servers.watch[name] = _watch(server)
        servers.size[name] = server.size
        servers.look[name] = partial(_look, quorum, ensemble)
        ensemble.append(server)
        members.append((name, quorum))

    def primary() -> str | None:
        """Who leads; of two who believe so, the one in the later epoch."""
        leading = [(quorum.disk.epoch, name) for name, quorum in members if quorum.leading]
        return max(leading)[1] if leading else None

    servers.primary = primary
    return servers


def _look(quorum: Quorum, ensemble: list[ZooKeeperServer], key: str) -> Sight | None:
    """The lowest sequential node under ``/locks/KEY``; without any the node itself: it holds for its session, or as a
    file that stays (the Chubby lock) for the one of its child that its contents name."""
    nodes, path = quorum.server.tree.nodes, f"/locks/{key}"
    node = nodes.get(path)
    if node is None:
        return None
    numbered = [name for name in node.children if name[-DIGITS:].isdigit()]
    if numbered:
        owner = min(numbered, key=lambda name: name[-DIGITS:])
        return _of_session(owner, nodes[f"{path}/{owner}"].owner, quorum, ensemble)
    if node.owner:
        return _of_session(f"session {node.owner:x}", node.owner, quorum, ensemble)
    if not node.data:
        return None
    child = next((nodes[f"{path}/{name}"] for name in node.children), None)
    return _of_session(owner_text(node.data), child.owner if child else 0, quorum, ensemble)


def _of_session(owner: str, session: int, quorum: Quorum, ensemble: list[ZooKeeperServer]) -> Sight:
    if not session:
        return Sight(owner)
    client = next((server.hosts[session] for server in ensemble if session in server.hosts), None)
    return Sight(owner, quorum.left(session), client)


def _watch(server: ZooKeeperServer) -> Any:
    def watch(on_reply: OnReply | None) -> None:
        server.on_command = on_reply

    return watch
