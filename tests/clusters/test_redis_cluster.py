"""A Redis Cluster in containers: which node faults strike, and what its loss does to a lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.exceptions import ClusterDownError
from redis.retry import Retry

from harness.clusters.base import names
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.services.redis_cluster import ClusterServers
from harness.lock_impls.base import Endpoints, Indeterminate, LockError
from harness.lock_impls.redis_client import known_outcome, open_client
from harness.lock_impls.redis_cluster_client import RedisClusterClient
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from harness.scenarios import catalogue
from harness.studies.nightly_cases import cases, run_case
from tests.clusters.bench import fault, scene, until_healed
from tests.clusters.real import servers, servers_with_clients, until

pytestmark = pytest.mark.docker
KIND = "redis-cluster"


def on_cluster(lock: str, *faults: FaultSpec, time_limit: float = 10.0, hold: float = 0.1) -> Result:
    return run(
        Plan(
            lock=lock, kind=KIND, cluster="docker", time_limit=time_limit, hold=hold, clients=3, ttl=4.0, faults=faults
        )
    )


@pytest.mark.parametrize("lock", ["redis-py-lock", "redis.lock:Lock"])
def test_a_run_without_faults_is_valid(lock: str) -> None:
    result = on_cluster(lock)
    assert result.valid is True, result.document["summary"]
    assert result.document["stats"]["acquires_ok"] > 20


@pytest.mark.parametrize(
    "name", ["redis-cluster-failover", "redis-cluster-minority", "redis-cluster-failover.claim.safe"]
)
def test_a_failover_loses_the_lock_and_a_resource_that_compares_tokens_loses_no_update(
    name: str, tmp_path: Path
) -> None:
    """The expectation of the scenario includes its mechanism."""
    (case,) = cases("full", "docker", [catalogue.find(name)])
    outcome = run_case(case, tmp_path)
    assert outcome.state == "as-expected", outcome.why


def test_the_death_of_another_shards_primary_leaves_the_lock_valid() -> None:
    """Its replica is promoted while the lock's own primary lives; until then the cluster refuses requests."""
    dies = FaultSpec("kill", at=3.0, for_=8.0, params={"target": "n1"})
    result = on_cluster("redis-py-lock", dies, time_limit=20.0)
    assert result.valid is True, result.document["summary"]
    (struck,) = [op.value["observed"] for op in result.history.nemesis("inject") if op.type == "ok"]
    assert struck["died"] == ["n1"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[DockerCluster]:
    with servers_with_clients(KIND) as one:
        yield one


def of(cluster: DockerCluster) -> ClusterServers:
    assert isinstance(cluster.servers, ClusterServers)
    return cluster.servers


def node(cluster: DockerCluster, host: str) -> redis.Redis:
    """Return a client of one node, which neither follows redirections nor repeats requests."""
    return redis.Redis(cluster.servers.addresses[host], 6379, retry=Retry(NoBackoff(), 0), socket_timeout=2.0)


def refuses(cluster: DockerCluster, host: str) -> bool:
    try:
        node(cluster, host).set("k0", "late", px=1)
    except ClusterDownError:
        return True
    return False


@pytest.mark.parametrize("how", ["kill", "pause", "isolate"])
def test_the_replica_takes_over_the_slot_and_the_old_primary_follows_it(cluster: DockerCluster, how: str) -> None:
    of_slot = of(cluster)
    old, replicas = of_slot.primary(), of_slot.replicas()
    damage = fault("failover", how=how, patience=60.0).inject(scene(cluster))
    seen = damage.observe()
    assert seen.effective, seen
    assert damage.hosts == [old]
    assert [seen.facts["primary_after"]] == replicas
    if how == "isolate":
        assert refuses(cluster, str(old))
    damage.heal()
    healed = until_healed(damage.healed)
    assert healed.effective, healed
    assert (of_slot.primary(), of_slot.replicas()) == (replicas[0], [old])


def test_a_primary_in_the_minority_accepts_writes_until_the_node_timeout_and_then_refuses(
    cluster: DockerCluster,
) -> None:
    old = str(of(cluster).primary())
    damage = fault("partition-node", target=old).inject(scene(cluster))
    assert node(cluster, old).set("k0", "a write that is lost", px=60_000)
    until(lambda: refuses(cluster, old), patience=60.0)
    until(lambda: of(cluster).primary() != old, patience=60.0)
    assert node(cluster, str(of(cluster).primary())).get("k0") is None
    damage.heal()
    until(lambda: of(cluster).replicas() == [old], patience=60.0)
    until(lambda: node(cluster, str(of(cluster).primary())).get("k0") is None, patience=60.0)


def test_a_node_that_lost_its_data_is_still_the_same_node(cluster: DockerCluster) -> None:
    lost = of(cluster).replicas()[0]
    before = node(cluster, lost).cluster("MYID")
    assert node(cluster, str(of(cluster).primary())).set("k0", "kept", px=60_000)
    until(lambda: of(cluster).key_count(lost) == 1, patience=60.0)
    cluster.kill(lost)
    cluster.start(lost, wiped=True)
    until(lambda: all(map(of(cluster).ready, names(cluster.hosts, "server"))), patience=60.0)
    assert node(cluster, lost).cluster("MYID") == before
    assert of(cluster).key_count(lost) == 1  # it copied the key from its primary
    node(cluster, str(of(cluster).primary())).delete("k0")


def test_a_client_of_the_cluster_finds_the_promoted_primary(cluster: DockerCluster) -> None:
    client = open_client(Endpoints(KIND, cluster.endpoints().addresses), decode_responses=True)
    assert isinstance(client, RedisClusterClient)
    old = str(of(cluster).primary())
    client.set("k0", "before", px=60_000)
    assert client.acknowledged("k0", 1, 5000) == 1
    cluster.kill(old)
    until(lambda: of(cluster).primary() != old, patience=60.0)
    until(lambda: _answer(lambda: client.get("k0")) == "before", patience=60.0)
    cluster.start(old, wiped=False)
    until(lambda: of(cluster).replicas() == [old], patience=60.0)
    client.delete("k0")
    client.close()


def _answer(request: Callable[[], object]) -> object:
    try:
        with known_outcome():
            return request()
    except LockError:
        return None


def test_a_request_without_an_answer_is_indeterminate_and_one_that_nobody_gets_failed(cluster: DockerCluster) -> None:
    client = open_client(
        Endpoints(KIND, cluster.endpoints().addresses), socket_timeout=1.0, retry=Retry(NoBackoff(), 0)
    )
    client.set("k0", "x", px=1)
    old = str(of(cluster).primary())
    cluster.pause(old)
    with pytest.raises(Indeterminate), known_outcome(client):
        client.set("k0", "x")
    assert client.unanswered == 1
    cluster.resume(old)
    until(lambda: of(cluster).primary() is not None and len(of(cluster).replicas()) == 1, patience=60.0)
    client.close()
    with pytest.raises(LockError, match="cannot be connected"):
        open_client(Endpoints(KIND, (("127.0.0.1", 1),)))


def test_keys_are_read_on_the_primary_and_its_replica_and_on_no_other_node() -> None:
    with servers(KIND) as cluster:
        client = open_client(Endpoints(KIND, cluster.endpoints().addresses))
        readers = {host: of(cluster).key_reader(host)() for host in names(cluster.hosts, "server")}
        client.set("k0", "owner", px=60_000)
        until(lambda: readers["n5"].look("k0") is not None)
        found = {host: sight.owner for host, reader in readers.items() if (sight := reader.look("k0")) is not None}
        assert found == {"n2": "owner", "n5": "owner"}
        client.delete("k0")
        until(lambda: readers["n5"].look("k0") is None)
