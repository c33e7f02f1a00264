"""Owners of hash slots, as the nodes of a Redis Cluster describe each other.

Each node has a view of its own. The views agree after a while: of two nodes that claim a slot, the one with the larger
configuration epoch owns it (Redis Cluster specification, "Hash slots configuration propagation").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

SLOTS: Final = int(REDIS_CLUSTER_HASH_SLOTS)
FAILING: Final = frozenset({"fail", "fail?", "handshake", "noaddr"})
"""Flags of a node that its peers cannot use."""


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node as another one sees it: a line of ``CLUSTER NODES``.

    ``ip`` is empty if a node does not know its own yet. ``primary_id`` is empty for a primary. ``slots`` are pairs of
    the first and the last slot of a range.
    """

    id: str
    ip: str
    flags: frozenset[str]
    primary_id: str
    epoch: int
    slots: tuple[tuple[int, int], ...]

    def claims(self, slot: int) -> bool:
        return any(first <= slot <= last for first, last in self.slots)


View = Sequence[ClusterNode]


def slot_of(key: str) -> int:
    """Return the hash slot of a key, which its hash tag determines if it has one."""
    return int(key_slot(key.encode()))


def view_of(answer: Mapping[str, Mapping[str, Any]]) -> list[ClusterNode]:
    """Return the nodes in redis-py's answer to ``CLUSTER NODES``: attributes by ``ip:port``."""
    return [
        ClusterNode(
            id=node["node_id"],
            ip=address.rpartition(":")[0],
            flags=frozenset(node["flags"].split(",")) - {"myself"},
            primary_id="" if node["master_id"] == "-" else node["master_id"],
            epoch=int(node["epoch"]),
            slots=tuple((int(part[0]), int(part[-1])) for part in node["slots"]),
        )
        for address, node in answer.items()
    ]


def owner_of(slot: int, views: Iterable[View]) -> ClusterNode | None:
    """Return the node that owns a slot according to these views; ``None`` if nobody claims it."""
    claims = (node for view in views for node in view if node.claims(slot))
    return max(claims, key=lambda node: node.epoch, default=None)


def replicas_of(owner: ClusterNode, views: Iterable[View]) -> list[ClusterNode]:
    """Return the nodes that replicate ``owner`` according to any of these views."""
    return list({node.id: node for view in views for node in view if node.primary_id == owner.id}.values())


def is_whole(view: View, nodes: int) -> bool:
    """Return whether a node knows all ``nodes``, considers all of them alive, and knows an owner of every slot."""
    sound = all(node.ip and not node.flags & FAILING for node in view)
    covered = sum(last - first + 1 for node in view for first, last in node.slots)
    return len(view) == nodes and sound and covered == SLOTS


def slot_ranges(primaries: int) -> list[tuple[int, int]]:
    """Return the first and last slot of each primary, as ``redis-cli --cluster create`` divides them."""
    bounds = [round(SLOTS * number / primaries) for number in range(primaries + 1)]
    return [(first, last - 1) for first, last in pairwise(bounds)]


def key_in(first: int, last: int, prefix: str) -> str:
    """Return a key that begins with ``prefix`` and whose slot is in a range."""
    return next(key for number in range(SLOTS * 64) if first <= slot_of(key := f"{prefix}{number}") <= last)
