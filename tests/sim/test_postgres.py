"""Behaviour of the simulated PostgreSQL that random statements do not cover: time-outs, kills, client libraries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest
from pg8000.exceptions import DatabaseError
from pg8000.native import Connection

from harness.sim.hosts import SimHost
from harness.sim.servers.postgres.server import PostgresServer
from tests.sim.world import TwoHostWorld


class PostgresBench:
    """A simulated server on host ``db1``, and clients on hosts of their own."""

    def __init__(self) -> None:
        self.world = TwoHostWorld(0)
        self.host = SimHost(self.world.network, "db1")
        self.host.install(PostgresServer())

    def run(self, *mains: Callable[[], Any]) -> list[Any]:
        return self.world.run(*mains)


def connect() -> Connection:
    return Connection("harness", host="db1", database="harness", ssl_context=False, tcp_keepalive=False)


def state(error: pytest.ExceptionInfo[DatabaseError]) -> str:
    details: Any = error.value.args[0]
    return str(details["C"])


def test_lock_timeout_ends_a_wait_and_keeps_the_session() -> None:
    def main() -> float:
        one, other = connect(), connect()
        one.run("SELECT pg_advisory_lock(1)")
        other.run("SET lock_timeout = '250ms'")
        began = time.monotonic()
        with pytest.raises(DatabaseError) as error:
            other.run("SELECT pg_advisory_lock(1)")
        assert state(error) == "55P03"
        assert other.run("SELECT 1") == [[1]]
        return time.monotonic() - began

    assert PostgresBench().run(main)[0] == pytest.approx(0.25, abs=0.05)


def test_texts_of_the_catalogue_are_as_real_ones_are() -> None:
    def main() -> None:
        connection = connect()
        connection.run("CREATE TABLE IF NOT EXISTS t (name TEXT)")
        connection.run("CREATE TABLE IF NOT EXISTS t (name TEXT)")
        assert [notice[b"C"] for notice in connection.notices] == [b"42P07"]
        connection.run("SELECT current_schema()")
        assert [column["type_oid"] for column in connection.columns] == [19]

    PostgresBench().run(main)


def test_statement_timeout_ends_a_sleep() -> None:
    def main() -> None:
        one = connect()
        one.run("SET statement_timeout = '100ms'")
        with pytest.raises(DatabaseError) as error:
            one.run("SELECT pg_sleep(5)")
        assert state(error) == "57014"

    PostgresBench().run(main)


def test_idle_session_is_ended_and_its_locks_with_it() -> None:
    def main() -> Any:
        one, other = connect(), connect()
        one.run("SELECT pg_advisory_lock(1)")
        one.run("SET idle_session_timeout = '1s'")
        time.sleep(2)
        return other.run("SELECT pg_try_advisory_lock(1)")

    assert PostgresBench().run(main) == [[[True]]]


def test_waiting_session_of_a_client_that_left_still_acquires_the_lock_first() -> None:
    """PostgreSQL notices a lost client only when it sends the answer, so the lock passes through the dead session."""

    def main() -> Any:
        one, gone, other = connect(), connect(), connect()
        one.run("SELECT pg_advisory_lock(1)")
        gone._usock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            gone.run("SELECT pg_advisory_lock(1)")
        gone._usock.close()
        assert other.run("SELECT pg_try_advisory_lock(1)") == [[False]]
        one.run("SELECT pg_advisory_unlock(1)")
        time.sleep(0.1)
        return other.run("SELECT pg_try_advisory_lock(1)")

    assert PostgresBench().run(main) == [[[True]]]


def test_kill_keeps_committed_rows_only() -> None:
    bench = PostgresBench()

    def main() -> Any:
        one = connect()
        one.run("CREATE TABLE t (k text PRIMARY KEY)")
        one.run("INSERT INTO t VALUES ('a')")
        one.run("BEGIN")
        one.run("INSERT INTO t VALUES ('b')")
        bench.host.kill()
        bench.host.start(wiped=False)
        return connect().run("SELECT k FROM t")

    assert bench.run(main) == [[["a"]]]


def test_asyncpg_runs_unmodified() -> None:
    async def talk() -> Any:
        connection = await asyncpg.connect(host="db1", user="harness", database="harness", ssl=False)
        await connection.execute("CREATE TABLE t (k text PRIMARY KEY, v bigint, at timestamptz DEFAULT now())")
        async with connection.transaction():
            await connection.execute("INSERT INTO t (k, v) VALUES ($1, $2)", "a", 5)
            row = await connection.fetchrow("SELECT v + 1 AS next FROM t WHERE k = $1 FOR UPDATE", "a")
        locked = await connection.fetchval("SELECT pg_try_advisory_lock($1)", 7)
        await connection.close()
        return row["next"], locked

    assert PostgresBench().run(lambda: asyncio.run(talk())) == [(6, True)]


@pytest.mark.parametrize(
    ("statement", "lacking"),
    [
        ("SELECT CASE WHEN 1 = 1 THEN 1 ELSE 0 END", "CASE WHEN 1 = 1 THEN 1 ELSE 0 END in PostgreSQL's SQL"),
        ("SELECT txid_current()", "the SQL function txid_current()"),
        ("SELECT * FROM pg_locks", "the table pg_locks in PostgreSQL's SQL"),
        ("SHOW work_mem", "the parameter work_mem of PostgreSQL"),
        ("SELECT pg_advisory_lock(:key, :key) WHERE EXISTS (SELECT 1)", "WHERE without FROM in PostgreSQL's SQL"),
        ("SELECT * FROM nope", None),
        ("SELECT length(1)", None),
    ],
)
def test_a_statement_that_only_the_real_server_has_is_noted(statement: str, lacking: str | None) -> None:
    bench = PostgresBench()

    def main() -> None:
        with pytest.raises(DatabaseError):
            connect().run(statement, key=1)

    bench.run(main)
    assert list(bench.world.kernel.unsupported) == ([lacking] if lacking else [])
