"""Replicated simulated MariaDBs: what a failover keeps and loses, by real PyMySQL."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pymysql
import pytest

from harness.clusters.sim import SimCluster
from harness.sim.servers.mysql import manager
from harness.sim.servers.mysql.replication import Replication
from tests.clusters.bench import make
from tests.sim.mysql_play import ask, connect_to

TABLE = "CREATE TABLE locks (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(8) NOT NULL UNIQUE)"
NAMES = "SELECT name FROM locks ORDER BY name"
WHO = "SELECT @@hostname, @@read_only"


def lock(name: str) -> str:
    return f"INSERT INTO locks (name) VALUES ('{name}')"


def connect(host: str = "db") -> Any:
    return connect_to(host, autocommit=True, connect_timeout=1)


def on(main: Callable[[SimCluster], Any], **options: Any) -> Any:
    """What ``main`` returns on a client of a replicated cluster."""
    cluster = make("mysql-replicated", **options)
    found: list[Any] = []

    def control() -> None:
        joined = cluster.spawn("c0", lambda checkpoint: found.append(main(cluster)))
        assert joined(200)

    cluster.run(control)
    return found[0]


def both(cluster: SimCluster) -> list[tuple[str, str]]:
    return [("n1", "n2"), ("n2", "n1")]


def lost_row(cluster: SimCluster) -> tuple[Any, float, Any]:
    """A lock row that the replica does not get, and a failover: what the client was told, when, and what is there."""
    first = connect()
    ask(first, TABLE)
    time.sleep(0.1)
    cluster.cut(both(cluster))
    began = time.monotonic()
    told = ask(first, lock("a"))
    took = time.monotonic() - began
    cluster.kill("n1")
    time.sleep(2)
    return told, took, ask(connect(), NAMES)


def test_a_replica_follows_and_refuses_writes() -> None:
    def main(cluster: SimCluster) -> list[Any]:
        primary, replica = connect(), connect("n2")
        ask(primary, TABLE)
        ask(primary, lock("a"))
        time.sleep(0.1)
        return [ask(primary, WHO)[1], ask(replica, WHO)[1], ask(replica, NAMES)[1], ask(replica, lock("b"))[1]]

    assert on(main) == [(("n1", 0),), (("n2", 1),), (("a",),), 1290]


def test_a_failover_moves_the_name_and_the_old_primary_comes_back_as_a_replica() -> None:
    def main(cluster: SimCluster) -> list[Any]:
        first = connect()
        for statement in (TABLE, lock("a"), lock("b"), "DELETE FROM locks WHERE name = 'a'"):
            ask(first, statement)
        time.sleep(0.1)
        cluster.kill("n1")
        seen: list[Any] = []
        with pytest.raises(pymysql.err.OperationalError):
            connect()
        time.sleep(1.5)
        second = connect()
        seen += [ask(second, WHO)[1], ask(second, lock("c")), cluster.primary()]
        cluster.start("n1", wiped=False)
        time.sleep(2)
        old = connect("n1")
        seen += [ask(old, WHO)[1], ask(old, NAMES)[1], ask(old, lock("d"))[1]]
        ask(second, lock("e"))
        time.sleep(0.1)
        return [*seen, ask(old, NAMES)[1]]

    assert on(main) == [
        (("n2", 0),), ("ok", 1, 3), "n2", (("n1", 1),), (("b",), ("c",)), 1290, (("b",), ("c",), ("e",)),
    ]  # fmt: skip


def test_without_semi_sync_an_acknowledged_row_is_lost_and_its_number_comes_again() -> None:
    def main(cluster: SimCluster) -> list[Any]:
        told, took, there = lost_row(cluster)
        assert took < 0.1
        return [told, there, ask(connect(), lock("a"))]

    assert on(main) == [("ok", 1, 1), ("rows", ()), ("ok", 1, 1)]


def test_semi_sync_gives_up_after_its_time_and_then_loses_too() -> None:
    told, took, there = on(lost_row, semi_sync=True, semi_sync_timeout=2.0)
    assert (told, there) == (("ok", 1, 1), ("rows", ()))
    assert 2 <= took < 2.1


def test_semi_sync_that_does_not_give_up_loses_nothing_that_was_told() -> None:
    def main(cluster: SimCluster) -> list[Any]:
        first = connect_to("db", autocommit=True, read_timeout=3)
        ask(first, TABLE)
        cluster.cut(both(cluster))
        told = ask(first, lock("a"))
        unseen = ask(connect("n1"), NAMES)
        cluster.kill("n1")
        time.sleep(2)
        return [told[1], unseen, ask(connect(), NAMES)]

    assert on(main, semi_sync=True, semi_sync_timeout=1000.0) == [2013, ("rows", ()), ("rows", ())]


def test_semi_sync_comes_back_when_the_replica_has_caught_up() -> None:
    def main(cluster: SimCluster) -> list[float]:
        first, took = connect(), []
        ask(first, TABLE)

        def timed(name: str) -> None:
            began = time.monotonic()
            ask(first, lock(name))
            took.append(round(time.monotonic() - began, 1))

        cluster.cut(both(cluster))
        timed("a")
        timed("b")
        cluster.mend(both(cluster))
        time.sleep(10)
        assert ask(connect("n2"), NAMES)[1] == (("a",), ("b",))
        cluster.cut(both(cluster))
        timed("c")
        return took

    assert on(main, semi_sync=True, semi_sync_timeout=2.0) == [2.0, 0.0, 2.0]


def test_a_commit_that_waits_for_a_replica_survives_the_primarys_kill() -> None:
    """It is in the log: recovery commits it."""

    def main(cluster: SimCluster) -> Any:
        ask(connect(), TABLE)
        cluster.kill("n2")
        assert ask(connect_to("n1", autocommit=True, read_timeout=1), lock("a"))[1] == 2013
        cluster.kill("n1")
        cluster.start("n1", wiped=False)
        time.sleep(0.5)
        return ask(connect(), NAMES)

    assert on(main, semi_sync=True, semi_sync_timeout=1000.0) == ("rows", (("a",),))


def test_a_paused_primary_keeps_its_connections_until_it_is_rebuilt() -> None:
    def main(cluster: SimCluster) -> list[Any]:
        first = connect()
        ask(first, TABLE)
        time.sleep(0.1)
        cluster.pause("n1")
        time.sleep(3)
        seen = [ask(connect(), lock("a"))]
        cluster.resume("n1")
        time.sleep(2)
        return [*seen, ask(first, "SELECT 1")[1] in (2006, 2013), ask(connect("n1"), NAMES)]

    assert on(main) == [("ok", 1, 1), True, ("rows", (("a",),))]


def test_all_kinds_of_rows_and_definitions_are_replicated() -> None:
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
            assert ask(primary, statement)[0] == "ok", statement
        time.sleep(0.1)
        looks = ("SELECT * FROM heap ORDER BY x", "SELECT * FROM short", "SELECT * FROM gone")
        return [(ask(primary, look), ask(replica, look)) for look in looks]

    for at_primary, at_replica in on(main):
        assert at_primary == at_replica


def test_a_replica_that_acknowledges_what_it_has_not_got_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: the primary does not wait though it should."""
    usual = Replication.write

    def write(self: Replication, event: dict[str, Any]) -> Any:
        self.waiting_on = False
        return usual(self, event)

    monkeypatch.setattr(Replication, "write", write)
    _, took, there = on(lost_row, semi_sync=True, semi_sync_timeout=2.0)
    assert took < 0.1
    assert there == ("rows", ())


def test_a_manager_that_does_not_rebuild_leaves_two_primaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager.Manager, "_follower", lambda self, name: lambda status: None)

    def main(cluster: SimCluster) -> list[Any]:
        first = connect()
        ask(first, TABLE)
        time.sleep(0.1)
        cluster.pause("n1")
        time.sleep(3)
        cluster.resume("n1")
        time.sleep(1)
        return [ask(first, lock("a")), ask(connect(), lock("a"))]

    assert on(main) == [("ok", 1, 1), ("ok", 1, 1)]


def test_the_same_seed_gives_the_same_story() -> None:
    def story() -> Any:
        lines: list[Any] = []

        def main(cluster: SimCluster) -> Any:
            told = lost_row(cluster)
            lines.append(cluster.logs(0))
            return told, time.monotonic()

        return on(main), lines

    assert story() == story()
