"""The control side's connections through the engine: no fault of a host or its links affects them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness.clusters.abilities import ABILITIES, FAILOVER
from harness.clusters.abilities.network import LinkShape
from harness.clusters.base import names
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.control import VARIABLE
from harness.clusters.gate import NOWHERE

from .real import servers

pytestmark = pytest.mark.docker

SOON = 0.5
FAR = LinkShape(2.0, 0.0, 0.0, None)
LOSSY = LinkShape(loss=0.999)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DockerCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "engine")
        made = DockerCluster(
            kind="redis-sentinel", nodes=0, clients=Clients(2), seed=0, resource='{"fencing": "off", "stock": {}}',
            options={}, needs=frozenset(ABILITIES),
        )  # fmt: skip
        try:
            made.start_all()
            yield made
        finally:
            made.stop_all()


def links_of(cluster: DockerCluster, host: str) -> list[tuple[str, str]]:
    others = [other.name for other in cluster.hosts if other.name != host]
    return [(host, other) for other in others] + [(other, host) for other in others]


def test_the_servers_are_reached_through_the_engine(cluster: DockerCluster) -> None:
    assert cluster.about()["control"] == "engine"
    host, port = cluster.servers.reached("n1")
    assert host == "127.0.0.1" != cluster._boxes["n1"].ip
    assert port != cluster.servers.port("n1")
    assert FAILOVER.of(cluster).primary() == "n1", "the address that sentinels announce is that of the server"


def test_a_server_that_is_cut_off_from_every_host_still_answers_the_control_side(cluster: DockerCluster) -> None:
    links = links_of(cluster, "n2")
    cluster.cut(links)
    try:
        assert [cluster.reaches(*link, SOON) for link in links] == [None] * len(links)
        assert cluster.state("n2") == "running"
        assert cluster.key_count("n2") is not None
    finally:
        cluster.heal(links)


def test_lost_and_late_packets_do_not_affect_the_control_side(cluster: DockerCluster) -> None:
    links = links_of(cluster, "n2")
    peers = [(source, target) for source, target in links if {source, target} <= set(cluster.servers.data_hosts)]
    undo = [cluster.shape(links, LOSSY), cluster.shape(peers, FAR)]
    try:
        assert cluster.reaches(*peers[0], SOON) is None
        assert cluster.state("n2") == "running"
    finally:
        for call in undo:
            call()


def test_a_proxy_is_controlled_through_the_engine_while_its_links_are_cut(cluster: DockerCluster) -> None:
    links = links_of(cluster, "c0")
    cluster.cut(links)
    try:
        undo = cluster.shape([("c0", "n1")], LinkShape(0.2, 0.0, 0.0, None))
        toxics = cluster._link_faults._proxies["c0"].toxics("n1")
        assert any("latency" in name for name in toxics)
        undo()
        toxics = cluster._link_faults._proxies["c0"].toxics("n1")
        assert not any("latency" in name for name in toxics)
    finally:
        cluster.heal(links)


def test_frozen_servers_answer_nothing_and_delay_no_other_server(cluster: DockerCluster) -> None:
    frozen = [name for name in cluster.servers.data_hosts if name != "n1"]
    for name in frozen:
        cluster.pause(name)
    try:
        for _ in range(5):
            assert [cluster.state(name) for name in frozen] == ["paused"] * len(frozen)
            assert cluster.state("n1") == "running"
    finally:
        for name in frozen:
            cluster.resume(name)
    assert [cluster.state(name) for name in names(cluster.hosts, "server")] == ["running"] * (len(frozen) + 1)


def test_a_dead_server_is_seen_dead_and_is_reached_after_its_restart(cluster: DockerCluster) -> None:
    cluster.kill("n2")
    assert cluster.state("n2") == "dead"
    cluster.start("n2", wiped=False)
    deadline = time.monotonic() + 20
    while cluster.state("n2") != "running":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_address_outside_the_cluster_is_not_reached(cluster: DockerCluster) -> None:
    assert cluster.servers.gate.address("10.255.255.1", 6379) == NOWHERE


def test_servers_without_clients_get_a_helper_where_there_is_no_route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "engine")
    with servers("memcached") as cluster:
        assert cluster.state("n1") == "running"
