"""Recorded traffic of a PostgreSQL: what the simulated server can explain, and what it cannot."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from harness.documents.trace import ServerTrace
from harness.fidelity.postgres.wire import cancel_request, query, startup
from harness.fidelity.trace.check import check_recording
from harness.sim.servers.postgres import protocol
from harness.sim.servers.postgres.errors import CANCELED, DEADLOCK, LOCK_NOT_AVAILABLE, PgError
from harness.sim.servers.postgres.locks import LockManager
from harness.sim.servers.postgres.protocol import Field
from harness.sim.servers.postgres.server import PostgresServer
from harness.sim.servers.postgres.session import PgSession
from harness.sim.servers.postgres.values import BOOL, TEXT, VOID
from tests.fidelity.traffic import Traffic, recorded, runs_of


class Server:
    """Builds the recording of a server with two sessions. All times are ms; without ``replied`` there is no reply."""

    def __init__(self) -> None:
        self.traffic = Traffic("postgres")
        for number in (1, 2):
            self.open(number, number)

    def open(self, connection: int, arrived: float) -> Server:
        key = protocol.message(b"K", struct.pack(">ii", 1000 + connection, 5))
        reply = protocol.AUTHENTICATED + key + protocol.ready("I")
        self.traffic.bytes(connection, arrived, arrived + 0.5, startup(), reply)
        return self

    def ask(self, connection: int, arrived: float, replied: float | None, text: str, *messages: bytes) -> Server:
        """Send a simple query; ``messages`` are those of the reply before ReadyForQuery."""
        reply = b"".join(messages) + protocol.ready("I")
        self.traffic.bytes(connection, arrived, replied, query(text), reply)
        return self

    def value(
        self, connection: int, arrived: float, replied: float | None, call: str, value: bytes, oid: int = VOID
    ) -> Server:
        """Call a function, which returns a value."""
        columns = protocol.row_description([Field(call.partition("(")[0], oid)], [0])
        row = protocol.data_row([value])
        return self.ask(connection, arrived, replied, f"SELECT {call}", columns, row, protocol.complete("SELECT 1"))

    def lock(self, connection: int, arrived: float, replied: float | None) -> Server:
        return self.value(connection, arrived, replied, "pg_advisory_lock(7)", b"")

    def unlock(self, connection: int, arrived: float, replied: float | None) -> Server:
        return self.value(connection, arrived, replied, "pg_advisory_unlock(7)", b"t", BOOL)

    def try_lock(self, connection: int, arrived: float, replied: float, *, granted: bool) -> Server:
        return self.value(connection, arrived, replied, "pg_try_advisory_lock(7)", b"t" if granted else b"f", BOOL)

    def fail(self, connection: int, arrived: float, replied: float, state: str, text: str) -> Server:
        """Wait for the lock until an error."""
        message = protocol.error(PgError(state, text))
        return self.ask(connection, arrived, replied, "SELECT pg_advisory_lock(7)", message)

    def check(self, **options: Any) -> ServerTrace:
        return check_recording(self.traffic.recording(), options)

    @property
    def state(self) -> str:
        return self.check().state


@pytest.mark.parametrize("name", runs_of("postgres"))
def test_traffic_of_a_real_server_is_possible(name: str) -> None:
    found = check_recording(recorded(name), {})
    assert (found.state, found.why, found.difference) == ("possible", "", None)
    assert found.requests > 100


def test_session_that_waits_gets_the_lock_when_it_is_released() -> None:
    assert Server().lock(1, 10, 11).lock(2, 12, 21).unlock(1, 20, 22).state == "possible"
    assert Server().lock(1, 10, 11).lock(2, 12, 15).unlock(1, 20, 22).state == "impossible"


def test_lock_that_is_held_is_refused_and_one_that_is_free_is_granted() -> None:
    def tried(*, granted: bool, released: bool) -> str:
        server = Server().lock(1, 10, 11)
        if released:
            server.unlock(1, 12, 13)
        return server.try_lock(2, 14, 15, granted=granted).state

    assert tried(granted=False, released=False) == tried(granted=True, released=True) == "possible"
    assert tried(granted=True, released=False) == tried(granted=False, released=True) == "impossible"


def test_concurrent_requests_have_one_winner_in_either_order() -> None:
    def both(first: bool, second: bool) -> str:
        return Server().try_lock(1, 10, 13, granted=first).try_lock(2, 11, 12, granted=second).state

    assert both(first=True, second=False) == both(first=False, second=True) == "possible"
    assert both(first=True, second=True) == both(first=False, second=False) == "impossible"


@pytest.mark.parametrize(("ended_ms", "expected"), [(80, "impossible"), (112, "possible"), (500, "possible")])
def test_wait_ends_after_its_timeout_at_the_earliest(ended_ms: float, expected: str) -> None:
    limited = Server().lock(1, 5, 6).ask(2, 7, 8, "SET lock_timeout = '100ms'", protocol.complete("SET"))
    late = limited.fail(2, 10, ended_ms, LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
    assert late.state == expected


@pytest.mark.parametrize(("ended_ms", "expected"), [(600, "impossible"), (1_100, "possible")])
def test_deadlock_is_found_after_deadlock_timeout(ended_ms: float, expected: str) -> None:
    other = "pg_advisory_lock(8)"
    server = Server().lock(1, 10, 11).value(2, 12, 13, other, b"").value(1, 14, None, other, b"")
    assert server.fail(2, 16, ended_ms, DEADLOCK, "deadlock detected").state == expected


def test_process_that_does_not_run_may_miss_the_release_of_its_lock() -> None:
    server = Server().lock(1, 5, 6).ask(2, 7, 8, "SET lock_timeout = '100ms'", protocol.complete("SET"))
    server.fail(2, 10, 112, LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout").unlock(1, 50, 51)
    found = server.check()
    assert found.state == "unknown"
    assert "may not have run" in found.why


def test_statement_that_is_cancelled_ends_its_wait() -> None:
    def cancelled(secret: int) -> str:
        server = Server().lock(1, 10, 11)
        server.traffic.bytes(3, 20, None, cancel_request(1002, secret), b"")
        return server.fail(2, 12, 22, CANCELED, "canceling statement due to user request").state

    assert (cancelled(5), cancelled(6)) == ("possible", "impossible")


def test_lock_is_free_once_its_session_has_disconnected() -> None:
    server = Server().lock(1, 10, 11)
    server.traffic.add("end", 20, connection=1, by="client")
    assert server.try_lock(2, 25, 26, granted=True).state == "possible"
    assert Server().lock(1, 10, 11).try_lock(2, 25, 26, granted=True).state == "impossible"


def test_lock_is_free_after_a_kill() -> None:
    server = Server().lock(1, 10, 11)
    server.traffic.add("kill", 20, 21).add("start", 30, 31, how="kept")
    assert server.open(3, 40).try_lock(3, 42, 43, granted=True).state == "possible"


def test_request_without_a_reply_was_executed_or_not() -> None:
    for granted in (True, False):
        assert Server().lock(1, 10, None).try_lock(2, 12, 13, granted=granted).state == "possible"


def test_reply_about_tables_is_never_impossible() -> None:
    server = Server().ask(1, 10, 11, "CREATE TABLE t (name TEXT)", protocol.complete("CREATE TABLE"))
    found = server.ask(1, 12, 13, "INSERT INTO t (name) VALUES ('a')", protocol.complete("INSERT 0 7")).check()
    assert (found.state, found.difference is not None) == ("unknown", True)
    assert "statements on tables" in found.why


def test_values_about_the_process_are_not_compared() -> None:
    columns = protocol.row_description([Field("version", TEXT)], [0])
    row = protocol.data_row([b"PostgreSQL 99"])
    server = Server().ask(1, 10, 11, "SELECT version()", columns, row, protocol.complete("SELECT 1"))
    assert server.state == "possible"


def test_traffic_is_checked_until_a_session_may_end_by_itself() -> None:
    server = Server().lock(1, 10, 11).ask(2, 12, 13, "SET statement_timeout = '1s'", protocol.complete("SET"))
    found = server.try_lock(2, 14, 15, granted=True).check()
    assert (found.state, found.requests) == ("possible", 3)
    assert "a session may end by itself" in found.why
    assert server.check(idle_session_timeout=1.0).state == "unknown"


def test_traffic_is_checked_until_locks_are_released_by_way_of_the_catalogue() -> None:
    text = "SELECT pg_advisory_unlock(objid::bigint) FROM pg_locks"
    found = Server().lock(1, 10, 11).ask(1, 12, 13, text, protocol.complete("SELECT 0")).check()
    assert (found.state, found.requests) == ("possible", 3)
    assert "no table of locks" in found.why


@pytest.mark.parametrize(
    ("kind", "why"), [("postgres-pgbouncer", "PgBouncer"), ("postgres-replicated", "a primary with standbys")]
)
def test_kind_of_cluster_that_is_not_checked(kind: str, why: str) -> None:
    recording = msgspec.structs.replace(Server().traffic.recording(), kind=kind)
    assert why in check_recording(recording, {}).why


def test_connection_that_was_refused_is_left_out() -> None:
    server = Server().lock(1, 10, 11)
    refusal = protocol.error(PgError("57P03", "the database system is starting up", fatal=True))
    server.traffic.bytes(3, 12, 13, startup(), refusal)
    assert (server.state, server.check().requests) == ("possible", 3)


# Mistakes in the simulated server are found in the traffic of a real one.


def _unlock_fails(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LockManager, "release", lambda self, holder, tag, mode, scope: False)


def _transactions_keep_their_locks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LockManager, "release_scope", lambda self, holder, scope, kind="": None)


def _sessions_keep_their_locks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PgSession, "drop", lambda self: None)


@pytest.mark.parametrize(
    ("mistake", "name"),
    [
        (_unlock_fails, "postgres-advisory-kill"),
        (_transactions_keep_their_locks, "postgres-advisory-server-pause"),
    ],
)
def test_mistake_in_the_simulated_server_is_found(
    monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None], name: str
) -> None:
    mistake(monkeypatch)
    assert check_recording(recorded(name), {}).state == "impossible"


def test_simulated_server_that_keeps_locks_of_ended_sessions_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PgSession, "drop", lambda self: None)
    server = Server().lock(1, 10, 11)
    server.traffic.add("end", 20, connection=1, by="client")
    assert server.try_lock(2, 25, 26, granted=True).state == "impossible"


def test_simulated_server_that_keeps_locks_in_a_kill_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PostgresServer, "stop", lambda self: self.forget_sessions())
    server = Server().lock(1, 10, 11)
    server.traffic.add("kill", 20, 21).add("start", 30, 31, how="kept")
    assert server.open(3, 40).try_lock(3, 42, 43, granted=True).state == "impossible"
