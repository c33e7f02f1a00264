"""Rolling upgrades: which are refused, in which order servers are upgraded, and what becomes of their data."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, cast

import pytest
import redis

from harness.clusters.abilities import RELEASES, leader_of
from harness.clusters.base import Cluster
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.hosts import STANDBY
from harness.clusters.docker.images.images import Images
from harness.clusters.docker.services.etcd import EtcdServers
from harness.clusters.docker.services.redis import RedisServers
from harness.errors import UsageError
from harness.faults.base import Damage, InjectionContext
from harness.faults.catalogue import build_fault, fault_class
from harness.faults.records import FaultRecord, Moment
from harness.plan import FaultSpec, Plan
from harness.run.plans.completion import complete
from tests.clusters.bench import fault, scene, until_healed
from tests.faults.fakes import FakeCluster

NAME = "rolling-upgrade"
OLD, NEW = "redis 7.0.15", "valkey 8.1.8"


def plan(to: str = "valkey-8.1.8", **fields: Any) -> Plan:
    spec = FaultSpec(NAME, on="acquire", for_=2.0, params={"to": to})
    return Plan(**{"lock": "redis-token", "cluster": "docker", "faults": (spec,), **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"to": "redis-7.4"},
            "'rolling-upgrade': the server option release must be one of redis-6.2.14, .*'redis-7.4'",
        ),
        ({"to": "default"}, "the servers start with the release 'default' already"),
        (
            {"to": "redis-6.2.14", "server_options": {"release": "redis-6.2.14"}},
            "the servers start with the release 'redis-6.2.14' already",
        ),
        ({"cluster": "sim"}, "needs releases, which redis-single on sim cannot do; --cluster docker can"),
        ({"lock": "memcached-add"}, "needs releases, which memcached on docker cannot do; it supports clock, "),
        ({"cluster": "ssh", "hosts": ("h1",)}, "needs releases, which redis-single on hosts cannot do; possible are "),
        (
            {"cluster": "servers", "servers": ("redis://127.0.0.1:1",)},
            "not possible on servers of your own, which the harness does not touch; possible are ",
        ),
    ],
)
def test_what_cannot_be_upgraded_is_refused_with_what_is_possible(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        complete(plan(**fields))


def test_a_release_can_be_left_for_the_default_one() -> None:
    completed = complete(plan("default", server_options={"release": "redis-6.2.14"}))
    assert [build_fault(spec).releases() for spec in completed.faults] == [("default",)]


def test_a_negative_pause_is_refused() -> None:
    with pytest.raises(UsageError, match="params: "):
        build_fault(FaultSpec(NAME, at=1.0, params={"pause": -1}))


class _Upgraded(FakeCluster):
    """Fake servers that record the steps of an upgrade."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.steps: list[str] = []
        self.first = "n1"

    def primary(self) -> str | None:
        return self.first

    def end_program(self, host: str, within_s: float) -> bool:
        self.steps.append(f"stop {host}")
        return super().end_program(host, within_s)

    def start(self, host: str, *, wiped: bool) -> None:
        self.steps.append(f"start {host}{' empty' if wiped else ''}")
        super().start(host, wiped=wiped)

    def hand_over(self, host: str, within_s: float) -> bool:
        self.steps.append(f"hand over {host}")
        self.first = "n2"
        return super().hand_over(host, within_s)


def upgraded(**params: Any) -> list[str]:
    cluster = _Upgraded()
    over = threading.Event()
    over.set()
    damage = fault(NAME, **params).inject(InjectionContext(cast(Cluster, cluster), Random(1), 2.0, "c0", over))
    assert damage.observe().effective
    return cluster.steps


def test_the_primary_is_upgraded_last_and_handed_over_first() -> None:
    one_by_one = ["stop n2", "start n2", "stop n3", "start n3"]
    assert upgraded(target="n1,n2,n3") == [*one_by_one, "hand over n1", "stop n1", "start n1"]
    assert upgraded(target="n1,n2,n3", hand_over=False) == [*one_by_one, "stop n1", "start n1"]


def test_the_upgrade_goes_on_after_the_heal_without_pauses() -> None:
    """Half an upgrade would be what nobody asked for."""
    cluster = _Upgraded()
    place = scene(cast(Cluster, cluster))
    began = time.monotonic()
    damage = fault(NAME, pause=60.0).inject(place)
    assert cluster.steps[:1] == ["stop n2"]
    place.over.set()
    damage.heal()
    healed = damage.healed()
    assert healed.effective, healed
    assert healed.facts["stays_upgraded"] is True
    assert set(healed.facts["versions"].values()) == {NEW}
    assert time.monotonic() - began < 30.0


