"""bsm/redislock and Consul's lock for Go: the conformance suite on real servers, and what their libraries hide."""

from __future__ import annotations

import time
from collections.abc import Iterator

import consul as consul_api
import pytest

from harness.clusters.docker.cluster import DockerCluster
from harness.fidelity.processes import LOOPBACK
from harness.lock_impls.base import Endpoints, Indeterminate, LockError
from harness.lock_impls.thirdparty.bsm_redislock import BsmRedislock
from harness.lock_impls.thirdparty.consul_go_lock import ConsulGoLock
from tests.clusters.real import servers
from tests.conftest import Servers
from tests.locks import conformance
from tests.locks.programs import OwnProgramPerLock
from tests.locks.test_go_locks import command, needs_go, on_loopback, silent

__all__ = ["command"]  # a fixture

OPTIONS = {"lock_delay": 1.0}


@pytest.fixture
def redislock(command: tuple[str, ...]) -> Iterator[OwnProgramPerLock]:
    with OwnProgramPerLock(BsmRedislock, command) as per_lock:
        yield per_lock


@pytest.fixture
def one(real_redis: Servers) -> Endpoints:
    return Endpoints("redis-single", real_redis[:1])


@needs_go
@on_loopback
@pytest.mark.parametrize(
    "prop",
    [*conformance.properties_of(BsmRedislock), conformance.extends],
    ids=lambda prop: prop.__name__,
)
def test_redislock(prop: conformance.Property, redislock: OwnProgramPerLock, one: Endpoints) -> None:
    prop(redislock, one)


@needs_go
@on_loopback
def test_redislock_s_outcome_is_unknown_without_an_answer(redislock: OwnProgramPerLock, one: Endpoints) -> None:
    mine, other = (redislock.open(one, key, 30.0) for key in ("mine", "other"))
    assert mine.acquire(0)
    with silent(*one.addresses):
        with pytest.raises(Indeterminate):
            other.acquire(0.5)
        assert not mine.still_valid(), "it does not know"
        with pytest.raises(Indeterminate):
            mine.release()


@needs_go
def test_an_unreachable_server_is_a_refusal(redislock: OwnProgramPerLock) -> None:
    with pytest.raises(LockError):
        redislock.open(Endpoints("redis-single", ((LOOPBACK, 1),)), "k", 2.0).acquire(0.5)


# Consul's image takes minutes to build.


@pytest.fixture(scope="module")
def consul() -> Iterator[DockerCluster]:
    with servers("consul") as cluster:
        yield cluster


@pytest.fixture
def consul_lock(command: tuple[str, ...]) -> Iterator[OwnProgramPerLock]:
    with OwnProgramPerLock(ConsulGoLock, command) as per_lock:
        yield per_lock


@pytest.mark.long
@pytest.mark.parametrize(
    "prop",
    [prop for prop in conformance.properties_of(ConsulGoLock) if prop is not conformance.expires],  # it takes 20 s
    ids=lambda prop: prop.__name__,
)
def test_consul_lock(prop: conformance.Property, consul_lock: OwnProgramPerLock, consul: DockerCluster) -> None:
    prop(consul_lock, Endpoints("consul", consul.endpoints().addresses))


def end_sessions(where: Endpoints) -> None:
    """End all sessions, as their TTL would."""
    sessions = consul_api.Consul(*where.addresses[0]).session
    for session in sessions.list()[1]:
        sessions.destroy(session["ID"])


@pytest.mark.long
def test_unlock_of_a_lost_lock_returns_no_error(consul_lock: OwnProgramPerLock, consul: DockerCluster) -> None:
    where = Endpoints("consul", consul.endpoints().addresses)
    mine, other = (consul_lock.open(where, "lost", 20.0, **OPTIONS) for _ in range(2))
    assert mine.acquire(0)
    end_sessions(where)
    until = time.monotonic() + 5
    while mine.still_valid() and time.monotonic() < until:
        time.sleep(0.1)
    assert not mine.still_valid()
    assert other.acquire(10.0), "after the lock-delay"
    mine.release()
    assert other.still_valid()
    other.release()
