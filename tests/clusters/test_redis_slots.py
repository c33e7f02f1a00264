"""Which node owns a hash slot, and which nodes replicate it, according to the nodes' views."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from harness.clusters.docker.services.redis_cluster import ClusterServers
from harness.clusters.kinds.redis import CLUSTER
from harness.clusters.redis_slots import (
    SLOTS,
    View,
    is_whole,
    key_in,
    owner_of,
    replicas_of,
    slot_of,
    slot_ranges,
    view_of,
)
from harness.clusters.server_options import completed
from harness.errors import UsageError

IDS = {name: f"{number:040x}" for number, name in enumerate(("n1", "n2", "n3", "n4", "n5", "n6"), 1)}
IPS = {name: f"10.0.0.{number}" for number, name in enumerate(IDS, 1)}
OF = {"n4": "n1", "n5": "n2", "n6": "n3"}
SLOT = 8579
PARSE: Any = redis.Redis().response_callbacks["CLUSTER NODES"]


def line(name: str, flags: str, primary: str = "", epoch: int = 1, slots: str = "") -> str:
    """Return a line of ``CLUSTER NODES`` as Redis 7 writes it."""
    follows = IDS.get(primary, "-")
    return f"{IDS[name]} {IPS[name]}:6379@16379 {flags} {follows} 0 1795739461686 {epoch} connected {slots}".rstrip()


def view(*lines: str) -> View:
    return view_of(PARSE("\n".join(lines)))


FIRST = (
    line("n1", "myself,master", epoch=1, slots="0-5460"),
    line("n2", "master", epoch=2, slots="5461-10922"),
    line("n3", "master", epoch=3, slots="10923-16383"),
    *(line(replica, "slave", primary) for replica, primary in OF.items()),
)
"""Before a failover, as n1 sees it."""
PROMOTED = (
    line("n1", "myself,master", epoch=1, slots="0-5460"),
    line("n2", "master,fail", epoch=2),
    line("n3", "master", epoch=3, slots="10923-16383"),
    line("n4", "slave", "n1"),
    line("n5", "master", epoch=7, slots="5461-10922"),
    line("n6", "slave", "n3"),
)
"""After n5 was promoted."""
ISOLATED = (
    line("n1", "master,fail?", epoch=1, slots="0-5460"),
    line("n2", "myself,master", epoch=2, slots="5461-10922"),
    line("n3", "master,fail?", epoch=3, slots="10923-16383"),
    *(line(replica, "slave,fail?", primary) for replica, primary in OF.items()),
)
"""The view of n2, which does not know that it was replaced."""


def hosts(nodes: View) -> set[str]:
    return {name for name, id_ in IDS.items() if id_ in {node.id for node in nodes}}


def test_the_owner_of_a_slot_and_its_replica_are_found() -> None:
    views = [view(*FIRST)]
    owner = owner_of(SLOT, views)
    assert owner is not None
    assert (owner.id, owner.ip) == (IDS["n2"], IPS["n2"])
    assert hosts(replicas_of(owner, views)) == {"n5"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_promoted_node_owns_the_slot_although_the_old_one_claims_it(order: tuple[int, int]) -> None:
    views = [(view(*PROMOTED), view(*ISOLATED))[number] for number in order]
    owner = owner_of(SLOT, views)
    assert owner is not None
    assert owner.id == IDS["n5"]
    assert replicas_of(owner, views) == []  # n2 does not follow it yet


def test_the_old_primary_is_a_replica_once_it_follows_the_new_one() -> None:
    back = view(*(one for one in PROMOTED if IDS["n2"] not in one), line("n2", "slave", "n5"))
    owner = owner_of(SLOT, [back])
    assert owner is not None
    assert hosts(replicas_of(owner, [back])) == {"n2"}


def test_nobody_owns_a_slot_that_no_view_mentions() -> None:
    assert owner_of(SLOT, []) is None
    assert owner_of(SLOT, [view(line("n1", "myself,master", slots="0-5460"))]) is None


def test_a_single_slot_and_a_migrating_one_are_read() -> None:
    (node,) = view(line("n1", "myself,master", slots=f"7 {SLOT}-{SLOT + 1} [93-<-{IDS['n2']}]"))
    assert node.slots == ((7, 7), (SLOT, SLOT + 1))
    assert [node.claims(slot) for slot in (6, 7, 8, SLOT, SLOT + 1, SLOT + 2, 93)] == [
        False, True, False, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "lines",
    [
        FIRST[:-1],
        PROMOTED,
        ISOLATED,
        (*FIRST[:1], line("n2", "master", epoch=2, slots="5461-10921"), *FIRST[2:]),
        (*FIRST[:-1], line("n6", "handshake", "")),
    ],
    ids=["a node is missing", "a node failed", "isolated", "a slot without an owner", "a node is not known yet"],
)
def test_a_cluster_with_a_gap_is_not_whole(lines: tuple[str, ...]) -> None:
    assert is_whole(view(*FIRST), 6)
    assert not is_whole(view(*lines), 6)


@pytest.mark.parametrize("primaries", [3, 4, 5])
def test_slots_are_divided_without_a_gap(primaries: int) -> None:
    ranges = slot_ranges(primaries)
    assert [slot for first, last in ranges for slot in range(first, last + 1)] == list(range(SLOTS))
    assert len(ranges) == primaries
    for first, last in ranges:
        assert first <= slot_of(key_in(first, last, "probe:")) <= last


def test_keys_with_the_same_hash_tag_have_one_slot() -> None:
    assert slot_of("k0") == SLOT == slot_of("{k0}:fence")
    assert slot_of("k0:fence") != SLOT


@pytest.mark.parametrize("nodes", [4, 7])
def test_a_number_of_nodes_without_three_primaries_and_as_many_replicas_is_refused(nodes: int) -> None:
    with pytest.raises(UsageError, match=f"nodes must be an even number from 6, got {nodes}"):
        ClusterServers(CLUSTER.name, nodes, {})


def test_options_of_sentinels_are_refused_and_the_node_timeout_is_checked() -> None:
    assert "cluster-node-timeout 500" in ClusterServers(CLUSTER.name, 6, {"cluster_node_timeout": 500})._server("n1")
    with pytest.raises(UsageError, match="replica_priority"):
        completed(CLUSTER.options, {"replica_priority": 1}, "docker")
    with pytest.raises(UsageError, match="cluster_node_timeout must be a whole number of milliseconds"):
        completed(CLUSTER.options, {"cluster_node_timeout": "2s"}, "docker")
