"""Locks with redis-py's cluster client, on one real node on the loopback that owns all hash slots.

Several nodes, and their failover, are in tests/clusters/test_redis_cluster.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness.clusters.redis_slots import SLOTS
from harness.errors import UsageError
from harness.fidelity.processes import Place, ServerProcess
from harness.lock_impls import catalogue, foreign, redis_asyncio_client
from harness.lock_impls.base import Endpoints, Indeterminate, LockError
from harness.lock_impls.redis_client import known_outcome, open_client
from harness.lock_impls.redis_cluster_client import RedisClusterClient
from tests.conftest import redis_command

KIND = "redis-cluster"


def node_command(place: Place) -> list[str]:
    return [*redis_command(place), "--cluster-enabled", "yes", "--cluster-port", str(place.ports[1])]


@pytest.fixture(scope="module")
def node() -> Iterator[ServerProcess]:
    with ServerProcess("redis-cluster", node_command, ports=2) as server:
        with redis.Redis(*server.place.address, decode_responses=True) as client:
            client.execute_command("CLUSTER ADDSLOTS", *range(SLOTS))
            while not _works(client):
                time.sleep(0.01)
        yield server


def _works(client: redis.Redis) -> bool:
    info: Any = client.cluster("INFO")
    return bool(info["cluster_state"] == "ok")


def endpoints(node: ServerProcess) -> Endpoints:
    return Endpoints(KIND, (node.place.address,))


@pytest.mark.parametrize("name", ["redis-py-lock", "redis-token", "redis-watchdog"])
def test_the_lock_of_one_client_excludes_another_until_its_release(name: str, node: ServerProcess) -> None:
    mine, other = (catalogue.find(name).open(endpoints(node), "k0", 5.0) for _ in range(2))
    assert mine.acquire(0)
    assert other.acquire(0) is None
    with pytest.raises(LockError):
        other.release()
    mine.release()
    assert other.acquire(0)
    other.release()


def test_wait_without_a_replica_acquires_nothing_and_leaves_no_key(node: ServerProcess) -> None:
    lock = catalogue.find("redis-wait").open(endpoints(node), "k0", 5.0, wait_s=0.01)
    assert lock.acquire(0) is None
    with redis.Redis(*node.place.address) as client:
        assert client.exists("k0") == 0


def test_a_request_without_an_answer_has_an_unknown_outcome(node: ServerProcess) -> None:
    client = open_client(endpoints(node), socket_timeout=0.2, retry=Retry(NoBackoff(), 0))
    assert isinstance(client, RedisClusterClient)
    client.set("other", "x")
    node.pause()
    try:
        with pytest.raises(Indeterminate), known_outcome(client):
            client.set("other", "y")
        assert client.unanswered == 1
    finally:
        node.resume()


def test_a_cluster_that_cannot_be_reached_has_acquired_nothing() -> None:
    nowhere = Endpoints(KIND, (("127.0.0.1", 1),))
    with pytest.raises(LockError, match="cannot be connected"):
        catalogue.find("redis-token").open(nowhere, "k0", 5.0)


def test_a_refusal_of_the_cluster_has_executed_nothing(node: ServerProcess) -> None:
    client = open_client(endpoints(node), retry=Retry(NoBackoff(), 0))
    with pytest.raises(LockError, match="same key slot"), known_outcome(client):
        client.eval("return 1", 2, "k0", "k0:fence")


def test_locks_with_the_asyncio_client_are_refused() -> None:
    with pytest.raises(UsageError, match="asyncio client cannot run on redis-cluster"):
        redis_asyncio_client.open_client(Endpoints(KIND, (("127.0.0.1", 1),)))


@pytest.mark.parametrize(
    ("spec", "runs"), [("redis.lock:Lock", True), ("redis.asyncio.lock:Lock", False), ("pottery:Redlock", False)]
)
def test_a_library_runs_on_a_cluster_if_it_takes_one_client_that_is_not_asynchronous(spec: str, runs: bool) -> None:
    assert (KIND in foreign.load(spec).info.kinds) is runs


def test_a_class_that_takes_a_client_gets_one_of_the_cluster(node: ServerProcess) -> None:
    lock = foreign.load("redis.lock:Lock").open(endpoints(node), "k0", 5.0)
    assert lock.acquire(0)
    lock.release()
