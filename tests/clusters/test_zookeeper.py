"""A ZooKeeper ensemble under faults, simulated and real: effects on its clients, and reports of its members."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from harness.clusters.abilities import leader_of
from harness.clusters.base import names
from harness.clusters.docker.services.zookeeper import ZooKeeperServers
from harness.errors import UsageError
from harness.plan import Plan
from harness.run.runs import run
from tests.clusters.bench import AnyCluster, Bench, fault, scene, until_healed

HOUR = 3600.0
SESSION_S = 4.0
Story = Callable[[KazooClient], Any]


def client_of(cluster: AnyCluster, story: Story, *members: str) -> Any:
    """Return the answer to a client of these members (default: all), on a simulated host or in this process."""
    addresses = cluster.endpoints().addresses
    there = names(cluster.hosts, "server")
    hosts = ",".join(f"{host}:{port}" for name, (host, port) in zip(there, addresses, strict=True)
                     if not members or name in members)  # fmt: skip
    got: list[Any] = []

    def client_program(checkpoint: Any) -> None:
        client = KazooClient(hosts, timeout=SESSION_S)
        client.start()
        got.append(story(client))
        client.stop()

    if cluster.backend == "sim":
        assert cluster.spawn("c0", client_program)(600)  # type: ignore[attr-defined]
    else:
        client_program(None)
    return got[0]


def struck(cluster: AnyCluster, name: str, **params: Any) -> Callable[[], None]:
    """Inject a fault and assert that it took effect. Return a function that heals it and asserts that."""
    damage = fault(name, **params).inject(scene(cluster))
    seen = damage.observe()
    assert seen.effective, seen

    def heal() -> None:
        damage.heal()
        assert until_healed(damage.healed).effective

    return heal


def sizes_agree(cluster: AnyCluster) -> bool:
    sizes = [cluster.key_count(name) for name in names(cluster.hosts, "server")]
    return None not in sizes and len(set(sizes)) == 1


def until(seen: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def follower(cluster: AnyCluster) -> str:
    leader = leader_of(cluster)
    return next(name for name in names(cluster.hosts, "server") if name != leader)


def test_a_member_that_comes_back_empty_gets_everything_again(bench: Bench) -> None:
    def story(cluster: AnyCluster) -> list[Any]:
        client_of(cluster, lambda client: client.create("/amnesia", b"kept", makepath=True))
        lost = follower(cluster)
        struck(cluster, "kill-amnesia", target=lost)()
        until(lambda: sizes_agree(cluster))
        found = client_of(cluster, lambda client: client.get("/amnesia")[0], lost)
        client_of(cluster, lambda client: client.delete("/amnesia"))
        return [found, cluster.key_count(lost) == cluster.key_count(leader_of(cluster) or "")]

    assert bench.on("zookeeper", story) == [b"kept", True]


@pytest.mark.parametrize("offset", [HOUR, -HOUR])
def test_a_clock_that_jumps_ends_no_session_and_shows_in_ctime(offset: float, bench: Bench) -> None:
    """Sessions are timed by the JVM's monotonic clock."""

    def story(cluster: AnyCluster) -> list[Any]:
        leader = leader_of(cluster) or ""

        def during(client: KazooClient) -> list[Any]:
            session, true = client.client_id, time.time()
            client.create("/held", ephemeral=True)
            cluster.set_clock(leader, offset)
            time.sleep(1.5 * SESSION_S)
            later = client.create("/late", ephemeral=True, include_data=True)[1]
            moved = round((later.ctime / 1000 - true) / HOUR)
            return [client.client_id == session, client.exists("/held") is not None, moved]

        found = client_of(cluster, during)
        cluster.set_clock(leader, 0.0)
        return [*found, round(cluster.read_clock(leader) / 1e9)]

    assert bench.on("zookeeper", story) == [True, True, round(offset / HOUR), 0]


def test_a_member_without_the_others_takes_no_writes(bench: Bench) -> None:
    """It refuses or does not answer, and serves again when the others are back."""

    def story(cluster: AnyCluster) -> list[Any]:
        alone = follower(cluster)

        def write(client: KazooClient) -> str:
            heal = struck(cluster, "partition-node", target=alone)
            try:
                client.create_async("/refused", ephemeral=True).get(timeout=SESSION_S)
            except (KazooException, KazooTimeoutError) as error:
                refused = type(error).__name__
            else:
                refused = "created"
            heal()
            return refused

        refused = client_of(cluster, write, alone)
        until(lambda: sizes_agree(cluster))
        again = client_of(cluster, lambda client: client.create("/taken", ephemeral=True), alone)
        return [refused != "created", again]

    assert bench.on("zookeeper", story) == [True, "/taken"]


def test_a_killed_member_serves_again_soon(bench: Bench) -> None:
    def story(cluster: AnyCluster) -> bool:
        killed = follower(cluster)
        damage = fault("kill", target=killed).inject(scene(cluster))
        assert damage.observe().effective
        damage.heal()
        until(lambda: sizes_agree(cluster), 5.0)
        return leader_of(cluster) != killed

    assert bench.on("zookeeper", story)


def test_key_counts_exclude_the_nodes_of_an_empty_tree(bench: Bench) -> None:
    def story(cluster: AnyCluster) -> list[int | None]:
        def grown(client: KazooClient) -> list[int | None]:
            before = cluster.key_count("n1")
            client.create("/one", ephemeral=True)
            client.sync("/one")
            until(lambda: cluster.key_count("n1") != before)
            return [before, cluster.key_count("n1")]

        return client_of(cluster, grown, "n1")  # type: ignore[no-any-return]

    before, after = bench.on("zookeeper", story)
    assert after == before + 1


def test_the_tick_is_an_option() -> None:
    with pytest.raises(UsageError, match="tick_ms must be a whole number"):
        run(Plan(lock="zookeeper-sequential", server_options={"tick_ms": "fast"}))
    servers = ZooKeeperServers("zookeeper", 3, {"tick_ms": 2000})
    servers.addresses.update(n1="10.0.0.1", n2="10.0.0.2", n3="10.0.0.3")
    conf = servers.program("n2")[1]
    assert "tickTime=2000" in conf["CONF"]
    assert "server.3=10.0.0.3:2888:3888" in conf["CONF"]
    assert conf["NUMBER"] == "2"