def test_another_release_than_the_wanted_one_is_no_effect() -> None:
    damage = fault(NAME, to="valkey-9.1.2", pause=0.0).inject(scene(cast(Cluster, _Upgraded())))
    assert damage.observe().error("inject") == "no effect seen; expected all of them to report valkey 9.1.2"


def test_an_error_during_the_upgrade_is_raised_where_its_effect_is_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*asked: Any) -> bool:
        raise RuntimeError("the engine is gone")

    monkeypatch.setattr(_Upgraded, "end_program", refuse)
    damage = fault(NAME).inject(scene(cast(Cluster, _Upgraded())))
    with pytest.raises(RuntimeError, match="the engine is gone"):
        damage.observe()


def test_its_words_name_both_versions() -> None:
    facts = {"versions_before": {"n1": OLD, "n2": OLD}, "versions_after": {"n1": NEW, "n2": NEW}}
    record = FaultRecord(0, NAME, ("n1", "n2"), {}, 1_500_000_000, None, True, facts, None)
    what = "restarted one after the other as valkey 8.1.8 instead of redis 7.0.15"
    assert fault_class(NAME).story(record, " until 3.000 s") == f"n1 and n2 are {what}"
    said = fault_class(NAME).cause(record, Moment(2_000_000_000, 500_000_000))
    assert said == f"n1 and n2 were {what}, from 1.000 s on"


def test_a_start_runs_the_release_that_it_names(tmp_path: Any) -> None:
    import subprocess

    script = STANDBY.replace("/releases", str(tmp_path)).replace("/data", str(tmp_path / "data"))
    (tmp_path / "new").mkdir()
    program = tmp_path / "new" / "uname"
    program.write_text("#!/bin/sh\necho the new one\n")
    program.chmod(0o755)
    for line, expected in (("kept new\n", "the new one\n"), ("kept \n", "Linux\n")):
        done = subprocess.run(
            ["sh", "-c", script, "standby", "", "uname"], input=line, capture_output=True, text=True, check=True
        )
        assert done.stdout == expected


class _Members(EtcdServers):
    """Three members of etcd, whose answers are made up. Without ``obeys`` the leader keeps its role."""

    def __init__(self, *, obeys: bool) -> None:
        super().__init__("etcd", 3, {})
        self.addresses.update(n1="10.0.0.1", n2="10.0.0.2", n3="10.0.0.3")
        self.obeys = obeys
        self.leading = "17"
        self.moves: list[tuple[str, dict[str, Any]]] = []

    def _ask(self, host: str, path: str, question: dict[str, Any] | None = None) -> dict[str, Any] | None:
        if path == "maintenance/transfer-leadership":
            self.moves.append((host, question or {}))
            if self.obeys:
                self.leading = (question or {})["targetID"]
            return {}
        ids = {"n1": "17", "n2": "18", "n3": "19"}
        if path == "cluster/member/list":
            urls = {name: f"http://{ip}:2380" for name, ip in self.addresses.items()}
            return {"members": [{"ID": ids[name], "name": name, "peerURLs": [urls[name]]} for name in ids]}
        return {"header": {"member_id": ids[host], "raft_term": "2"}, "leader": self.leading, "version": "3.4.23"}


@pytest.mark.parametrize("obeys", [True, False])
def test_a_leader_of_etcd_is_asked_to_transfer_its_leadership(obeys: bool) -> None:
    members = _Members(obeys=obeys)
    assert members.hand_over("n1", 0.2) is obeys
    assert members.moves[0] == ("n1", {"targetID": "18"})
    assert len(members.moves) == 1 or not obeys
    assert members.version_of("n2") == "etcd 3.4.23"


class _Images:
    """Records which images are asked for."""

    def server(self, name: str) -> str:
        return f"own {name}"

    def with_releases(self, base: str, releases: list[str], programs: Mapping[str, str]) -> str:
        return f"{base} with {', '.join(releases)} as {', '.join(programs.values())}"


