"""A simulated ZooKeeper ensemble: n1, n2, ... on port 2181, each server's id being its number.

``server_options``: ``tick_ms`` is the real server's tickTime (default 500). Session time-outs are at least 2 and at
most 20 ticks; a leader or follower that is silent for syncLimit (4) ticks is given up; initLimit is 10 ticks.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from harness.clusters.sim.kinds import SimPeers, watch_of
from harness.history.lock_keys import KeyObservation, owner_text
from harness.sim.servers.zookeeper.jute import commands
from harness.sim.servers.zookeeper.leader import EnsembleLimits
from harness.sim.servers.zookeeper.quorum import QuorumPeer
from harness.sim.servers.zookeeper.server import ZooKeeperServer

TICK_MS: Final = 500
INIT_LIMIT: Final = 10
SYNC_LIMIT: Final = 4
DIGITS: Final = 10
"""Digits of the number at the end of a sequential node's name."""


class ZooKeeperServers(SimPeers):
    """The module's docstring lists the ``options``."""

    @staticmethod
    def commands(data: bytes) -> list[str]:
        return list(commands(data))

    def install(self) -> None:
        limits = EnsembleLimits(self.options.get("tick_ms", TICK_MS), INIT_LIMIT, SYNC_LIMIT)
        names = [host.name for host in self.hosts]
        self._members: list[tuple[str, QuorumPeer]] = []
        ensemble: list[ZooKeeperServer] = []
        for number, host in enumerate(self.hosts, 1):
            server = ZooKeeperServer(number, limits.tick)
            quorum = QuorumPeer(server, {at: other for at, other in enumerate(names, 1) if at != number}, limits)
            host.install(server)
            host.install(quorum)
            self.watch[host.name] = watch_of(server)
            self.key_count[host.name] = server.size
            self.look[host.name] = partial(_look, quorum, ensemble)
            ensemble.append(server)
            self._members.append((host.name, quorum))

    def leader(self) -> str | None:
        """The leader; of two servers that consider themselves leader, the one with the later epoch."""
        leading = [(quorum.disk.epoch, name) for name, quorum in self._members if quorum.leading]
        return max(leading)[1] if leading else None


def _look(quorum: QuorumPeer, ensemble: list[ZooKeeperServer], key: str) -> KeyObservation | None:
    """Return the owner of a lock and its expiry.

    The owner is the lowest sequential node under ``/locks/KEY``. Without such a node, the node itself counts: an
    ephemeral one stands for its session, a persistent one (the Chubby lock) for the child that its contents name.
    """
    nodes, path = quorum.server.tree.nodes, f"/locks/{key}"
    node = nodes.get(path)
    if node is None:
        return None
    numbered = [name for name in node.children if name[-DIGITS:].isdigit()]
    if numbered:
        owner = min(numbered, key=lambda name: name[-DIGITS:])
        return _session_observation(owner, nodes[f"{path}/{owner}"].owner, quorum, ensemble)
    if node.owner:
        return _session_observation(f"session {node.owner:x}", node.owner, quorum, ensemble)
    if not node.data:
        return None
    child = next((nodes[f"{path}/{name}"] for name in node.children), None)
    return _session_observation(owner_text(node.data), child.owner if child else 0, quorum, ensemble)


def _session_observation(
    owner: str, session: int, quorum: QuorumPeer, ensemble: list[ZooKeeperServer]
) -> KeyObservation:
    if not session:
        return KeyObservation(owner)
    client = next((server.client_hosts[session] for server in ensemble if session in server.client_hosts), None)
    return KeyObservation(owner, quorum.remaining_ns(session), client)
