"""The locks on NATS JetStream in containers: the conformance suite, and what happens when values expire or answers are
lost. Building the servers takes minutes, so all of them are long."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness.clusters.docker.cluster import DockerCluster
from harness.lock_impls import catalogue
from harness.lock_impls.asynchronous import EventLoopThread
from harness.lock_impls.base import Endpoints, Lock, LockClass, LockError
from tests.clusters.real import paused, servers
from tests.locks import conformance

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster() -> Iterator[DockerCluster]:
    with servers("nats") as cluster:
        yield cluster


@pytest.fixture
def where(cluster: DockerCluster) -> Endpoints:
    return Endpoints("nats", cluster.endpoints().addresses)


@pytest.mark.parametrize(("lock", "prop"), conformance.cases("nats-kv"))
def test_lock(lock: LockClass, prop: conformance.Property, where: Endpoints) -> None:
    prop(lock, where)


@pytest.fixture
def loop() -> Iterator[EventLoopThread]:
    thread = EventLoopThread()
    yield thread
    thread.end()


def opened(loop: EventLoopThread, where: Endpoints, key: str, ttl: float = 2.0) -> Lock:
    return loop.open(catalogue.find("nats-kv"), where, key, ttl)


def test_a_value_expires_and_a_later_release_leaves_the_next_holder_s(loop: EventLoopThread, where: Endpoints) -> None:
    late, other = opened(loop, where, "expires"), opened(loop, where, "expires")
    first = late.acquire(0)
    assert first is not None
    began = time.monotonic()
    second = other.acquire(20)
    assert second is not None
    assert 1.5 < time.monotonic() - began < 10
    assert int(str(second.fence)) > int(str(first.fence))
    with pytest.raises(LockError, match="not held any more"):
        late.release()
    assert late.acquire(0) is None
    other.release()


def test_without_servers_a_release_has_an_unknown_outcome(
    loop: EventLoopThread, where: Endpoints, cluster: DockerCluster
) -> None:
    mine = opened(loop, where, "unanswered", ttl=60.0)
    assert mine.acquire(0)
    with paused(cluster), pytest.raises(Exception, match="TimeoutError"):
        mine.release()
