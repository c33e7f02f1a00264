"""Changes of the members of etcd and ZooKeeper: how they are observed and healed, and what they mean for clients."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import etcd3
import pytest
from kazoo.client import KazooClient

from harness.clusters.abilities import MEMBERS, leader_of
from harness.clusters.base import Cluster, names
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.services.etcd import EtcdServers
from harness.clusters.docker.services.zookeeper import ZooKeeperServers
from harness.errors import UsageError
from harness.faults import membership
from harness.faults.base import Damage
from harness.faults.catalogue import build_fault, fault_class
from harness.faults.records import FaultRecord, Moment
from harness.plan import FaultSpec, Plan
from harness.run.plans.completion import complete
from harness.run.runs import run
from tests.clusters.bench import fault, scene, until_healed
from tests.faults.fakes import FakeCluster
from tests.faults.fakes import scene as fake_scene

KINDS = ("etcd", "zookeeper")
NAME = "membership-change"


def plan(**fields: Any) -> Plan:
    return Plan(**{"lock": "etcd-mutex", "cluster": "docker", "faults": (FaultSpec(NAME, at=6.0, for_=5.0),), **fields})


@pytest.mark.parametrize("target", ["all", "minority", "n1,n2", "holder"])
def test_only_one_member_is_changed_at_a_time(target: str) -> None:
    with pytest.raises(UsageError, match=f"target: got '{target}', expected one, primary, follower or the name of one"):
        build_fault(FaultSpec(NAME, at=1.0, params={"target": target}))


def test_two_members_are_too_few() -> None:
    with pytest.raises(UsageError, match="needs three nodes at least: the others must be able to agree"):
        complete(plan(nodes=2))


@pytest.mark.parametrize("lock", ["etcd-mutex", "zookeeper-sequential"])
def test_the_simulator_refuses_it_and_says_what_is_possible(lock: str) -> None:
    with pytest.raises(UsageError, match=rf"'{NAME}' needs members, which .* on sim cannot do; --cluster docker can"):
        complete(plan(lock=lock, cluster="sim"))


def test_servers_without_members_refuse_it() -> None:
    with pytest.raises(UsageError, match="needs members, which redis-single on docker cannot do; it supports clock,"):
        complete(plan(lock="redis-token"))


def test_hosts_and_own_servers_refuse_it_at_once() -> None:
    with pytest.raises(UsageError, match="needs members, which etcd on hosts cannot do; possible are "):
        complete(plan(cluster="ssh", hosts=("h1", "h2", "h3")))
    with pytest.raises(UsageError, match=r"is not possible on servers of your own, .*; possible are black-hole, "):
        complete(plan(cluster="servers", servers=("etcd://127.0.0.1:1", "etcd://127.0.0.1:2", "etcd://127.0.0.1:3")))


def test_a_follower_is_no_leader() -> None:
    cluster = FakeCluster()
    damage = fault(NAME, target="follower").inject(fake_scene(cluster))
    assert damage.hosts != [leader_of(cast(Cluster, cluster))]
    assert damage.observe().facts["led"] is False


def test_a_refused_removal_and_a_refused_return_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "SERVES_WITHIN_S", 0.0)
    cluster = FakeCluster(deaf="all", stubborn="all")
    damage = fault(NAME, target="n2").inject(scene(cast(Cluster, cluster)))
    cluster.deaf = "none"
    assert damage.observe().effective
    damage.heal()
    assert not damage.healed().effective
    cluster.stubborn = "none"
    assert until_healed(damage.healed).effective


def test_a_removal_that_is_refused_after_the_heal_is_not_tried_again() -> None:
    cluster = FakeCluster(deaf="all")
    damage = fault(NAME, target="n2", patience=0.5).inject(scene(cast(Cluster, cluster)))
    damage.heal()
    cluster.deaf = "none"
    assert not damage.observe().effective
    assert damage.healed().effective


def test_its_words_name_a_leader_and_the_return() -> None:
    facts = {"members_before": {}, "led": True}
    record = FaultRecord(0, NAME, ("n2",), {}, 1_500_000_000, 3_500_000_000, True, facts, None)
    kind = fault_class(NAME)
    told = "the leader n2 is removed from the members, and added again at 3.000 s"
    assert kind.story(record, " until 3.000 s") == told
    said = "the leader n2 was removed from the members at 1.000 s"
    assert kind.cause(record, Moment(2_000_000_000, 500_000_000)) == said
    assert kind.cause(record, Moment(4_000_000_000, 500_000_000)) == f"{said}, and added again at 3.000 s"


def test_each_zookeeper_member_states_where_the_others_are_and_may_be_reconfigured() -> None:
    servers = ZooKeeperServers("zookeeper", 3, {})
    servers.addresses.update(n1="10.0.0.1", n2="10.0.0.2", n3="10.0.0.3")
    command, environment = servers.program("n2")
    assert "reconfigEnabled=true\nserver.1=10.0.0.1:2888:3888:participant;2181\n" in environment["CONF"]
    assert any(word.startswith("-Dzookeeper.DigestAuthenticationProvider.superDigest=super:") for word in command)


def test_the_control_side_writes_nothing_about_a_zookeeper_server_that_is_down() -> None:
    program = """
