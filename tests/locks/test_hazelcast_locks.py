"""Hazelcast's lock on real members: the conformance suite, and what happens when its session ends."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.services.hazelcast import HazelcastServers
from harness.lock_impls.base import Endpoints, LockClass, LockError
from harness.lock_impls.hazelcast_fenced import HazelcastFencedLock
from tests.clusters.real import servers
from tests.locks import conformance

SESSION_TTL_S = 5.0
pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def cluster() -> Iterator[DockerCluster]:
    with servers("hazelcast") as cluster:
        yield cluster


@pytest.fixture
def members(cluster: DockerCluster) -> Endpoints:
    return Endpoints("hazelcast", cluster.endpoints().addresses)


@pytest.mark.parametrize(("lock", "prop"), conformance.cases("hazelcast-"))
def test_lock(lock: LockClass, prop: conformance.Property, members: Endpoints) -> None:
    prop(lock, members)


def test_client_without_heartbeats_loses_the_lock_and_is_notified(members: Endpoints) -> None:
    late, other = HazelcastFencedLock.open(members, "lost", 1.0), HazelcastFencedLock.open(members, "lost", 1.0)
    first = late.acquire(0)
    assert first
    assert late.still_valid()
    assert late._session
    heartbeats = late._session._client._proxy_session_manager._heartbeat_timer
    assert heartbeats
    heartbeats.cancel()
    began = time.monotonic()
    second = other.acquire(3 * SESSION_TTL_S)
    assert second
    assert time.monotonic() - began > SESSION_TTL_S / 2
    assert int(str(second.fence)) > int(str(first.fence))
    assert not late.still_valid()
    with pytest.raises(LockError):
        late.release()
    assert late.acquire(0) is None
    other.release()
    assert late.acquire(1)
    late.release()


def test_closed_session_frees_the_lock(members: Endpoints) -> None:
    """Long before the session's time-to-live, because the client closes the session."""
    doubtful, other = HazelcastFencedLock.open(members, "doubt", 1.0), HazelcastFencedLock.open(members, "doubt", 1.0)
    assert doubtful.acquire(0)
    assert doubtful._session
    doubtful._session.give_up()
    doubtful._session = None
    assert other.acquire(SESSION_TTL_S / 2)
    with pytest.raises(LockError):
        doubtful.release()
    other.release()


def test_cp_subsystem_can_be_reset(cluster: DockerCluster, members: Endpoints) -> None:
    """The reset is used if not all members have become CP members: afterwards they have, and no lock is held."""
    assert isinstance(cluster.servers, HazelcastServers)
    assert HazelcastFencedLock.open(members, "before", 30.0).acquire(0)
    cluster.servers.reset_cp_subsystem()
    cluster.servers.await_stage(cluster.servers.data_hosts)
    assert HazelcastFencedLock.open(members, "before", 30.0).acquire(5)