@pytest.mark.parametrize(
    ("options", "own", "releases", "image"),
    [
        ({}, "", [], "own redis"),
        ({}, "", ["default"], "own redis"),
        ({}, "mine:1", ["valkey-8.1.8"], "mine:1 with valkey-8.1.8 as redis-server"),
        (
            {"release": "redis-6.2.14"},
            "",
            ["default", "valkey-8.1.8", "valkey-8.1.8"],
            "own redis with redis-6.2.14, valkey-8.1.8 as redis-server",
        ),
    ],
)
def test_the_image_has_the_releases_of_a_run(
    options: dict[str, Any], own: str, releases: list[str], image: str
) -> None:
    servers = RedisServers("redis-single", 1, options)
    assert servers.image_with_releases(cast(Images, _Images()), own, releases) == image


def cluster_of(kind: str, nodes: int = 0, to: str = "valkey-8.1.8") -> Iterator[DockerCluster]:
    cluster = DockerCluster(
        kind=kind,
        nodes=nodes,
        clients=Clients(1),
        seed=0,
        resource='{"fencing": "off", "stock": {}}',
        options={},
        needs=frozenset({RELEASES}),
        releases=(to, "default"),
    )
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop_all()


def client(cluster: DockerCluster, host: str) -> redis.Redis:
    return redis.Redis(cluster.servers.addresses[host], socket_timeout=5.0, decode_responses=True)


def inject(cluster: DockerCluster, **params: Any) -> Damage:
    return fault(NAME, pause=0.0, **params).inject(scene(cluster))


@pytest.fixture(scope="module")
def cluster() -> Iterator[DockerCluster]:
    yield from cluster_of("redis-independent", 2)


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestContainers:
    def test_servers_keep_their_data_in_the_other_release_and_may_go_back(self, cluster: DockerCluster) -> None:
        for host in ("n1", "n2"):
            client(cluster, host).set("kept", host)
        seen = inject(cluster).observe()
        assert seen.effective, seen
        assert seen.facts["versions_before"] == {"n1": OLD, "n2": OLD}
        assert seen.facts["versions_after"] == {"n1": NEW, "n2": NEW}
        assert seen.facts["ended_by_itself"] == {"n1": True, "n2": True}
        assert [client(cluster, host).get("kept") for host in ("n1", "n2")] == ["n1", "n2"]
        assert "Valkey version=8.1.8" in cluster.logs(0)["n2"]
        damage = inject(cluster, to="default", target="n1")
        assert damage.observe().effective
        damage.heal()
        healed = until_healed(damage.healed)
        assert healed.effective, healed
        assert healed.facts["versions"] == {"n1": OLD}

    def test_a_start_as_the_old_release_is_reported(
        self, cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(RELEASES.of(cluster), "choose_release", lambda host, release: None)
            seen = inject(cluster, target="n1").observe()
        assert seen.error("inject") == "no effect seen; expected all of them to report valkey 8.1.8"
        assert seen.facts["versions_after"] == seen.facts["versions_before"] == {"n1": OLD}

    def test_a_server_that_does_not_end_is_killed(self, cluster: DockerCluster) -> None:
        life = cluster.incarnation("n2")
        cluster.pause("n2")
        assert RELEASES.of(cluster).end_program("n2", 0.5) is False
        cluster.start("n2", wiped=False)
        cluster.resume("n2")
        deadline = time.monotonic() + 60
        while cluster.state("n2") != "running":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert cluster.incarnation("n2") not in (None, life)


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
def test_the_sentinels_hand_over_before_the_primary_is_upgraded() -> None:
    for cluster in cluster_of("redis-sentinel"):
        client(cluster, "n1").set("kept", "x")
        seen = inject(cluster).observe()
        assert seen.effective, seen
        assert seen.facts["order"] == ["n2", "n3", "n1"]
        assert seen.facts["handed_over"] == {"n1": True}
        new = cluster.servers.primary()  # type: ignore[attr-defined]
        assert new in ("n2", "n3")
        assert client(cluster, new).get("kept") == "x"
        info: Any = client(cluster, "n1").info("replication")
        assert info["role"] == "slave"


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
def test_the_leader_of_etcd_is_upgraded_last_and_transfers_its_leadership() -> None:
    for cluster in cluster_of("etcd", to="etcd-3.5.35"):
        leader = leader_of(cluster)
        seen = inject(cluster, to="etcd-3.5.35").observe()
        assert seen.effective, seen
        assert set(seen.facts["versions_after"].values()) == {"etcd 3.5.35"}
        assert seen.facts["order"][-1] == leader
        assert seen.facts["handed_over"] == {leader: True}