from harness.clusters.key_readers.zookeeper import NoAnswer, ZooKeeperKeyReader
try:
    ZooKeeperKeyReader("127.0.0.1", 1)
except NoAnswer:
    print("no answer")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("no answer\n", "")


def test_an_etcd_member_without_a_name_is_known_by_its_address() -> None:
    servers = EtcdServers("etcd", 3, {})
    servers.addresses.update(n1="10.0.0.1", n2="10.0.0.2")
    told = {"members": [{"ID": "31", "peerURLs": ["http://10.0.0.2:2380"]},
                        {"ID": "32", "peerURLs": ["http://10.0.0.1:2380"], "isLearner": True}]}  # fmt: skip
    servers._ask = lambda *asked: told  # type: ignore[method-assign]
    assert servers.members("n1") == {"n2": "1f"}


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest) -> Iterator[DockerCluster]:
    cluster = DockerCluster(
        kind=request.param,
        nodes=0,
        clients=Clients(1),
        seed=0,
        resource='{"fencing": "off", "stock": {}}',
        options={},
        needs=frozenset({MEMBERS}),
    )
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop_all()


def inject(cluster: DockerCluster, target: str, patience: float = 30.0) -> Damage:
    return fault(NAME, target=target, patience=patience).inject(scene(cluster))


