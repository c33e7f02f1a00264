"""Recorded traffic of a MySQL: what the simulated server can explain, and what it cannot."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from harness.fidelity.trace.check import check_recording
from harness.sim.servers.mysql.errors import DEADLOCK, DUPLICATE, LOCK_WAIT_TIMEOUT
from harness.sim.servers.mysql.named_locks import NamedLocks
from harness.sim.servers.mysql.protocol import AUTOCOMMIT, COM_PING, COM_RESET_CONNECTION, IN_TRANSACTION
from harness.sim.servers.mysql.server import MysqlServer
from harness.sim.servers.mysql.session import SqlSession
from harness.sim.servers.mysql.transactions import Transactions
from tests.fidelity.mysql_traffic import FIRST_ID, Server, command, error, ok, query, rows
from tests.fidelity.traffic import WALL_NS, recorded, runs_of

IN = AUTOCOMMIT | IN_TRANSACTION
PREPARE = 0x16


@pytest.mark.parametrize("name", runs_of("mysql"))
def test_traffic_of_a_real_server_is_possible(name: str) -> None:
    found = check_recording(recorded(name), {})
    assert (found.state, found.why, found.difference) == ("possible", "", None)
    assert found.requests > 100


# Named locks.


def test_session_that_waits_gets_the_lock_when_it_is_released() -> None:
    assert Server().lock(1, 10, 11).lock(2, 12, 21).unlock(1, 20, 22).state == "possible"
    assert Server().lock(1, 10, 11).lock(2, 12, 15).unlock(1, 20, 22).state == "impossible"


@pytest.mark.parametrize("granted", [False, True])
def test_lock_that_is_held_is_refused_and_one_that_is_free_is_granted(granted: bool) -> None:
    def tried(*, released: bool) -> str:
        server = Server().lock(1, 10, 11)
        if released:
            server.unlock(1, 12, 13)
        return server.try_lock(2, 14, 15, granted=granted).state

    assert tried(released=granted) == "possible"
    assert tried(released=not granted) == "impossible"


def test_concurrent_requests_have_one_winner_in_either_order() -> None:
    def both(first: bool, second: bool) -> str:
        return Server().try_lock(1, 10, 13, granted=first).try_lock(2, 11, 12, granted=second).state

    assert both(first=True, second=False) == both(first=False, second=True) == "possible"
    assert both(first=True, second=True) == both(first=False, second=False) == "impossible"


@pytest.mark.parametrize(("ended_ms", "expected"), [(80, "impossible"), (112, "possible"), (500, "possible")])
def test_wait_ends_after_its_timeout_at_the_earliest(ended_ms: float, expected: str) -> None:
    assert Server().lock(1, 5, 6).lock(2, 10, ended_ms, 0, wait_s=0.1).state == expected


@pytest.mark.parametrize(
    ("call", "right", "wrong"),
    [
        ("IS_FREE_LOCK('k')", 0, 1),
        ("IS_FREE_LOCK('other')", 1, 0),
        ("IS_USED_LOCK('k')", FIRST_ID + 1, FIRST_ID + 2),
        ("IS_USED_LOCK('other')", None, FIRST_ID + 1),
        ("IS_USED_LOCK('k') = CONNECTION_ID()", 0, 1),
        ("RELEASE_LOCK('k')", 0, 1),
        ("RELEASE_LOCK('other')", None, 0),
        ("RELEASE_ALL_LOCKS()", 0, 1),
        ("CONNECTION_ID()", FIRST_ID + 2, FIRST_ID + 1),
    ],
)
def test_functions_say_who_holds_a_lock(call: str, right: object, wrong: object) -> None:
    assert Server().lock(1, 10, 11).value(2, 12, 13, call, right).state == "possible"
    assert Server().lock(1, 10, 11).value(2, 12, 13, call, wrong).state == "impossible"


def test_deadlock_of_named_locks_has_a_victim() -> None:
    def second(reply: bytes) -> str:
        other = "GET_LOCK('other', 9)"
        server = Server().lock(1, 10, 11).value(2, 12, 13, other, 1).value(1, 14, None, other, 1)
        return server.ask(2, 16, 20, "SELECT GET_LOCK('k', 9)", reply).state

    assert (second(error(DEADLOCK)), second(rows(1))) == ("possible", "impossible")


def test_lock_is_free_once_its_session_has_disconnected() -> None:
    assert Server().lock(1, 10, 11).hang_up(1, 20).try_lock(2, 25, 26, granted=True).state == "possible"
    assert Server().lock(1, 10, 11).hang_up(1, 20).try_lock(2, 25, 26, granted=False).state == "possible"
    assert Server().lock(1, 10, 11).try_lock(2, 25, 26, granted=True).state == "impossible"


@pytest.mark.parametrize("granted", [False, True])
def test_lock_granted_to_a_client_that_has_gone_is_free_a_moment_later(granted: bool) -> None:
    server = Server().lock(1, 10, 11).lock(2, 12, None).hang_up(2, 13).unlock(1, 20, 21)
    assert server.try_lock(1, 30, 31, granted=granted).state == "possible"


def test_wait_of_a_client_that_has_gone_may_end_before_the_lock_is_free() -> None:
    server = Server().open(3, 3).lock(1, 10, 11).lock(2, 12, None).lock(3, 14, 31).hang_up(2, 20)
    assert server.unlock(1, 30, 32).state == "possible"


def test_killed_session_loses_its_lock() -> None:
    def tried(target: int) -> str:
        server = Server().open(3, 3).lock(1, 10, 11).ask(2, 12, 13, f"KILL {FIRST_ID + target}")
        return server.hang_up(target, 14, by="server").try_lock(2, 15, 16, granted=True).state

    assert (tried(1), tried(3)) == ("possible", "impossible")


def test_killed_statement_ends_its_wait() -> None:
    def waited(*statements: str) -> str:
        server = Server().open(3, 3).lock(1, 10, 11)
        for statement in statements:
            server.ask(3, 20, 21, statement)
        return server.lock(2, 12, 22, None).state

    assert (waited(f"KILL QUERY {FIRST_ID + 2}"), waited()) == ("possible", "impossible")


@pytest.mark.parametrize(("ended_ms", "expected"), [(500, "impossible"), (1_100, "possible")])
def test_session_ends_after_wait_timeout_at_the_earliest(ended_ms: float, expected: str) -> None:
    server = Server().lock(1, 10, 11).hang_up(1, ended_ms, by="server")
    assert server.try_lock(2, ended_ms + 1, ended_ms + 2, granted=True).check(wait_timeout=1.0).state == expected


def test_lock_is_free_after_a_kill_of_the_server() -> None:
    server = Server().lock(1, 10, 11).restart(20, 30)
    assert server.open(3, 40).try_lock(3, 42, 43, granted=True).state == "possible"


def test_request_without_a_reply_was_executed_or_not() -> None:
    for granted in (True, False):
        assert Server().lock(1, 10, None).try_lock(2, 12, 13, granted=granted).state == "possible"


def test_reset_connection_releases_its_locks() -> None:
    def tried(code: int) -> str:
        server = Server().lock(1, 10, 11)
        server.traffic.bytes(1, 12, 13, command(code), ok())
        return server.try_lock(2, 14, 15, granted=True).state

    assert (tried(COM_RESET_CONNECTION), tried(COM_PING)) == ("possible", "impossible")


def test_reply_in_the_form_without_ends_of_descriptions_is_read() -> None:
    deprecate_eof = 1 << 24
    packets = [b"\x01", b"\x03def", b"\x010", b"\xfe\0\0\x02\0\0\0"]
    reply = b"".join(len(one).to_bytes(3, "little") + bytes([at]) + one for at, one in enumerate(packets, 1))
    server = Server().lock(1, 10, 11).open(3, 12, flags=deprecate_eof)
    assert server.ask(3, 13, 14, "SELECT GET_LOCK('k', 0)", reply).state == "possible"
    assert server.ask(3, 15, 16, "SELECT IS_USED_LOCK('k')", reply).state == "impossible"


# Tables. A reply that is not explained is unknown, since statements may meet in the middle.


def test_reply_about_tables_is_never_impossible() -> None:
    found = Server().table().ask(2, 12, 13, "INSERT INTO t (k, n) VALUES (2, 0)", ok(7)).check()
    assert (found.state, found.difference is not None) == ("unknown", True)
    assert "statements on tables" in found.why


def test_row_that_is_locked_is_waited_for() -> None:
    def read(replied: float) -> str:
        server = Server().table().ask(1, 10, 11, "BEGIN", ok(status=IN))
        server.ask(1, 12, 13, "SELECT n FROM t WHERE k = 1 FOR UPDATE", rows(0, status=IN))
        server.ask(2, 14, replied, "SELECT n FROM t WHERE k = 1 FOR UPDATE", rows(0))
        return server.ask(1, 20, 22, "COMMIT").state

    assert (read(21), read(16)) == ("possible", "unknown")


@pytest.mark.parametrize(("clause", "reply"), [("NOWAIT", error(LOCK_WAIT_TIMEOUT)), ("SKIP LOCKED", rows())])
def test_locked_row_is_refused_or_skipped(clause: str, reply: bytes) -> None:
    def read(second: bytes) -> str:
        server = Server().table().ask(1, 10, 11, "BEGIN", ok(status=IN))
        server.ask(1, 12, 13, "SELECT n FROM t WHERE k = 1 FOR UPDATE", rows(0, status=IN))
        return server.ask(2, 14, 15, f"SELECT n FROM t WHERE k = 1 FOR UPDATE {clause}", second).state

    assert (read(reply), read(rows(0))) == ("possible", "unknown")


def test_unique_row_is_inserted_once() -> None:
    def both(second: bytes) -> str:
        server = Server().table().ask(1, 10, 14, "INSERT INTO t (k, n) VALUES (2, 0)", error(DUPLICATE, 2, "PRIMARY"))
        return server.ask(2, 12, 13, "INSERT INTO t (k, n) VALUES (2, 1)", second).state

    assert (both(ok(1)), both(error(DUPLICATE, 2, "PRIMARY"))) == ("possible", "unknown")


@pytest.mark.parametrize(("arrived_ms", "expected"), [(11, "possible"), (15, "unknown")])
def test_number_may_be_taken_before_another_session_inserts_its_row(arrived_ms: float, expected: str) -> None:
    """The first INSERT takes number 1, and finds the row that the second one inserts with number 2."""
    server = Server().ask(1, 3, 4, "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(9) UNIQUE)")
    server.ask(1, 10, 14, "INSERT INTO a (name) VALUES ('x')", error(DUPLICATE, "x", "name"))
    assert server.ask(2, arrived_ms, 16, "INSERT INTO a (name) VALUES ('x')", ok(1, 2)).state == expected


@pytest.mark.parametrize(("ended_ms", "expected"), [(800, "unknown"), (1_020, "possible")])
def test_wait_for_a_row_ends_after_its_timeout_at_the_earliest(ended_ms: float, expected: str) -> None:
    server = Server().table().ask(1, 10, 11, "BEGIN", ok(status=IN))
    server.ask(1, 12, 13, "UPDATE t SET n = 1 WHERE k = 1", ok(1, status=IN))
    server.ask(2, 14, ended_ms, "UPDATE t SET n = 2 WHERE k = 1", error(LOCK_WAIT_TIMEOUT))
    assert server.check(lock_wait_timeout=1.0).state == expected


def test_deadlock_of_rows_has_a_victim() -> None:
    def second(reply: bytes) -> str:
        server = Server().table().ask(1, 7, 8, "INSERT INTO t (k, n) VALUES (2, 0)", ok(1))
        for connection in (1, 2):
            server.ask(connection, 8 + 2 * connection, 9 + 2 * connection, "BEGIN", ok(status=IN))
            text = f"UPDATE t SET n = 1 WHERE k = {connection}"
            server.ask(connection, 14 + 2 * connection, 15 + 2 * connection, text, ok(1, status=IN))
        server.ask(1, 30, 35, "UPDATE t SET n = 2 WHERE k = 2", ok(1, status=IN))
        return server.ask(2, 32, 34, "UPDATE t SET n = 2 WHERE k = 1", reply).state

    assert (second(error(DEADLOCK)), second(ok(1, status=IN))) == ("possible", "unknown")


@pytest.mark.parametrize(("how", "reply"), [("kept", rows(0)), ("wiped", error(1146, "harness", "t"))])
def test_rows_outlive_a_restart_with_the_data(how: str, reply: bytes) -> None:
    def read(found: bytes) -> str:
        return Server().table().restart(20, 30, how).open(3, 40).ask(3, 42, 43, "SELECT n FROM t", found).state

    assert read(reply) == "possible"
    assert read(rows(7)) == "unknown"


@pytest.mark.parametrize(("asked_ms", "changed"), [(1_008, 0), (1_012, 0), (1_012, 1), (1_020, 1)])
def test_lease_ends_at_a_moment_within_the_duration_of_the_statements(asked_ms: float, changed: int) -> None:
    server = Server().table()
    server.ask(1, 10, 14, "INSERT INTO t (k, until) VALUES (2, ADDTIME(NOW(6), '00:00:01'))", ok(1))
    take = "UPDATE t SET n = 5 WHERE k = 2 AND until <= NOW(6)"
    assert server.ask(2, asked_ms, asked_ms + 1, take, ok(changed)).state == "possible"


@pytest.mark.parametrize(("asked_ms", "changed"), [(1_000, 1), (1_030, 0)])
def test_lease_ends_at_no_other_moment(asked_ms: float, changed: int) -> None:
    server = Server().table()
    server.ask(1, 10, 14, "INSERT INTO t (k, until) VALUES (2, ADDTIME(NOW(6), '00:00:01'))", ok(1))
    take = "UPDATE t SET n = 5 WHERE k = 2 AND until <= NOW(6)"
    assert server.ask(2, asked_ms, asked_ms + 1, take, ok(changed)).state == "unknown"


# What is not checked.


def test_values_about_the_process_are_not_compared() -> None:
    server = Server().value(1, 10, 11, "VERSION()", "99-MariaDB").value(1, 12, 13, "NOW()", "2030-01-01")
    assert server.state == "possible"
    assert server.ask(1, 14, 15, "SELECT VERSION()", error(1064, "")).state == "impossible"


def test_traffic_is_checked_until_a_statement_is_prepared() -> None:
    server = Server().lock(1, 10, 11)
    server.traffic.bytes(2, 12, 13, command(PREPARE, "SELECT 1"), ok())
    found = server.try_lock(1, 14, 15, granted=False).check()
    assert (found.state, found.requests) == ("possible", 3)
    assert "prepared statements" in found.why


@pytest.mark.parametrize("kind", ["mysql-replicated", "mysql-galera"])
def test_servers_that_replicate_are_not_checked(kind: str) -> None:
    recording = msgspec.structs.replace(Server().lock(1, 10, 11).traffic.recording(), kind=kind)
    found = check_recording(recording, {})
    assert (found.state, "send each other" in found.why) == ("unknown", True)


def test_connections_of_the_harness_are_left_out() -> None:
    server = Server().open(3, 4, user="manager").value(3, 10, 11, "COUNT(*) FROM t", 7)
    assert (server.state, server.check().requests) == ("possible", 2)


def test_data_that_is_no_traffic_of_mysql_is_unknown() -> None:
    server = Server()
    server.traffic.bytes(3, 12, 13, query("SELECT 1"), rows(1))
    assert (server.check().state, "not a request of MySQL" in server.check().why) == ("unknown", True)


def test_statement_that_the_simulated_server_lacks_is_undecided() -> None:
    found = Server().ask(1, 10, 11, "ANALYZE NO_WRITE_TO_BINLOG", rows(1)).lock(1, 12, 13, 0).check()
    assert (found.state, "lacks a statement" in found.why) == ("unknown", True)


# Mistakes in the simulated server are found in the traffic of a real one.


def _unlock_fails(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NamedLocks, "release", lambda self, holder, name: 0)


def _sessions_keep_their_locks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SqlSession, "drop", lambda self: None)


def _commits_are_undone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transactions, "end", Transactions.rollback)


def _rows_outlive_a_wiped_disk(patch: pytest.MonkeyPatch) -> None:
    start = MysqlServer.start
    patch.setattr(MysqlServer, "start", lambda self, host, wiped: start(self, host, wiped=False))


def _time_stands_still(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SqlSession, "wall_ns", lambda self: WALL_NS)


@pytest.mark.parametrize(
    ("mistake", "name", "expected"),
    [
        (_unlock_fails, "mysql-named-kill", "impossible"),
        (_sessions_keep_their_locks, "mysql-named-client-crash", "impossible"),
        (_commits_are_undone, "mysql-for-update-kill", "unknown"),
        (_rows_outlive_a_wiped_disk, "mysql-unique-wiped", "unknown"),
        (_time_stands_still, "mysql-ttl-clock-jump", "unknown"),
    ],
)
def test_mistake_in_the_simulated_server_is_found(
    monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None], name: str, expected: str
) -> None:
    mistake(monkeypatch)
    found = check_recording(recorded(name), {}, most_seconds=5)
    assert (found.state, found.difference is not None) == (expected, True)


# A queue for one row.

FIND = "SELECT k FROM t WHERE k = 1 FOR UPDATE"
QUEUES = [(4, 2, 6, 1, 5, 3), (6, 5, 4, 3, 2, 1), (2, 4, 1, 6, 3, 5), (5, 6, 3, 4, 1, 2), (3, 1, 5, 2, 6, 4)]
"""The queue of six sessions in each of several rounds. They ask for the row in the order of their numbers, less than a
millisecond apart. The waits of the last two sessions time out."""


def _queue_for_row(server: Server, queue: tuple[int, ...], at_ms: float, hold_ms: float = 250) -> None:
    """Let all sessions ask for the row at once. Each holds it in turn; a wait times out after one second."""
    for session in sorted(queue):
        server.ask(session, at_ms + session / 2, at_ms + session / 2 + 0.3, "BEGIN", ok(status=IN))
    for place, session in enumerate(queue):
        asked_ms, granted_ms = at_ms + 5 + session / 8, at_ms + 10 + place * hold_ms
        if granted_ms > asked_ms + 1_000:
            server.ask(session, asked_ms, asked_ms + 1_001, FIND, error(LOCK_WAIT_TIMEOUT))
            server.ask(session, asked_ms + 1_002, asked_ms + 1_003, "ROLLBACK")
        else:
            server.ask(session, asked_ms, granted_ms, FIND, rows(1, status=IN))
            for ping in range(1, 4):
                ping_ms = granted_ms + ping * hold_ms / 4
                server.ask(session, ping_ms, ping_ms + 0.5, "SELECT 1", rows(1, status=IN))
            server.ask(session, granted_ms + hold_ms - 1, granted_ms + hold_ms + 0.2, "COMMIT")


def test_queue_in_another_order_than_that_of_arrival_is_found_without_a_long_search() -> None:
    server = Server().table()
    for session in range(3, 7):
        server.open(session, 5 + session)
    for number, queue in enumerate(QUEUES):
        _queue_for_row(server, queue, 100 + 2_000 * number)
    found = check_recording(server.traffic.recording(), {"lock_wait_timeout": 1.0}, most_seconds=10)
    assert (found.state, found.why) == ("possible", "")
    assert found.steps < 2 * found.requests


@pytest.mark.parametrize(("released_ms", "expected"), [(799, "possible"), (801, "unknown")])
def test_session_in_a_queue_gets_the_row_after_the_commit_of_the_one_before(released_ms: float, expected: str) -> None:
    server = Server().table().open(3, 7)
    for session in (1, 2, 3):
        server.ask(session, 10 + session, 10.5 + session, "BEGIN", ok(status=IN))
    for session, asked_ms, granted_ms in ((1, 20, 21), (2, 22, 400), (3, 21.5, 800)):
        server.ask(session, asked_ms, granted_ms, FIND, rows(1, status=IN))
    server.ask(1, 399, 401, "COMMIT").ask(2, released_ms, released_ms + 3, "COMMIT")
    assert (server.state, server.check().difference is None) == (expected, expected == "possible")
