"""The simulated PgBouncer: which server session a client's statements run in, and what happens to sessions in use."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from pg8000.exceptions import InterfaceError
from pg8000.native import Connection

from harness.sim.hosts import SimHost
from harness.sim.servers.postgres.pgbouncer import PgBouncer
from harness.sim.servers.postgres.server import PostgresServer
from tests.sim.world import TwoHostWorld

PID = "SELECT pg_backend_pid()"


def run(*mains: Callable[[], Any], **options: Any) -> list[Any]:
    """Run clients, each on a host of its own, with a PgBouncer on host ``db1``."""
    world = TwoHostWorld(0)
    SimHost(world.network, "db1").install(PgBouncer(PostgresServer(), **options))
    return world.run(*mains)


def connect() -> Connection:
    return Connection("harness", host="db1", port=6432, database="harness", ssl_context=False, tcp_keepalive=False)


def pid(connection: Connection) -> int:
    ((number,),) = connection.run(PID)
    return int(number)


def test_transaction_mode_gives_the_session_that_was_used_last() -> None:
    def main() -> None:
        one, other = connect(), connect()
        assert pid(one) == pid(other) == pid(one)
        one.run("BEGIN")
        mine = pid(one)
        assert pid(other) != mine
        assert pid(one) == mine
        one.run("COMMIT")
        assert pid(other) == mine

    run(main)


def test_round_robin_gives_the_session_that_has_been_idle_for_longest() -> None:
    def main() -> None:
        one = connect()
        seen = [pid(one) for _ in range(6)]
        assert seen[:3] == seen[3:]
        assert len(set(seen)) == 3

    run(main, round_robin=True, min_pool_size=3)


def test_an_advisory_lock_of_the_session_is_stranded_or_shared_in_transaction_mode() -> None:
    def main() -> None:
        one, other = connect(), connect()
        assert one.run("SELECT pg_try_advisory_lock(1)") == [[True]]
        assert other.run("SELECT pg_try_advisory_lock(1)") == [[True]]
        assert other.run("SELECT pg_advisory_unlock_all()") == [[""]]
        assert one.run("SELECT pg_try_advisory_lock(1)") == [[True]]
        other.run("BEGIN")
        other.run("SELECT 1")
        assert one.run("SELECT pg_advisory_unlock(1)") == [[False]]

    run(main)


def test_session_mode_keeps_the_session_and_resets_it_for_the_next_client() -> None:
    def main() -> None:
        one, other = connect(), connect()
        mine = pid(one)
        one.run("SELECT pg_advisory_lock(1)")
        assert pid(other) != mine
        assert other.run("SELECT pg_try_advisory_lock(1)") == [[False]]
        one.close()
        time.sleep(0.1)
        assert other.run("SELECT pg_try_advisory_lock(1)") == [[True]]
        assert pid(connect()) == mine

    run(main, transaction_mode=False)


def test_a_client_waits_for_a_session_when_all_are_in_use() -> None:
    def holder() -> None:
        one = connect()
        one.run("BEGIN")
        time.sleep(1)
        one.run("COMMIT")

    def waiter() -> float:
        time.sleep(0.2)
        other = connect()
        began = time.monotonic()
        pid(other)
        return time.monotonic() - began

    (waited,) = [result for result in run(holder, waiter, pool_size=1) if result is not None]
    assert waited == pytest.approx(0.8, abs=0.1)


def test_a_session_whose_client_leaves_in_a_transaction_is_closed() -> None:
    def main() -> None:
        one = connect()
        one.run("BEGIN")
        mine = pid(one)
        one.run("SELECT pg_advisory_lock(1)")
        one.close()
        time.sleep(0.1)
        other = connect()
        assert other.run("SELECT pg_try_advisory_lock(1)") == [[True]]
        assert pid(other) != mine

    run(main)


def test_a_client_loses_its_connection_with_the_session_that_the_server_ends() -> None:
    def main() -> None:
        one, other = connect(), connect()
        one.run("BEGIN")
        other.run(f"SELECT pg_terminate_backend({pid(one)})")
        with pytest.raises(InterfaceError):
            one.run("SELECT 1")
        assert other.run("SELECT 1") == [[1]]

    run(main)