def until(seen: Any) -> None:
    deadline = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def members_agree(cluster: DockerCluster) -> bool:
    there = [MEMBERS.of(cluster).members(host) for host in names(cluster.hosts, "server")]
    return there[0] is not None and len(there[0]) == 3 and there[0] == there[1] == there[2]


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestContainers:
    @pytest.mark.parametrize("target", ["follower", "primary"])
    def test_a_member_is_removed_and_comes_back(self, target: str, cluster: DockerCluster) -> None:
        before, lives = MEMBERS.of(cluster).members("n1"), cluster.incarnation
        damage = inject(cluster, target)
        seen = damage.observe()
        assert seen.effective, seen
        (host,) = damage.hosts
        assert seen.facts["led"] is (target == "primary")
        assert seen.facts["members_before"] == before
        assert sorted(seen.facts["members"]) == sorted({"n1", "n2", "n3"} - {host})
        assert not damage.healed().effective
        if cluster.kind == "etcd":
            until(lambda: lives(host) is None)  # a removed member ends by itself
            assert leader_of(cluster) in seen.facts["members"] or target == "primary"
        else:
            assert lives(host) is not None
        damage.heal()
        healed = until_healed(damage.healed)
        assert healed.effective, healed
        until(lambda: members_agree(cluster))
        after = MEMBERS.of(cluster).members("n1")
        assert before is not None
        assert after is not None
        changed = {name for name in before if before[name] != after[name]}
        assert changed == ({host} if cluster.kind == "etcd" else set())  # a new member of etcd has a new id

    def test_a_removal_that_does_nothing_is_reported(
        self, cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        life = {host: cluster.incarnation(host) for host in ("n1", "n2", "n3")}
        with monkeypatch.context() as patch:
            patch.setattr(cluster.servers, "remove_member", lambda host: None)
            damage = inject(cluster, "one", patience=2.0)
            seen = damage.observe()
        assert seen.error("inject") == "no effect seen; expected the other members to report a membership without it"
        damage.heal()
        assert damage.healed().effective
        assert life == {host: cluster.incarnation(host) for host in life}

    def test_a_return_that_does_nothing_is_reported(
        self, cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        damage = inject(cluster, "follower")
        assert damage.observe().effective
        with monkeypatch.context() as patch:
            patch.setattr(membership, "SERVES_WITHIN_S", 1.0)
            if cluster.kind == "etcd":
                patch.setattr(cluster, "start", lambda host, wiped: None)
            else:
                patch.setattr(cluster.servers, "add_member", lambda host: None)
            damage.heal()
            error = damage.healed().error("heal")
            assert error == "not undone; expected it among the members, and serving clients"
        if cluster.kind == "etcd":
            cluster.start(damage.hosts[0], wiped=True)
        assert until_healed(damage.healed).effective


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
@pytest.mark.parametrize("cluster", ["zookeeper"], indirect=True)
def test_a_zookeeper_session_outlives_the_removal_of_its_server(cluster: DockerCluster) -> None:
    server = next(name for name in ("n1", "n2", "n3") if name != leader_of(cluster))
    client = KazooClient(f"{cluster.servers.addresses[server]}:2181", timeout=10.0)
    client.start()
    try:
        client.create("/held", ephemeral=True)
        damage = inject(cluster, server)
        assert damage.observe().effective
        assert client.create("/during") == "/during"  # the same connection, and a server that does not vote
        damage.heal()
        assert until_healed(damage.healed).effective
        assert client.exists("/held").ephemeralOwner == client.client_id[0]
        client.delete("/during")
    finally:
        client.stop()
        client.close()


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
@pytest.mark.parametrize("cluster", ["etcd"], indirect=True)
def test_a_lease_of_etcd_outlives_the_removal_of_its_member_and_a_watch_does_not(cluster: DockerCluster) -> None:
    gone, other = [name for name in ("n1", "n2", "n3") if name != leader_of(cluster)]
    addresses = cluster.servers.addresses
    client, through = (etcd3.client(host=addresses[name], port=2379, timeout=5) for name in (gone, other))
    lease = client.lease(60)
    client.put("held", "x", lease)
    ended = threading.Event()

    def on_answer(answer: object) -> None:
        if isinstance(answer, Exception):
            ended.set()

    client.add_watch_callback("held", on_answer)
    damage = inject(cluster, gone)
    assert damage.observe().effective
    assert ended.wait(60)
    assert through.get("held")[0] == b"x"
    assert through.get_lease_info(lease.id).TTL > 0
    assert next(iter(through.refresh_lease(lease.id))).TTL == 60
    damage.heal()
    assert until_healed(damage.healed).effective

    def again() -> bool:
        with contextlib.suppress(etcd3.exceptions.ConnectionFailedError):  # gRPC waits before it connects again
            return bool(client.get("held")[0] == b"x")
        return False

    until(again)
    through.revoke_lease(lease.id)


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
@pytest.mark.parametrize("lock", ["etcd-mutex", "zookeeper-sequential", "kazoo-lock"])
def test_a_safe_lock_stays_valid_while_members_change(lock: str) -> None:
    change = FaultSpec(NAME, every=12.0, for_=4.0, params={"target": "primary"})
    result = run(Plan(lock=lock, cluster="docker", time_limit=40.0, faults=(change,)))
    assert result.verdicts["faults"].valid is True, result.verdicts["faults"]
    assert result.verdicts["mutual-exclusion"].valid is True
    assert result.valid is True, {name: verdict.explanation for name, verdict in result.verdicts.items()}
