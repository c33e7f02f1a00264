"""The abilities of a cluster follow from the protocols that its parts implement."""

from __future__ import annotations

import pytest

from harness.clusters.abilities import (
    ABILITIES,
    CANCELS,
    DATA_FILES,
    DISKS,
    ELECTIONS,
    FAILOVER,
    INTERRUPTS,
    MEMBERS,
    MEMORY,
    PACKETS,
    PEERS,
    PROCESSES,
    RELEASES,
    SHARDS,
    TAPS,
    Needs,
    abilities_of,
    lacking,
    leader_of,
)
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.kinds import kinds
from harness.clusters.sim.cluster import SimCluster
from harness.clusters.sim.services.redis import SentinelServers
from harness.errors import UsageError
from tests.clusters.bench import make, on

OF_THE_KIND: dict[str, Needs] = {
    "redis-single": frozenset({MEMORY}),
    "redis-independent": frozenset({MEMORY}),
    "redis-sentinel": frozenset({MEMORY, FAILOVER, PEERS}),
    "redis-cluster": frozenset({FAILOVER, SHARDS, PEERS}),
    "mysql-single": frozenset(),
    "mysql-replicated": frozenset({FAILOVER, PEERS}),
    "mysql-galera": frozenset({PEERS}),
    "postgres": frozenset(),
    "postgres-pgbouncer": frozenset(),
    "postgres-replicated": frozenset({FAILOVER, PEERS}),
    "memcached": frozenset({MEMORY}),
    "zookeeper": frozenset({ELECTIONS, PEERS}),
    "etcd": frozenset({ELECTIONS, PEERS}),
    "consul": frozenset(),
    "kubernetes": frozenset(),
    "chubby": frozenset({ELECTIONS, PEERS}),
    "nats": frozenset({ELECTIONS, PEERS}),
    "hazelcast": frozenset({ELECTIONS, PEERS}),
}
EVERYWHERE = frozenset(ABILITIES) - {
    MEMORY,
    FAILOVER,
    SHARDS,
    ELECTIONS,
    PEERS,
    DISKS,
    DATA_FILES,
    PACKETS,
    TAPS,
    CANCELS,
    INTERRUPTS,
    MEMBERS,
    RELEASES,
}
CHANGEABLE = {"etcd", "zookeeper"}
"""Kinds whose members can be changed in containers."""
UPGRADED = {"etcd", "redis-single", "redis-independent", "redis-sentinel"}
"""Kinds whose servers can be started as another release in containers."""
IN_MEMORY = {"memcached", "hazelcast"}
READ = ("redis-", "mysql-", "postgres", "memcached")
"""Beginnings of the kinds whose traffic in containers is read for commands."""


@pytest.mark.parametrize("kind", kinds("sim"))
def test_a_simulated_cluster_has_taps_and_interruptions_and_no_disks(kind: str) -> None:
    assert abilities_of(SimCluster.part_types(kind)) == EVERYWHERE | {TAPS, CANCELS, INTERRUPTS} | OF_THE_KIND[kind]


@pytest.mark.parametrize("kind", kinds("docker"))
def test_containers_have_disks_and_taps_if_their_servers_allow_them(kind: str) -> None:
    disks = frozenset() if kind in IN_MEMORY else frozenset({DISKS, DATA_FILES})
    taps = frozenset({TAPS}) if kind.startswith(READ) else frozenset()
    members = frozenset({MEMBERS}) if kind in CHANGEABLE else frozenset()
    releases = frozenset({RELEASES}) if kind in UPGRADED else frozenset()
    able = EVERYWHERE | {PACKETS} | disks | taps | members | releases | OF_THE_KIND[kind]
    assert abilities_of(DockerCluster.part_types(kind)) == able


@pytest.mark.parametrize("kind", kinds("sim"))
def test_a_cluster_has_the_parts_that_were_promised_before_it_existed(kind: str) -> None:
    assert tuple(type(part) for part in make(kind).parts) == SimCluster.part_types(kind)


def test_a_backend_without_a_kind_has_no_abilities() -> None:
    assert SimCluster.part_types("hazelcast") == SimCluster.part_types("nats") == ()
    assert lacking({PROCESSES, DISKS}, ()) == ["disk", "processes"]


def test_an_ability_is_the_part_that_has_it() -> None:
    cluster = make("redis-sentinel")
    assert PROCESSES.of(cluster) is cluster
    assert isinstance(FAILOVER.of(cluster), SentinelServers)
    assert ELECTIONS.find(cluster) is None
    with pytest.raises(UsageError, match="redis-sentinel on sim does not have the ability 'leader'"):
        ELECTIONS.of(cluster)


def test_independent_servers_have_no_leader() -> None:
    cluster = make("redis-independent")
    assert on(cluster, lambda: leader_of(cluster)) is None
