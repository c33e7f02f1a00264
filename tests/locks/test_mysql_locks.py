"""The MySQL locks: what every lock must do, on simulated and on real servers, and what is their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.clusters.docker import Clients, DockerCluster
from lock_impls.base import Endpoints, LockClass
from tests.locks import conformance
from tests.locks.test_conformance_sim import on_a_simulated_client

KINDS = ("mysql-single", "mysql-replicated")
CASES = conformance.cases("mysql-")
BY_NAME = [case for case in CASES if case.values[1] is conformance.one_holder_at_a_time]


@pytest.mark.parametrize(("lock", "prop"), CASES)
def test_lock(lock: LockClass, prop: conformance.Property) -> None:
    on_a_simulated_client(lock, prop, "mysql-single")


@pytest.mark.parametrize(("lock", "prop"), BY_NAME)
def test_lock_behind_a_name(lock: LockClass, prop: conformance.Property) -> None:
    on_a_simulated_client(lock, prop, "mysql-replicated")


@pytest.fixture(scope="module", params=KINDS)
def real_mysql(request: pytest.FixtureRequest) -> Iterator[Endpoints]:
    cluster = DockerCluster(
        kind=request.param, nodes=0, clients=Clients(0), seed=0, resource="", options={}, needs=frozenset(),
        by_hand=True,
    )  # fmt: skip
    try:
        cluster.start_all()
        yield Endpoints(request.param, cluster.endpoints().addresses)
    finally:
        cluster.stop_all()


@pytest.mark.docker
@pytest.mark.parametrize(("lock", "prop"), CASES)
def test_lock_on_containers(lock: LockClass, prop: conformance.Property, real_mysql: Endpoints) -> None:
    prop(lock, real_mysql)
