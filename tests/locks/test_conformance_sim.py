"""The conformance suite for Redis locks on simulated servers."""

from __future__ import annotations

import pytest

from harness.lock_impls.base import Endpoints, LockClass
from tests.clusters.bench import make, on
from tests.locks import conformance


def on_a_simulated_client(lock: LockClass, prop: conformance.Property, kind: str) -> None:
    cluster = make(kind, clients=1)

    def main() -> None:
        address = cluster.endpoints()
        where = Endpoints(address.kind, address.addresses)
        assert cluster.spawn("c0", lambda checkpoint: prop(lock, where))(600)

    on(cluster, main)


@pytest.mark.few(131)
@pytest.mark.parametrize(("lock", "prop"), conformance.cases(*conformance.REDIS))
def test_lock(lock: LockClass, prop: conformance.Property) -> None:
    on_a_simulated_client(lock, prop, lock.info.kinds[0])


@pytest.mark.slow
@pytest.mark.parametrize(("lock", "prop"), conformance.cases("redis-"))
def test_lock_behind_sentinel(lock: LockClass, prop: conformance.Property) -> None:
    on_a_simulated_client(lock, prop, "redis-sentinel")
