"""Real MariaDB under faults: each takes effect and heals, moved clocks do not affect waits, and after a failover the
name denotes another server and the old one is rebuilt."""

from __future__ import annotations

import time
from contextlib import closing
from itertools import count
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection

from harness.clusters.abilities import leader_of
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.services.mysql import ReplicatedMysqlServers
from harness.clusters.docker.services.mysql_manager import ACCOUNT as MANAGER
from harness.clusters.docker.services.mysql_manager import follows
from harness.clusters.kinds import ACCOUNT
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from tests.clusters.real import hosts_file, servers_with_clients, until

N1 = {"target": "n1"}
FAULTS = (
    FaultSpec("latency", at=1.0, for_=2.0, params={"delay": 0.05, "jitter": 0.0}),
    FaultSpec("connection-reset", at=4.0, for_=0.1, params={"target": "clients"}),
    FaultSpec("lost-reply", on="acquire:invoke", delay=5.0, for_=0.5),
    FaultSpec("kill", at=7.0, for_=1.0, params=N1),
    FaultSpec("server-pause", at=10.0, for_=1.0, params=N1),
    FaultSpec("kill-amnesia", at=13.0, for_=0.1, params=N1),
    FaultSpec("partition-clients", at=16.0, for_=1.0),
    FaultSpec("clock-jump", at=19.0, for_=2.0, params={"seconds": 600.0, **N1}),
    FaultSpec("clock-drift", at=22.0, for_=2.0, params={"rate": 0.5, **N1}),
    FaultSpec("black-hole", at=25.0, for_=2.0),
)


@pytest.mark.docker
def test_every_fault_takes_effect_and_heals() -> None:
    plan = Plan(
        lock="mysql-ttl", cluster="docker", ttl=1.0, clients=3, time_limit=33.0, settle=4.0, faults=FAULTS
    )  # fmt: skip
    result = run(plan)
    told = {fault["fault"]: fault for fault in result.document["faults"]}
    assert set(told) == {fault.fault for fault in FAULTS}
    assert {name: fault["error"] for name, fault in told.items()} == dict.fromkeys(told)
    assert result.verdicts["faults"].valid is True, result.verdicts["faults"].explanation
    assert result.verdicts["liveness"].valid is True, "the lock works again after each"
    jumped = told["clock-jump"]["observed"]["clock_ns"]["n1"]
    assert abs(jumped - 600_000_000_000) < 20_000_000, "by the server's own word"


