"""The MySQL locks: the conformance suite on simulated and real servers, and behaviour specific to MySQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.clusters.sim.cluster import SimCluster
from harness.lock_impls.base import Endpoints, Indeterminate, LockClass, LockError
from harness.lock_impls.mysql_client import Unreachable, span
from harness.lock_impls.mysql_for_update import ForUpdateLock
from harness.lock_impls.mysql_get_lock import GetLock
from harness.lock_impls.mysql_optimistic import OptimisticLock
from harness.lock_impls.mysql_owner import OwnerLock
from harness.lock_impls.mysql_reentrant import MysqlReentrantLock
from harness.lock_impls.mysql_ttl import TtlLock
from harness.lock_impls.mysql_unique import UniqueLock
from harness.lock_impls.mysql_unique_cleaner import UniqueCleanerLock
from tests.clusters.bench import make, on
from tests.clusters.real import servers
from tests.locks import conformance
from tests.locks.test_conformance_sim import on_a_simulated_client

KINDS = ("mysql-single", "mysql-replicated")
CASES = conformance.cases("mysql-", "sqlalchemy-dlock")
BY_NAME = [case for case in CASES if case.values[1] is conformance.one_holder_at_a_time]


@pytest.mark.few(48)
@pytest.mark.parametrize(("lock", "prop"), CASES)
def test_lock(lock: LockClass, prop: conformance.Property) -> None:
    on_a_simulated_client(lock, prop, "mysql-single")


@pytest.mark.parametrize(("lock", "prop"), BY_NAME)
def test_lock_behind_a_name(lock: LockClass, prop: conformance.Property) -> None:
    on_a_simulated_client(lock, prop, "mysql-replicated")


@pytest.fixture(scope="module", params=KINDS)
def real_mysql(request: pytest.FixtureRequest) -> Iterator[Endpoints]:
    with servers(request.param) as cluster:
        yield Endpoints(request.param, cluster.endpoints().addresses)


@pytest.mark.docker
@pytest.mark.parametrize(("lock", "prop"), CASES)
def test_lock_on_containers(lock: LockClass, prop: conformance.Property, real_mysql: Endpoints) -> None:
    prop(lock, real_mysql)


# Behaviour specific to MySQL, on a simulated server, where an answer can be lost and a server killed between two steps


def on_sim(story: Callable[[SimCluster, Endpoints], None], kind: str = "mysql-single") -> None:
    cluster = make(kind, clients=1)

    def main() -> None:
        address = cluster.endpoints()
        where = Endpoints(address.kind, address.addresses)
        assert cluster.spawn("c0", lambda checkpoint: story(cluster, where))(600)

    on(cluster, main)


def lose_answer(cluster: SimCluster) -> None:
    """Lose the answer to the next statement."""
    cluster.trap_message("n1", "c0", b"", None)


@pytest.mark.parametrize("lock_class", [UniqueLock, OwnerLock, MysqlReentrantLock, TtlLock, OptimisticLock])
def test_lost_answer_is_not_a_refusal(lock_class: Any) -> None:
    def story(cluster: SimCluster, where: Endpoints) -> None:
        lock = lock_class(where, "k", 30.0)
        assert lock.acquire(0)
        lose_answer(cluster)
        with pytest.raises(Indeterminate):
            lock.release()
        lock.session.execute("SELECT 1")
        lose_answer(cluster)
        with pytest.raises(Indeterminate):
            lock.acquire(0)

    on_sim(story)


@pytest.mark.parametrize(
    ("lock_class", "recovers"), [(UniqueLock, False), (OwnerLock, True), (MysqlReentrantLock, True)]
)
def test_lock_with_owner_recovers_from_a_lost_answer(lock_class: Any, recovers: bool) -> None:
    def story(cluster: SimCluster, where: Endpoints) -> None:
        lock, other = lock_class(where, "k", 30.0), lock_class(where, "k", 30.0)
        assert lock.acquire(0)
        lock.release()
        lose_answer(cluster)
        with pytest.raises(Indeterminate):
            lock.acquire(0)
        assert other.acquire(0) is None, "the row is there"
        assert bool(lock.acquire(0)) is recovers
        if recovers:
            lock.release()
            assert other.acquire(0), "one release is enough"

    on_sim(story)


@pytest.mark.parametrize("lock_class", [ForUpdateLock, GetLock])
def test_release_reports_a_lost_connection(lock_class: Any) -> None:
    def story(cluster: SimCluster, where: Endpoints) -> None:
        lock = lock_class(where, "k")
        assert lock.acquire(0)
        assert lock.still_valid()
        cluster.break_streams("c0")
        assert not lock.still_valid()
        with pytest.raises(LockError, match="lost with its connection"):
            lock.release()
        assert lock.acquire(0), "and may lock again"
        cluster.break_streams("c0")
        with pytest.raises((LockError, Indeterminate)):
            lock.release()

    on_sim(story)


def test_outer_release_reports_a_lock_lost_before_reentry() -> None:
    def story(cluster: SimCluster, where: Endpoints) -> None:
        lock, other = MysqlReentrantLock(where, "k", 30.0), MysqlReentrantLock(where, "k", 30.0)
        assert lock.acquire(0)
        other.session.execute("DELETE FROM reentrant_lock WHERE name = 'k'")  # as a failover may
        assert lock.acquire(0)
        lock.release()
        assert other.acquire(0)
        with pytest.raises(LockError, match="not held"):
            lock.release()

    on_sim(story)


def test_table_created_concurrently_by_another_client() -> None:
    """CREATE TABLE ends a transaction: a row locked after it is locked for that statement only."""

    def story(cluster: SimCluster, where: Endpoints) -> None:
        first, second, third = (ForUpdateLock(where, "k") for _ in range(3))
        make_table = first.session._make_table

        def late(connection: Any) -> None:
            assert second.acquire(0)
            second.release()
            make_table(connection)

        first.session._make_table = late  # type: ignore[method-assign]
        assert first.acquire(0)
        assert third.acquire(0) is None
        first.release()
        assert third.acquire(0)

    on_sim(story)


def test_acquire_waits_for_an_unreachable_server() -> None:
    def story(cluster: SimCluster, where: Endpoints) -> None:
        cluster.kill("n1")
        with pytest.raises(Unreachable, match="cannot connect"):
            UniqueLock(where, "k", 30.0).acquire(0.3)
        threading.Timer(0.5, lambda: cluster.start("n1", wiped=False)).start()
        assert UniqueLock(where, "k", 30.0).acquire(3.0)

    on_sim(story)


def test_read_only_server_is_not_used() -> None:
    def story(cluster: SimCluster, where: Endpoints) -> None:
        assert UniqueLock(where, "k", 30.0).acquire(0)
        replica = UniqueLock(Endpoints(where.kind, (("n2", 3306),)), "other", 30.0)
        with pytest.raises(Unreachable, match="read-only"):
            replica.acquire(0)
        assert not replica.session.connected, "the next connection may lead elsewhere"

    on_sim(story, "mysql-replicated")


def test_long_key_has_a_unique_short_name() -> None:
    def story(cluster: SimCluster, where: Endpoints) -> None:
        first, same, other = (GetLock(where, "k" * 64 + end) for end in "aab")
        assert first.acquire(0)
        assert same.acquire(0) is None
        assert other.acquire(0)

    on_sim(story)


def test_cleaner_uses_the_age_option() -> None:
    def story(cluster: SimCluster, where: Endpoints) -> None:
        first, second = (UniqueCleanerLock(where, "k", 1.0, age=3.0) for _ in range(2))
        assert first.acquire(0)
        assert second.acquire(2.5) is None
        assert second.acquire(1.0)

    on_sim(story)


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "00:00:02.500000"), (-120, "-00:02:00.000000"), (3661.000001, "01:01:01.000001")]
)
def test_span_formats_durations_for_sql(seconds: float, text: str) -> None:
    assert span(seconds) == text
