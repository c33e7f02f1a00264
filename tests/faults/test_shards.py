"""Faults of a primary in a cluster of several shards strike the shard of the lock's key only."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from harness.faults.base import targets
from harness.faults.catalogue import fault_class
from tests.faults.fakes import FakeCluster, scene


@dataclass(slots=True)
class ShardedCluster(FakeCluster):
    """Five servers, of which n3 is the primary of the lock's key and n5 its only replica, until it is promoted."""

    roles: dict[str, list[str]] = field(default_factory=lambda: {"n3": ["n5"]})

    def primary(self) -> str | None:
        return next(iter(self.roles))

    def replicas(self) -> list[str]:
        return next(iter(self.roles.values()))


def test_replicas_are_those_of_the_shard() -> None:
    context = scene(ShardedCluster())
    assert targets(context, "primary", context.hosts("server")) == ["n3"]
    assert targets(context, "replicas", context.hosts("server")) == ["n5"]


def test_partition_replicas_leaves_the_other_shards_connected() -> None:
    cluster = ShardedCluster()
    fault_class("partition-replicas")().inject(scene(cluster))
    assert cluster.damage["cut"] == {("n3", "n5")}


@pytest.mark.parametrize(
    ("roles", "healed"),
    [({"n5": ["n3"]}, True), ({"n3": ["n5"]}, True), ({"n5": []}, False)],
    ids=["a replica", "primary again", "it follows nobody"],
)
@pytest.mark.parametrize("how", ["kill", "isolate"])
def test_failover_is_healed_when_the_old_primary_is_in_its_shard(
    how: str, roles: dict[str, list[str]], healed: bool
) -> None:
    cluster = ShardedCluster()
    damage = fault_class("failover")(how=how).inject(scene(cluster))
    damage.heal()
    cluster.roles = roles
    found = damage.healed()
    assert found.effective is healed, found
    assert found.facts["replicas"] == next(iter(roles.values()))
