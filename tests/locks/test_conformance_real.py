"""The conformance suite for Redis locks on real servers in containers: one server, five independent ones, sentinels, a
cluster."""

from __future__ import annotations

import pytest

from harness.lock_impls import foreign
from harness.lock_impls.base import Endpoints, LockClass
from tests.conftest import Servers
from tests.locks import conformance

FOREIGN = ("redis.lock:Lock", "redis_lock:Lock")
pytestmark = pytest.mark.docker
in_containers = pytest.mark.parametrize("real_redis", ["container"], indirect=True)


ON_SERVERS = [
    case for case in conformance.cases(*conformance.REDIS) if case.values[0].info.kinds[0] != "redis-sentinel"
]


@in_containers
@pytest.mark.parametrize(("lock", "prop"), ON_SERVERS)
def test_lock(lock: LockClass, prop: conformance.Property, real_redis: Servers) -> None:
    prop(lock, Endpoints(lock.info.kinds[0], real_redis))


@pytest.mark.parametrize(("lock", "prop"), conformance.cases("redis-"))
def test_lock_behind_sentinel(lock: LockClass, prop: conformance.Property, real_sentinel: Servers) -> None:
    prop(lock, Endpoints("redis-sentinel", real_sentinel))


ON_A_CLUSTER = [case for case in conformance.cases("redis-") if "redis-cluster" in case.values[0].info.kinds]


@pytest.mark.parametrize(("lock", "prop"), ON_A_CLUSTER)
def test_lock_on_a_cluster(lock: LockClass, prop: conformance.Property, real_cluster: Servers) -> None:
    prop(lock, Endpoints("redis-cluster", real_cluster))


@in_containers
@pytest.mark.parametrize("prop", [conformance.one_holder_at_a_time, conformance.expires], ids=lambda p: p.__name__)
@pytest.mark.parametrize("spec", FOREIGN)
def test_foreign_lock(spec: str, prop: conformance.Property, real_redis: Servers) -> None:
    prop(foreign.load(spec), Endpoints("redis-single", real_redis))
