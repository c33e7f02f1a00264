"""The Redis locks on real servers: the first of HARNESS_REDIS_ADDRESS for locks of one server, all of them for Redlock,
the sentinels of HARNESS_SENTINEL_ADDRESS (a primary with two replicas behind them) for locks on a replicated one."""

from __future__ import annotations

import os

import pytest

from lock_impls import foreign
from lock_impls.base import Endpoints, LockClass
from tests.locks import conformance

FOREIGN = ("redis.lock:Lock", "redis_lock:Lock")


def _addresses(variable: str) -> tuple[tuple[str, int], ...]:
    pairs = (address.rpartition(":") for address in os.environ.get(variable, "").split(",") if address)
    return tuple((host, int(port)) for host, _, port in pairs)


def _endpoints(kind: str) -> Endpoints:
    if kind == "redis-sentinel":
        sentinels = _addresses("HARNESS_SENTINEL_ADDRESS")
        if not sentinels:
            pytest.skip("HARNESS_SENTINEL_ADDRESS names no sentinel")
        return Endpoints(kind, sentinels)
    servers = _addresses("HARNESS_REDIS_ADDRESS")
    return Endpoints(kind, servers if kind == "redis-independent" else servers[:1])


@pytest.mark.parametrize(("lock", "prop"), conformance.cases("redis-", "redlock"))
def test_lock(lock: LockClass, prop: conformance.Property) -> None:
    prop(lock, _endpoints(lock.info.kinds[0]))


@pytest.mark.parametrize(("lock", "prop"), conformance.cases("redis-"))
def test_lock_behind_sentinel(lock: LockClass, prop: conformance.Property) -> None:
    prop(lock, _endpoints("redis-sentinel"))


@pytest.mark.parametrize("prop", [conformance.one_holder_at_a_time, conformance.expires], ids=lambda p: p.__name__)
@pytest.mark.parametrize("spec", FOREIGN)
def test_foreign_lock(spec: str, prop: conformance.Property) -> None:
    prop(foreign.load(spec), _endpoints("redis-single"))
