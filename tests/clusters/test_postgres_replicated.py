"""Replicated PostgreSQL servers in containers: promotion, the name of the primary, and synchronous commits."""

from __future__ import annotations

import time
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from pg8000.exceptions import DatabaseError, InterfaceError
from pg8000.native import Connection

from harness.clusters.abilities import leader_of
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.services.postgres_manager import follows
from harness.clusters.docker.services.postgres_replicated import ReplicatedPostgresServers
from harness.clusters.kinds import ACCOUNT
from harness.clusters.kinds.postgres import REPLICATED
from harness.clusters.server_options import completed
from harness.errors import UsageError
from tests.clusters.real import hosts_file, servers_with_clients, until

BOTH = [("n1", "n2"), ("n2", "n1")]
ALL = "SELECT string_agg(a::text, ',' ORDER BY a) FROM t"


def connect(cluster: DockerCluster, host: str) -> Connection:
    return Connection(ACCOUNT, host=cluster.servers.addresses[host], database=ACCOUNT, timeout=2.0, ssl_context=False)


def value(cluster: DockerCluster, host: str, *statements: str) -> Any:
    """Execute the statements and return the first value of the last one's result."""
    with closing(connect(cluster, host)) as connection:
        found = [connection.run(statement) for statement in statements][-1]
    return found[0][0] if found else None


def is_standby(cluster: DockerCluster, host: str, primary: str) -> bool:
    try:
        with closing(connect(cluster, host)) as connection:
            return follows(connection, cluster.servers.addresses[primary])
    except (DatabaseError, InterfaceError, OSError):
        return False


def test_the_option_takes_the_values_that_the_parameter_has_here() -> None:
    assert completed(REPLICATED.options, {"synchronous_standby_names": "*"}, "docker")
    with pytest.raises(UsageError, match="synchronous_standby_names must be '\\*' or empty, got 'n2'"):
        completed(REPLICATED.options, {"synchronous_standby_names": "n2"}, "docker")


def _insert_for_ever(connection: Connection) -> None:
    for number in count():
        connection.run(f"INSERT INTO t VALUES ({number})")


@pytest.mark.docker
def test_a_failover_moves_the_name_and_the_old_primary_becomes_a_standby() -> None:
    with servers_with_clients("postgres-replicated") as cluster:
        servers = cluster.servers
        assert isinstance(servers, ReplicatedPostgresServers)
        assert leader_of(cluster) == "n1"
        value(cluster, "n1", "CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        until(lambda: value(cluster, "n2", "SELECT to_regclass('t') IS NOT NULL") and value(cluster, "n2", ALL) == "1")
        with pytest.raises(DatabaseError, match="25006"):
            value(cluster, "n2", "INSERT INTO t VALUES (9)")
        cluster.cut(BOTH)
        value(cluster, "n1", "INSERT INTO t VALUES (2)")  # acknowledged, and on n1 alone
        cluster.kill("n1")
        until(lambda: leader_of(cluster) == "n2")
        assert servers.addresses["n2"] in hosts_file(cluster, "c0")
        value(cluster, "n2", "INSERT INTO t VALUES (3)")
        assert value(cluster, "n2", ALL) == "1,3"
        cluster.heal(BOTH)
        cluster.start("n1", wiped=False)
        until(lambda: is_standby(cluster, "n1", "n2") and value(cluster, "n1", ALL) == "1,3")
        assert leader_of(cluster) == "n2"
        assert any("on timeline 2" in line for line in cluster.logs(0)["s1"].splitlines())


@pytest.mark.long
def test_a_server_without_data_copies_the_primary() -> None:
    with servers_with_clients("postgres-replicated") as cluster:
        value(cluster, "n1", "CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        until(lambda: value(cluster, "n2", "SELECT to_regclass('t') IS NOT NULL"))
        cluster.kill("n1")
        cluster.start("n1", wiped=True)
        until(lambda: leader_of(cluster) == "n2" and is_standby(cluster, "n1", "n2"))
        assert value(cluster, "n1", ALL) == "1"


@pytest.mark.long
def test_a_resumed_old_primary_loses_its_clients_and_its_own_data() -> None:
    with servers_with_clients("postgres-replicated") as cluster:
        value(cluster, "n1", "CREATE TABLE t (a INT PRIMARY KEY)")
        late = connect(cluster, "n1")
        late.run("SELECT pg_advisory_lock(1)")
        cluster.pause("n1")
        until(lambda: leader_of(cluster) == "n2")
        assert value(cluster, "n2", "SELECT pg_try_advisory_lock(1)"), "no advisory lock is replicated"
        cluster.resume("n1")
        with pytest.raises((InterfaceError, OSError)):
            _insert_for_ever(late)
        until(lambda: is_standby(cluster, "n1", "n2"))
        assert value(cluster, "n1", "SELECT count(*) FROM t") == 0


@pytest.mark.long
def test_synchronous_commits_wait_for_the_standby() -> None:
    with servers_with_clients("postgres-replicated", synchronous_standby_names="*") as cluster:
        value(cluster, "n1", "CREATE TABLE t (a INT PRIMARY KEY)")
        cluster.pause("n2")
        began = time.monotonic()
        with pytest.raises((InterfaceError, OSError)):
            value(cluster, "n1", "INSERT INTO t VALUES (1)")
        assert time.monotonic() - began > 1.5
        assert value(cluster, "n1", "SELECT count(*) FROM t") == 0, "nobody sees it before the standby has it"
        cluster.resume("n2")
        until(lambda: value(cluster, "n2", "SELECT count(*) FROM t") == 1)
