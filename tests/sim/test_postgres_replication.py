"""Replicated simulated PostgreSQL servers with their failover manager: what it promotes, rebuilds and refuses.

``tests/fidelity/test_postgres_replication.py`` compares the servers themselves with real ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from pg8000.exceptions import DatabaseError, InterfaceError
from pg8000.native import Connection

from harness.clusters.abilities import leader_of
from harness.clusters.sim.cluster import SimCluster
from harness.sim.servers.failover import FailoverManager
from harness.sim.servers.log_replication import LogReplication
from tests.clusters.bench import make

BOTH = [("n1", "n2"), ("n2", "n1")]
TABLE = "CREATE TABLE t (a INT PRIMARY KEY, since TIMESTAMPTZ, rest INTERVAL)"
ROWS = "SELECT a FROM t ORDER BY a"


def connect(host: str = "db", timeout: float = 1.0) -> Connection:
    address = {"host": host, "database": "harness", "timeout": timeout}
    return Connection("harness", ssl_context=False, tcp_keepalive=False, **address)


def add(connection: Connection, number: int) -> None:
    connection.run(f"INSERT INTO t VALUES ({number}, now(), INTERVAL '1 s')")


def on(main: Callable[[SimCluster], Any], **options: Any) -> Any:
    """Call ``main`` on a client host of a replicated cluster and return its result."""
    cluster = make("postgres-replicated", **options)
    found: list[Any] = []

    def control() -> None:
        assert cluster.spawn("c0", lambda checkpoint: found.append(main(cluster)))(200)

    cluster.run(control)
    return found[0]


def rows_after_failover(cluster: SimCluster) -> Any:
    """Insert a row that the standby does not get, then fail over. Returns (the outcome of the insert, the rows)."""
    first = connect()
    first.run(TABLE)
    add(first, 1)
    time.sleep(0.1)
    cluster.cut(BOTH)
    try:
        add(first, 2)
    except (InterfaceError, OSError):
        outcome = "unknown"
    else:
        outcome = "ok"
    cluster.kill("n1")
    time.sleep(2)
    return outcome, connect().run(ROWS)


def test_acknowledged_row_is_lost_by_a_failover_of_asynchronous_servers() -> None:
    assert on(rows_after_failover) == ("ok", [[1]])


def test_synchronous_primary_does_not_acknowledge_what_only_it_has() -> None:
    assert on(rows_after_failover, synchronous_standby_names="*") == ("unknown", [[1]])


def test_mutant_that_does_not_wait_for_the_standby_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = LogReplication.write
    monkeypatch.setattr(LogReplication, "write", lambda self, event, waits=True: usual(self, event, waits=False))
    assert on(rows_after_failover, synchronous_standby_names="*") == ("ok", [[1]])


def test_values_of_all_types_arrive_at_the_standby() -> None:
    def main(cluster: SimCluster) -> Any:
        first, standby = connect(), connect("n2")
        first.run(TABLE)
        add(first, 1)
        time.sleep(0.1)
        statement = "SELECT * FROM t"
        return first.run(statement), standby.run(statement)

    at_primary, at_standby = on(main)
    assert at_primary == at_standby
    assert at_primary[0][0] == 1


def test_old_primary_that_comes_back_is_rebuilt_as_a_standby() -> None:
    def main(cluster: SimCluster) -> Any:
        late = connect()
        late.run(TABLE)
        cluster.pause("n1")
        time.sleep(3)
        assert leader_of(cluster) == "n2"
        add(connect(), 5)
        cluster.resume("n1")
        time.sleep(1)
        with pytest.raises((InterfaceError, OSError)):
            add(late, 6)
        time.sleep(1)
        old = connect("n1")
        return old.run(ROWS), old.run("SELECT pg_is_in_recovery()"), connect().run(ROWS)

    assert on(main) == ([[5]], [[True]], [[5]])


def test_manager_that_does_not_rebuild_leaves_two_primaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FailoverManager, "_on_replica_status", lambda self, name: lambda status: None)

    def main(cluster: SimCluster) -> Any:
        first = connect()
        first.run(TABLE)
        time.sleep(0.1)
        cluster.pause("n1")
        time.sleep(3)
        cluster.resume("n1")
        time.sleep(1)
        add(first, 1)
        add(connect(), 1)
        return [connect(host).run(ROWS) for host in ("n1", "n2")]

    assert on(main) == [[[1]], [[1]]]


def test_primary_without_its_disk_is_no_primary_and_copies_the_new_one() -> None:
    def main(cluster: SimCluster) -> Any:
        first = connect()
        first.run(TABLE)
        add(first, 1)
        time.sleep(0.1)
        cluster.kill("n1")
        cluster.start("n1", wiped=True)
        time.sleep(0.1)
        with pytest.raises(DatabaseError, match="57P03"):
            connect("n1")
        time.sleep(3)
        return leader_of(cluster), connect("n1").run(ROWS), connect("n1").run("SELECT pg_is_in_recovery()")

    assert on(main) == ("n2", [[1]], [[True]])


def test_synchronous_commit_goes_on_when_a_standby_reconnects_whose_acknowledgement_was_lost() -> None:
    def main(cluster: SimCluster) -> Any:
        first = connect(timeout=30.0)
        first.run(TABLE)
        cluster.cut([("n2", "n1")])  # the standby gets the row, and its acknowledgement is lost
        began = time.monotonic()

        def heal(_: Any) -> None:
            time.sleep(2)
            cluster.heal([("n2", "n1")])

        cluster.spawn("c1", heal)
        add(first, 1)
        return time.monotonic() - began

    assert 2.0 < on(main, synchronous_standby_names="*") < 10.0


def test_same_seed_gives_the_same_run() -> None:
    def behaviour() -> Any:
        lines: list[Any] = []

        def main(cluster: SimCluster) -> Any:
            outcome = rows_after_failover(cluster)
            lines.append(cluster.logs(0))
            return outcome, time.monotonic()

        return on(main), lines

    assert behaviour() == behaviour()
