"""The memcached locks: the conformance suite on simulated and real servers, and behaviour specific to memcached."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from harness.lock_impls.base import Endpoints, Indeterminate, LockClass, LockError
from harness.lock_impls.memcached_add import AddLock
from harness.lock_impls.memcached_token import MemcachedTokenLock
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


def on_simulated_client(story: Callable[[Endpoints], None]) -> None:
    cluster = make("memcached", clients=1)

    def main() -> None:
        address = cluster.endpoints()
        joined = cluster.spawn("c0", lambda checkpoint: story(Endpoints(address.kind, address.addresses)))
        assert joined(600)

    on(cluster, main)


def test_lease_is_never_shorter_than_requested() -> None:
    def story(where: Endpoints) -> None:
        for _ in range(20):
            key = uuid.uuid4().hex
            MemcachedTokenLock.open(where, key, 1.0).acquire(0)
            other = MemcachedTokenLock.open(where, key, 1.0)
            time.sleep(0.99)
            assert other.acquire(0) is None
            time.sleep(1.02)
            assert other.acquire(0)
            time.sleep(0.07)

    on_simulated_client(story)


def test_release_after_a_change_of_owner_frees_nothing() -> None:
    """Between its GETS and its CAS the item expires and another client adds it, even with the same token."""

    def story(where: Endpoints) -> None:
        late, other = MemcachedTokenLock.open(where, "k", 1.0), MemcachedTokenLock.open(where, "k", 30.0)
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

    on_simulated_client(story)


def test_unreachable_server_is_a_refusal_and_missing_answer_is_unknown() -> None:
    cluster = make("memcached", clients=1)
    seen: list[str] = []

    def story(where: Endpoints) -> None:
        mine = AddLock.open(where, "k", 1.0)
        mine.acquire(0)
        mine.release()
        for _ in range(2):  # the existing connection, and then a new one
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
