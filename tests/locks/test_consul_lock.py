"""The lock on Consul: the conformance suite, simulated and in containers, and its behaviour when sessions end or
answers are lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.clusters.docker.cluster import DockerCluster
from harness.lock_impls import catalogue
from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError
from harness.lock_impls.consul_client import session_ttl
from harness.lock_impls.consul_session import ConsulSessionLock
from tests.clusters.bench import make, on
from tests.clusters.real import servers
from tests.locks import conformance
from tests.locks.test_conformance_sim import on_a_simulated_client

CONSUL = catalogue.find("consul-session")
PROPERTIES = pytest.mark.parametrize("prop", conformance.properties_of(CONSUL), ids=lambda prop: prop.__name__)
WHERE = Endpoints("consul", (("n1", 8500),))


@PROPERTIES
def test_lock(prop: conformance.Property) -> None:
    on_a_simulated_client(CONSUL, prop, "consul")


@pytest.fixture(scope="module")
def real_consul() -> Iterator[DockerCluster]:
    with servers("consul") as cluster:
        yield cluster


@pytest.mark.long
@PROPERTIES
def test_lock_on_a_real_server(prop: conformance.Property, real_consul: DockerCluster) -> None:
    prop(CONSUL, Endpoints("consul", real_consul.endpoints().addresses))


def lock(where: Endpoints = WHERE, key: str = "k", lock_delay: float = 2.0) -> ConsulSessionLock:
    return ConsulSessionLock(where, key, 2.0, lock_delay)


def acquire(mine: ConsulSessionLock, timeout: float = 0.0) -> Grant:
    grant = mine.acquire(timeout)
    assert grant is not None
    return grant


def a_lost_session_frees_the_lock_after_the_lock_delay(where: Endpoints, key: str) -> None:
    late, other = lock(where, key), lock(where, key)
    first = acquire(late)
    late.session.stop()  # no renewal any more
    assert not late.still_valid()
    began = time.monotonic()
    second = acquire(other, 60)
    assert 19 < time.monotonic() - began < 25, "twice the TTL of 10 s, and the lock-delay"
    assert int(str(second.fence)) > int(str(first.fence))
    with pytest.raises(LockError, match="its session has ended"):
        late.release()
    other.release()


def a_destroyed_session_frees_the_lock_after_the_lock_delay(where: Endpoints, key: str) -> None:
    mine, other = lock(where, key), lock(where, key)
    acquire(mine)
    mine._end_session()
    began = time.monotonic()
    acquire(other, 60)
    assert 1.9 < time.monotonic() - began < 3.5
    other.release()


ENDINGS = pytest.mark.parametrize(
    "ending",
    [a_lost_session_frees_the_lock_after_the_lock_delay, a_destroyed_session_frees_the_lock_after_the_lock_delay],
    ids=lambda ending: ending.__name__,
)


@ENDINGS
def test_end_of_a_session(ending: Callable[[Endpoints, str], None]) -> None:
    simulated(lambda cluster: ending(WHERE, "k"))


@pytest.mark.long
@ENDINGS
def test_end_of_a_session_on_a_real_server(
    ending: Callable[[Endpoints, str], None], real_consul: DockerCluster
) -> None:
    ending(Endpoints("consul", real_consul.endpoints().addresses), ending.__name__)


def simulated(program: Callable[[Any], None]) -> None:
    """Run ``program(cluster)`` on a simulated client."""
    cluster = make("consul", clients=1)
    on(cluster, lambda: _finish(cluster.spawn("c0", lambda checkpoint: program(cluster))))


def _finish(wait: Callable[[float], bool]) -> None:
    assert wait(600)


def test_an_unanswered_acquire_is_repeated_and_its_session_ends_with_the_hold() -> None:
    def program(cluster: Any) -> None:
        mine = lock()
        trap = cluster.trap_message("n1", "c0", b"true", None)
        acquire(mine)
        assert trap.used
        session = mine.session.id
        mine.release()
        ended = mine.session is None
        assert ended, "a late acquire could take the lock again"
        acquire(mine)
        assert mine.session.id != session

    simulated(program)


def test_an_unanswered_release_is_repeated() -> None:
    def program(cluster: Any) -> None:
        mine, other = lock(), lock()
        acquire(mine)
        trap = cluster.trap_message("n1", "c0", b"true", None)
        mine.release()
        assert trap.used
        acquire(other)

    simulated(program)


def test_without_a_server_the_outcome_of_an_acquire_is_unknown() -> None:
    def program(cluster: Any) -> None:
        mine = lock()
        acquire(mine)
        mine.release()
        cluster.pause("n1")
        with pytest.raises(Indeterminate):
            mine.acquire(0)
        cluster.resume("n1")
        acquire(mine, 40)

    simulated(program)


def test_without_a_session_nothing_was_acquired() -> None:
    def program(cluster: Any) -> None:
        cluster.kill("n1")
        with pytest.raises(LockError):
            lock().acquire(0)

    simulated(program)


def test_a_server_that_restarts_keeps_the_lock() -> None:
    def program(cluster: Any) -> None:
        mine, other = lock(), lock()
        acquire(mine)
        cluster.kill("n1")
        cluster.start("n1", wiped=False)
        assert other.acquire(30) is None
        assert mine.still_valid()
        mine.release()
        acquire(other)

    simulated(program)


@pytest.mark.parametrize(("ttl", "whole"), [(0.5, 10), (20.0, 10), (20.5, 11), (60.0, 30)])
def test_a_session_s_ttl_is_half_of_the_lock_s_rounded_up_to_what_consul_accepts(ttl: float, whole: int) -> None:
    assert session_ttl(ttl) == whole
