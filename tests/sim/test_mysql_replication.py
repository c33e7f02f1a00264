"""Replicated simulated MariaDB servers, observed with PyMySQL: what a failover keeps and loses."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pymysql
import pytest

from harness.clusters.abilities import leader_of
from harness.clusters.sim.cluster import SimCluster
from harness.fidelity.mysql.connections import LOST, connect_to, execute
from harness.sim.servers.failover import FailoverManager
from harness.sim.servers.mysql.replication import MysqlReplication
from tests.clusters.bench import make

TABLE = "CREATE TABLE locks (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(8) NOT NULL UNIQUE)"
NAMES = "SELECT name FROM locks ORDER BY name"
HOST_AND_MODE = "SELECT @@hostname, @@read_only"


def lock(name: str) -> str:
    return f"INSERT INTO locks (name) VALUES ('{name}')"


def connect(host: str = "db") -> Any:
    return connect_to(host, autocommit=True, connect_timeout=1)


def on(main: Callable[[SimCluster], Any], **options: Any) -> Any:
    """Call ``main`` on a client host of a replicated cluster and return its result."""
    cluster = make("mysql-replicated", **options)
    found: list[Any] = []

    def control() -> None:
        joined = cluster.spawn("c0", lambda checkpoint: found.append(main(cluster)))
        assert joined(200)

    cluster.run(control)
    return found[0]


def both_directions(cluster: SimCluster) -> list[tuple[str, str]]:
    return [("n1", "n2"), ("n2", "n1")]


def lost_row(cluster: SimCluster) -> tuple[Any, float, Any]:
    """Insert a row that the replica does not get, then fail over.

    Returns the outcome of the insert, the seconds it took, and the rows after the failover.
    """
    first = connect()
    execute(first, TABLE)
    time.sleep(0.1)
    cluster.cut(both_directions(cluster))
    began = time.monotonic()
    outcome = execute(first, lock("a"))
    took = time.monotonic() - began
    cluster.kill("n1")
    time.sleep(2)
    return outcome, took, execute(connect(), NAMES)


def test_replica_follows_and_refuses_writes() -> None:
    def main(cluster: SimCluster) -> list[Any]:
        primary, replica = connect(), connect("n2")
        execute(primary, TABLE)
        execute(primary, lock("a"))
        time.sleep(0.1)
        return [
            execute(primary, HOST_AND_MODE)[1],
            execute(replica, HOST_AND_MODE)[1],
            execute(replica, NAMES)[1],
            execute(replica, lock("b"))[1],
        ]

    assert on(main) == [(("n1", 0),), (("n2", 1),), (("a",),), 1290]


def test_failover_moves_the_name_and_the_old_primary_becomes_a_replica() -> None:
    def main(cluster: SimCluster) -> list[Any]:
        first = connect()
        for statement in (TABLE, lock("a"), lock("b"), "DELETE FROM locks WHERE name = 'a'"):
            execute(first, statement)
        time.sleep(0.1)
        cluster.kill("n1")
        seen: list[Any] = []
        with pytest.raises(pymysql.err.OperationalError):
            connect()
        time.sleep(1.5)
        second = connect()
        seen += [execute(second, HOST_AND_MODE)[1], execute(second, lock("c")), leader_of(cluster)]
        cluster.start("n1", wiped=False)
        time.sleep(2)
        old = connect("n1")
        seen += [execute(old, HOST_AND_MODE)[1], execute(old, NAMES)[1], execute(old, lock("d"))[1]]
        execute(second, lock("e"))
        time.sleep(0.1)
        return [*seen, execute(old, NAMES)[1]]

    assert on(main) == [
        (("n2", 0),), ("ok", 1, 3), "n2", (("n1", 1),), (("b",), ("c",)), 1290, (("b",), ("c",), ("e",)),
    ]  # fmt: skip


def test_asynchronous_replication_loses_a_row_and_reuses_its_id() -> None:
    def main(cluster: SimCluster) -> list[Any]:
        outcome, took, there = lost_row(cluster)
        assert took < 0.1
        return [outcome, there, execute(connect(), lock("a"))]

    assert on(main) == [("ok", 1, 1), ("rows", ()), ("ok", 1, 1)]


def test_semi_sync_loses_rows_after_its_timeout() -> None:
    outcome, took, there = on(lost_row, semi_sync=True, semi_sync_timeout=2.0)
    assert (outcome, there) == (("ok", 1, 1), ("rows", ()))
    assert 2 <= took < 2.1


def test_semi_sync_without_a_timeout_loses_no_acknowledged_row() -> None:
    def main(cluster: SimCluster) -> list[Any]:
        first = connect_to("db", autocommit=True, read_timeout=3)
        execute(first, TABLE)
        cluster.cut(both_directions(cluster))
        outcome = execute(first, lock("a"))
        unseen = execute(connect("n1"), NAMES)
        cluster.kill("n1")
        time.sleep(2)
        return [outcome, unseen, execute(connect(), NAMES)]

    assert on(main, semi_sync=True, semi_sync_timeout=1000.0) == [LOST, ("rows", ()), ("rows", ())]


def test_semi_sync_is_on_again_once_the_replica_has_caught_up() -> None:
    def main(cluster: SimCluster) -> list[float]:
        first, took = connect(), []
        execute(first, TABLE)

        def timed(name: str) -> None:
            began = time.monotonic()
            execute(first, lock(name))
            took.append(round(time.monotonic() - began, 1))

        cluster.cut(both_directions(cluster))
        timed("a")
        timed("b")
        cluster.heal(both_directions(cluster))
        time.sleep(10)
        assert execute(connect("n2"), NAMES)[1] == (("a",), ("b",))
        cluster.cut(both_directions(cluster))
        timed("c")
        return took

    assert on(main, semi_sync=True, semi_sync_timeout=2.0) == [2.0, 0.0, 2.0]


def test_commit_that_waits_for_a_replica_survives_a_kill() -> None:
    """It is in the replication log, so recovery commits it."""

    def main(cluster: SimCluster) -> Any:
        execute(connect(), TABLE)
        cluster.kill("n2")
        assert execute(connect_to("n1", autocommit=True, read_timeout=1), lock("a")) == LOST
        cluster.kill("n1")
        cluster.start("n1", wiped=False)
        time.sleep(0.5)
        return execute(connect(), NAMES)

    assert on(main, semi_sync=True, semi_sync_timeout=1000.0) == ("rows", (("a",),))


def test_paused_primary_keeps_its_connections_until_rebuilt() -> None:
    def main(cluster: SimCluster) -> list[Any]:
        first = connect()
        execute(first, TABLE)
        time.sleep(0.1)
        cluster.pause("n1")
        time.sleep(3)
        seen = [execute(connect(), lock("a"))]
        cluster.resume("n1")
        time.sleep(2)
        return [*seen, execute(first, "SELECT 1") == LOST, execute(connect("n1"), NAMES)]

    assert on(main) == [("ok", 1, 1), True, ("rows", (("a",),))]


def test_all_types_and_definitions_are_replicated() -> None:
    statements = [
        "CREATE TABLE heap (x INT, at DATETIME(6), d DECIMAL(8,3), f DOUBLE)",
        "CREATE TABLE gone (x INT)", "CREATE TABLE short (x INT)", "INSERT INTO short VALUES (1)",
        "INSERT INTO heap VALUES (1, NOW(6), 1.5, 0.1), (2, NULL, NULL, NULL), (3, NULL, 2, 3)",
        "UPDATE heap SET f = f + 1, x = 7 WHERE x = 1", "DELETE FROM heap WHERE x = 2", "DROP TABLE gone",
        "TRUNCATE TABLE short", "INSERT INTO short VALUES (5)",
    ]  # fmt: skip

    def main(cluster: SimCluster) -> list[Any]:
        primary, replica = connect(), connect("n2")
        for statement in statements:
            assert execute(primary, statement)[0] == "ok", statement
        time.sleep(0.1)
        looks = ("SELECT * FROM heap ORDER BY x", "SELECT * FROM short", "SELECT * FROM gone")
        return [(execute(primary, look), execute(replica, look)) for look in looks]

    for at_primary, at_replica in on(main):
        assert at_primary == at_replica


def test_mutant_that_does_not_wait_for_a_replica_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the mutant the primary does not wait for the replica's acknowledgement."""
    usual = MysqlReplication.write

    def write(self: MysqlReplication, event: dict[str, Any]) -> Any:
        self.waits_for_replica = False
        return usual(self, event)

    monkeypatch.setattr(MysqlReplication, "write", write)
    _, took, there = on(lost_row, semi_sync=True, semi_sync_timeout=2.0)
    assert took < 0.1
    assert there == ("rows", ())


def test_manager_that_does_not_rebuild_leaves_two_primaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FailoverManager, "_on_replica_status", lambda self, name: lambda status: None)

    def main(cluster: SimCluster) -> list[Any]:
        first = connect()
        execute(first, TABLE)
        time.sleep(0.1)
        cluster.pause("n1")
        time.sleep(3)
        cluster.resume("n1")
        time.sleep(1)
        return [execute(first, lock("a")), execute(connect(), lock("a"))]

    assert on(main) == [("ok", 1, 1), ("ok", 1, 1)]


def test_same_seed_gives_the_same_run() -> None:
    def behaviour() -> Any:
        lines: list[Any] = []

        def main(cluster: SimCluster) -> Any:
            outcome = lost_row(cluster)
            lines.append(cluster.logs(0))
            return outcome, time.monotonic()

        return on(main), lines

    assert behaviour() == behaviour()
