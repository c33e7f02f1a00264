"""The PostgreSQL locks: the conformance suite on simulated and real servers, and behaviour specific to PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness.clusters.sim.cluster import SimCluster
from harness.errors import UsageError
from harness.lock_impls import catalogue
from harness.lock_impls.base import Endpoints, Indeterminate, LockClass, LockError
from harness.lock_impls.postgres_advisory import AdvisoryLock
from harness.lock_impls.postgres_row import PostgresRowLock
from harness.plan import Plan
from harness.run.plans.completion import complete
from harness.studies.exploration.pairs import explorable
from tests.clusters.bench import make, on
from tests.clusters.real import servers
from tests.locks import conformance
from tests.locks.test_conformance_sim import on_a_simulated_client

CASES = conformance.cases("postgres-", "django-pg")
SIMULATED = [case for case in CASES if case.values[0].info.simulated]


@pytest.mark.parametrize(("lock", "prop"), SIMULATED)
def test_lock(lock: LockClass, prop: conformance.Property) -> None:
    on_a_simulated_client(lock, prop, "postgres")


@pytest.mark.parametrize(("lock", "prop"), conformance.cases("postgres-advisory-xact"))
def test_lock_of_a_transaction_behind_pgbouncer(lock: LockClass, prop: conformance.Property) -> None:
    on_a_simulated_client(lock, prop, "postgres-pgbouncer")


@pytest.fixture(scope="module")
def real_postgres() -> Iterator[Endpoints]:
    with servers("postgres") as cluster:
        yield Endpoints("postgres", cluster.endpoints().addresses)


@pytest.mark.docker
@pytest.mark.parametrize(("lock", "prop"), CASES)
def test_lock_on_containers(lock: LockClass, prop: conformance.Property, real_postgres: Endpoints) -> None:
    prop(lock, real_postgres)


def on_sim(story: Callable[[SimCluster, Endpoints], None]) -> None:
    cluster = make("postgres", clients=1)

    def main() -> None:
        address = cluster.endpoints()
        where = Endpoints(address.kind, address.addresses)
        assert cluster.spawn("c0", lambda checkpoint: story(cluster, where))(600)

    on(cluster, main)


def test_advisory_lock_ends_with_the_connection_and_its_holder_can_ask() -> None:
    def story(cluster: SimCluster, where: Endpoints) -> None:
        one, other = AdvisoryLock.open(where, "k", 1.0), AdvisoryLock.open(where, "k", 1.0)
        assert one.acquire(1.0)
        assert one.still_valid()
        assert other.acquire(0.5) is None
        cluster.kill("n1")
        cluster.start("n1", wiped=False)
        with pytest.raises(Indeterminate):
            other.acquire(3.0)  # on the connection to the killed server
        assert other.acquire(3.0)
        assert not one.still_valid()
        with pytest.raises(LockError, match="lost with its connection"):
            one.release()

    on_sim(story)


def test_row_lock_is_lost_with_its_transaction() -> None:
    def story(cluster: SimCluster, where: Endpoints) -> None:
        one, other = PostgresRowLock.open(where, "k", 1.0), PostgresRowLock.open(where, "k", 1.0)
        assert one.acquire(1.0)
        cluster.kill("n1")
        cluster.start("n1", wiped=False)
        assert other.acquire(3.0)
        with pytest.raises((LockError, Indeterminate)):
            one.release()

    on_sim(story)


@pytest.mark.parametrize("name", ["postgres-psycopg", "django-pglock", "django-pgware-lock", "apscheduler-lease"])
def test_lock_that_cannot_be_simulated_is_refused_with_the_reason(name: str) -> None:
    why = catalogue.description(name).containers_only
    assert why
    with pytest.raises(UsageError, match=f"^{name} cannot be simulated: {why}; use --cluster docker$"):
        complete(Plan(lock=name))
    assert complete(Plan(lock=name, cluster="docker")).kind == "postgres"
    with pytest.raises(UsageError, match="no lock that can be simulated matches"):
        explorable(name)
