"""An etcd cluster as the harness sees it, simulated and real: leader, keys, clocks, members that lose their data."""

from __future__ import annotations

import time
from typing import Any

import etcd3
import pytest

from harness.clusters.abilities import leader_of
from harness.clusters.base import names
from harness.clusters.docker.services.etcd import EtcdServers
from harness.clusters.kinds.etcd import ETCD
from tests.clusters.bench import AnyCluster, Bench, fault, scene, until_healed


def _follower(cluster: AnyCluster) -> str:
    return next(name for name in names(cluster.hosts, "server") if name != leader_of(cluster))


def _wipe_follower(cluster: Any) -> Any:
    victim, leader = _follower(cluster), leader_of(cluster)
    damage = fault("kill-amnesia", target=victim).inject(scene(cluster))
    seen = damage.observe()
    damage.heal()
    healed = until_healed(damage.healed)
    deadline = time.monotonic() + 60
    while cluster.key_count(victim) != cluster.key_count(leader) and time.monotonic() < deadline:
        time.sleep(0.05)
    return seen, healed, cluster.key_count(victim), cluster.key_count(leader), (leader, leader_of(cluster))


def test_a_member_without_data_is_added_again_and_catches_up(bench: Bench) -> None:
    seen, healed, mine, others, (before, after) = bench.on("etcd", _wipe_follower)
    assert seen.effective, seen
    assert healed.effective, healed
    assert mine == others
    assert before == after


@pytest.mark.docker
def test_keys_are_counted_and_the_clock_is_moved(request: pytest.FixtureRequest) -> None:
    """The test uses etcd3 on this machine; the control side uses other interfaces."""

    def ask(cluster: Any) -> Any:
        leader = leader_of(cluster)
        client = etcd3.client(host=cluster.servers.addresses[leader], port=ETCD.port, timeout=2)
        before = cluster.key_count(leader)
        client.put("counted", "1")
        after = cluster.key_count(leader)
        client.delete("counted")
        cluster.set_clock(leader, -5.0)
        moved = cluster.read_clock(leader)
        cluster.set_clock(leader, 0.0)
        return before, after, moved, cluster.read_clock(leader), client.status().leader.name == leader

    before, after, moved, back, same = request.getfixturevalue("_docker_bench").on("etcd", ask)
    assert after == before + 1
    assert abs(moved + 5_000_000_000) < 5_000_000
    assert abs(back) < 5_000_000
    assert same


def test_options_reach_the_members_command_line() -> None:
    family = EtcdServers("etcd", 3, {"heartbeat_ms": 50, "election_ms": 500})
    family.addresses = {"n1": "a", "n2": "b", "n3": "c"}
    command, _ = family.program("n2")
    text = " ".join(command)
    assert command[2:7] == ["/lock-harness/etcd-member.sh", "n2", "http://b:2380", "http://a:2379,http://c:2379",
                            "n1=http://a:2380,n2=http://b:2380,n3=http://c:2380"]  # fmt: skip
    assert "--heartbeat-interval 50 --election-timeout 500" in text