def first_value(cluster: DockerCluster, host: str, *statements: str, account: str = ACCOUNT) -> Any:
    """Execute the statements and return the first value of the last one's result."""
    with closing(connect_as(cluster, host, account)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        row = cursor.fetchone()
        return row[0] if row else None


def connect_as(cluster: DockerCluster, host: str, account: str = ACCOUNT) -> Connection[Any]:
    address = cluster.servers.addresses[host]
    return pymysql.connect(host=address, user=account, password=account, database=ACCOUNT, autocommit=True)


@pytest.mark.long
@pytest.mark.parametrize("ahead", [600.0, -600.0])
def test_waits_do_not_depend_on_the_wall_clock(ahead: float) -> None:
    def waited(cluster: DockerCluster) -> float:
        with closing(connect_as(cluster, "n1")) as holder, holder.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK('x', 0)")
            began = time.monotonic()
            assert first_value(cluster, "n1", "SELECT GET_LOCK('x', 1)") == 0
            return time.monotonic() - began

    with servers_with_clients("mysql-single") as cluster:
        cluster.set_clock("n1", ahead)
        assert cluster.read_clock("n1") == pytest.approx(ahead * 1e9, abs=2e7)
        assert waited(cluster) == pytest.approx(1.0, abs=0.3)
        cluster.set_clock("n1", ahead, 0.5)
        assert waited(cluster) == pytest.approx(1.0 / 1.5, abs=0.3), "a clock that runs fast waits less"
        cluster.set_clock("n1", ahead)
        assert waited(cluster) == pytest.approx(1.0, abs=0.3), "the rate has been taken away again"


@pytest.mark.docker
def test_a_failover_moves_the_name_and_the_old_primary_is_rebuilt() -> None:
    with servers_with_clients("mysql-replicated") as cluster:
        servers = cluster.servers
        assert isinstance(servers, ReplicatedMysqlServers)
        assert leader_of(cluster) == "n1"
        first_value(cluster, "n1", "CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        until(lambda: first_value(cluster, "n2", "SELECT COUNT(*) FROM t") == 1)
        with pytest.raises(pymysql.err.OperationalError, match="read-only"):
            first_value(cluster, "n2", "INSERT INTO t VALUES (9)")
        cut = [("n1", "n2"), ("n2", "n1")]
        cluster.cut(cut)
        first_value(cluster, "n1", "INSERT INTO t VALUES (2)")  # acknowledged, and on n1 alone
        number = first_value(cluster, "n1", "SELECT @@server_id")
        cluster.kill("n1")
        until(lambda: leader_of(cluster) == "n2")
        assert servers.addresses["n2"] in hosts_file(cluster, "c0")
        assert (
            first_value(cluster, "n2", "INSERT INTO t VALUES (3)", "SELECT GROUP_CONCAT(a ORDER BY a) FROM t") == "1,3"
        )
        cluster.heal(cut)
        cluster.start("n1", wiped=False)
        until(lambda: cluster.state("n1") == "running" and replicates(cluster, "n1", "n2"))
        until(lambda: first_value(cluster, "n1", "SELECT GROUP_CONCAT(a ORDER BY a) FROM t") == "1,3")
        assert first_value(cluster, "n1", "SELECT @@read_only") == 1
        assert first_value(cluster, "n1", "SELECT @@server_id") != number
        assert leader_of(cluster) == "n2"
        began = time.monotonic()
        servers.on_log_line("s1", '{"primary": "n1"}')
        assert time.monotonic() - began < 0.05
        assert servers.addresses["n1"] in hosts_file(cluster, "c1")


def replicates(cluster: DockerCluster, host: str, primary: str) -> bool:
    with closing(connect_as(cluster, host, MANAGER)) as connection:
        return follows(connection, cluster.servers.addresses[primary])


def _insert_for_ever(cursor: Any) -> None:
    for number in count():
        cursor.execute("INSERT INTO t VALUES (%s)", (number,))


@pytest.mark.long
def test_a_resumed_old_primary_loses_its_clients_and_its_own_data() -> None:
    with servers_with_clients("mysql-replicated") as cluster:
        first_value(cluster, "n1", "CREATE TABLE t (a INT PRIMARY KEY)")
        with closing(connect_as(cluster, "n1")) as late, late.cursor() as cursor:
            cursor.execute("SELECT 1")
            cluster.pause("n1")
            until(lambda: leader_of(cluster) == "n2")
            cluster.resume("n1")
            with pytest.raises(pymysql.MySQLError):
                _insert_for_ever(cursor)
        until(lambda: replicates(cluster, "n1", "n2"))
        assert first_value(cluster, "n1", "SELECT COUNT(*) FROM t") == 0


@pytest.mark.long
def test_semi_synchronous_commits_wait_for_the_replica_and_then_no_longer() -> None:
    with servers_with_clients("mysql-replicated", semi_sync=True, semi_sync_timeout=1.0) as cluster:
        first_value(cluster, "n1", "CREATE TABLE t (a INT PRIMARY KEY)")

        def seconds() -> float:
            began = time.monotonic()
            first_value(cluster, "n1", f"INSERT INTO t VALUES ({time.time_ns() % 1_000_000_000})")
            return time.monotonic() - began

        def quickest() -> float:
            """A busy machine may be slow once."""
            return min(seconds() for _ in range(5))

        assert quickest() < 0.9
        cluster.pause("n2")
        assert seconds() > 0.95
        assert quickest() < 0.9, "it has fallen back to asynchronous replication"


@pytest.mark.long
def test_options_of_servers_are_theirs() -> None:
    with servers_with_clients("mysql-single", lock_wait_timeout=7.0, wait_timeout=9.0) as cluster:
        assert first_value(cluster, "n1", "SELECT @@innodb_lock_wait_timeout") == 7
        assert first_value(cluster, "n1", "SELECT @@wait_timeout") == 9
