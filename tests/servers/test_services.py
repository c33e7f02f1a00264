"""Servers of each service that a user may run: a run on a real one, its record, and what is left on it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pymysql
import pytest
from kazoo.client import KazooClient
from pg8000.native import Connection

from harness import FaultSpec, Plan, run
from harness.clusters.servers.adapter import OwnServer, server_class
from harness.clusters.servers.addresses import parse_server
from harness.errors import UsageError
from harness.fidelity.etcd.pair import server_command as etcd_command
from harness.fidelity.memcached.pair import server_command as memcached_command
from harness.fidelity.mysql.pair import MysqlComparison
from harness.fidelity.postgres.pair import PostgresComparison
from harness.fidelity.processes import Place, ServerProcess
from harness.fidelity.zookeeper.pair import configure, server_command

Address = tuple[str, int]


@contextmanager
def mariadb() -> Iterator[Address]:
    with MysqlComparison().start() as pair:
        yield pair.address


@contextmanager
def postgres() -> Iterator[Address]:
    with PostgresComparison().start() as pair:
        yield pair.address


@contextmanager
def process(name: str, command: Callable[[Place], list[str]], **more: Any) -> Iterator[Address]:
    with ServerProcess(name, command, **more) as server:
        yield server.place.address


@dataclass(frozen=True)
class Case:
    """A service: how to start a server, the locks to run, what its version begins with, and how to add and remove a key
    that an earlier run may have left."""

    start: Callable[[], AbstractContextManager[Address]]
    url: str
    kind: str
    lock: str
    product: str
    leave: Callable[[Address], None]
    remove: Callable[[Address], None]


def sql(statement: str, address: Address) -> None:
    host, port = address
    with pymysql.connect(host=host, port=port, user="harness", password="harness", database="harness") as connection:
        connection.cursor().execute(statement)


def postgres_sql(statement: str, address: Address) -> None:
    host, port = address
    connection = Connection("harness", host=host, port=port, database="harness")
    connection.run(statement)
    connection.close()


def memcached_says(command: bytes, address: Address) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(command)
        assert connection.recv(100)


def zookeeper_node(call: str, address: Address) -> None:
    client = KazooClient(f"{address[0]}:{address[1]}")
    client.start()
    try:
        if call == "create":
            client.create("/other")
            client.create("/locks/harness:0000:k0", makepath=True)
        elif call == "remove":
            client.delete("/locks", recursive=True)
        else:
            assert set(client.get_children("/")) == {"zookeeper", "other"}
    finally:
        client.stop()


def etcd_key(path: str, body: str, address: Address) -> None:
    import http.client

    connection = http.client.HTTPConnection(*address)
    connection.request("POST", path, body)
    assert connection.getresponse().status == 200


HARNESS_K0 = "aGFybmVzczowMDAwOmsw"
"""The key harness:0000:k0 in base64."""
CASES = {
    "memcached": Case(
        partial(process, "memcached", memcached_command), "memcached://127.0.0.1", "memcached", "memcached-token",
        "memcached 1.", partial(memcached_says, b"set harness:0000:k0 0 0 1\r\nx\r\n"),
        partial(memcached_says, b"delete harness:0000:k0\r\n"),
    ),
    "mysql": Case(
        mariadb, "mysql://127.0.0.1", "mysql-single", "mysql-ttl", "mariadb ",
        partial(sql, "CREATE TABLE lock_row (name INT)"), partial(sql, "DROP TABLE lock_row"),
    ),
    "postgres": Case(
        postgres, "postgresql://127.0.0.1", "postgres", "postgres-row", "postgres ",
        partial(postgres_sql, "CREATE TABLE lock_row (name INT)"), partial(postgres_sql, "DROP TABLE lock_row"),
    ),
    "etcd": Case(
        partial(process, "etcd", partial(etcd_command, 0, (0,))), "etcd://127.0.0.1", "etcd", "etcd-mutex",
        "etcd 3.", partial(etcd_key, "/v3/kv/put", f'{{"key": "{HARNESS_K0}", "value": "eA=="}}'),
        partial(etcd_key, "/v3/kv/deleterange", f'{{"key": "{HARNESS_K0}"}}'),
    ),
    "zookeeper": Case(
        partial(process, "zookeeper", server_command, prepare=partial(configure, 0, (0, 0))), "zookeeper://127.0.0.1",
        "zookeeper", "zookeeper-sequential", "zookeeper 3.", partial(zookeeper_node, "create"),
        partial(zookeeper_node, "remove"),
    ),
}  # fmt: skip


def own_server(case: Case, address: Address) -> OwnServer:
    return server_class(case.kind)(parse_server(f"{case.url}:{address[1]}"))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_lock_runs_on_a_server_of_the_service(name: str) -> None:
    case = CASES[name]
    with case.start() as address:
        case.leave(address)
        plan = Plan(
            lock=case.lock,
            cluster="servers",
            servers=(f"{case.url}:{address[1]}",),
            ttl=2.0,
            clients=3,
            time_limit=12.0,
            faults=(FaultSpec("client-pause", on="acquire", nth=3, for_=1.0),),
        )
        with pytest.raises(UsageError, match="has keys that begin with"):
            run(plan)
        case.remove(address)
        result = run(plan)
        assert result.valid is True, result.document["summary"]
        assert result.document["stats"]["acquires_ok"] > 10
        assert result.document["cluster"]["server"].startswith(case.product)
        assert "left_behind" not in result.document["cluster"]
        assert own_server(case, address).foreign_keys() == []
        if name == "zookeeper":
            zookeeper_node("check", address)


def test_every_service_has_an_address() -> None:
    for case in CASES.values():
        parsed = parse_server(case.url)
        assert str(parsed).startswith(case.url + ":")
        assert parsed.is_loopback
