"""The memcached locks: what every lock must do, on simulated and on real servers; and the rules of their own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from lock_impls.base import Endpoints, Indeterminate, LockClass, LockError
from lock_impls.memcached_add import AddLock
from lock_impls.memcached_token import TokenLock
from tests.clusters.bench import make, on
from tests.clusters.real import servers
from tests.locks import conformance
from tests.locks.test_conformance_sim import on_a_simulated_client

CASES = conformance.cases("memcached-", "sherlock-memcached", "tooz-memcached")


@pytest.mark.parametrize(("lock", "prop"), CASES)
def test_lock(lock: LockClass, prop: conformance.Property) -> None:
    on_a_simulated_client(lock, prop, "memcached")


@pytest.fixture(scope="module")
def real_memcached() -> Iterator[Endpoints]:
    with servers("memcached") as cluster:
        yield Endpoints("memcached", cluster.endpoints().addresses)


@pytest.mark.docker
@pytest.mark.parametrize(("lock", "prop"), CASES)
def test_lock_on_a_real_server(lock: LockClass, prop: conformance.Property, real_memcached: Endpoints) -> None:
    prop(lock, real_memcached)


def simulated(story: Callable[[Endpoints], None]) -> None:
    cluster = make("memcached", clients=1)

    def main() -> None:
        address = cluster.endpoints()
        joined = cluster.spawn("c0", lambda checkpoint: story(Endpoints(address.kind, address.addresses)))
        assert joined(600)

    on(cluster, main)


def test_no_lease_is_shorter_than_asked_for_whenever_in_the_second_it_begins() -> None:
    def story(where: Endpoints) -> None:
        for _ in range(20):
            key = uuid.uuid4().hex
            TokenLock.open(where, key, 1.0).acquire(0)
            other = TokenLock.open(where, key, 1.0)
            time.sleep(0.99)
            assert other.acquire(0) is None
            time.sleep(1.02)
            assert other.acquire(0)
            time.sleep(0.07)

    simulated(story)


def test_a_release_that_another_owner_has_overtaken_frees_nothing() -> None:
    """Between its GETS and its CAS the item expires and is somebody else's, even with the same token in it."""

    def story(where: Endpoints) -> None:
        late, other = TokenLock.open(where, "k", 1.0), TokenLock.open(where, "k", 30.0)
        late.acquire(0)
        gets = late.client.gets

        def slow_gets(key: str) -> object:
            found = gets(key)
            time.sleep(2.1)
            assert other.acquire(0)
            other.client.set("k", late.token, 30)
            return found

        late.client.gets = slow_gets
        with pytest.raises(LockError):
            late.release()
        assert AddLock.open(where, "k", 1.0).acquire(0) is None

    simulated(story)


def test_who_reaches_no_server_was_surely_not_granted_and_who_gets_no_answer_may_have_been() -> None:
    cluster = make("memcached", clients=1)
    seen: list[str] = []

    def story(where: Endpoints) -> None:
        mine = AddLock.open(where, "k", 1.0)
        mine.acquire(0)
        mine.release()
        for _ in range(2):  # the connection that there was, and then a new one
            time.sleep(1)
            with pytest.raises((LockError, Indeterminate)) as error:
                mine.acquire(0)
            seen.append(error.type.__name__)

    def main() -> None:
        address = cluster.endpoints()
        joined = cluster.spawn("c0", lambda checkpoint: story(Endpoints(address.kind, address.addresses)))
        time.sleep(0.5)
        cluster.kill("n1")
        assert joined(60)

    on(cluster, main)
    assert seen == ["Indeterminate", "LockError"]
