"""The unmodified PyMySQL on the simulated MariaDB: connections, results, errors, time functions, named locks."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pymysql
import pytest
from pymysql.cursors import DictCursor

from harness.clusters.sim.services.mysql import commands
from harness.fidelity.mysql.connections import LOST, StatementThread, connect_to, execute
from harness.sim.hosts import EPOCH
from harness.sim.kernel import SECOND
from tests.sim.mysql_bench import MysqlBench

TABLE = (
    "CREATE TABLE locks (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(8) NOT NULL UNIQUE,"
    " owner VARCHAR(8) DEFAULT 'nobody', at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3))"
)


def on(main: Callable[[MysqlBench], Any], **options: Any) -> Any:
    """Call ``main`` on a client host of a new bench and return its result."""
    bench = MysqlBench(**options)
    (found,) = bench.run(lambda: main(bench))
    return found


def error_number(call: Callable[[], Any]) -> int:
    """Return the number of the error that a call raises."""
    with pytest.raises(pymysql.MySQLError) as raised:
        call()
    return int(raised.value.args[0])


def connection_number(connection: Any) -> int:
    return int(connection.thread_id())


def test_results_have_the_types_and_names_of_the_statement() -> None:
    def main(bench: MysqlBench) -> Any:
        connection = bench.connect(cursorclass=DictCursor)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1, 'it''s', 1.50 AS price, NULL, COUNT( * ), %s", ("a\\'b\n",))
            return cursor.fetchall()

    assert on(main) == [
        {"1": 1, "it's": "it's", "price": Decimal("1.50"), "NULL": None, "COUNT( * )": 1, "a\\'b\n": "a\\'b\n"}
    ]


def test_affected_rows_and_insert_ids() -> None:
    def main(bench: MysqlBench) -> list[Any]:
        connection = bench.connect()
        return [
            execute(connection, statement)
            for statement in (
                TABLE,
                "INSERT INTO locks (name) VALUES ('a'), ('b')",
                "INSERT INTO locks (name) VALUES ('A')",
                "INSERT INTO locks (name) VALUES ('a') ON DUPLICATE KEY UPDATE owner = 'me', id = LAST_INSERT_ID(id)",
                "INSERT IGNORE INTO locks (name) VALUES ('b')",
                "UPDATE locks SET owner = 'me'",
                "SELECT id, owner FROM locks ORDER BY name DESC LIMIT 1",
                "DELETE FROM locks WHERE owner = 'me'",
            )
        ]

    assert on(main) == [
        ("ok", 0, 0), ("ok", 2, 1), ("error", 1062, "Duplicate entry 'A' for key 'name'"), ("ok", 2, 1), ("ok", 0, 0),
        ("ok", 1, 0), ("rows", ((2, "me"),)), ("ok", 2, 0),
    ]  # fmt: skip


def test_connection_reports_its_state() -> None:
    def main(bench: MysqlBench) -> list[Any]:
        connection: Any = bench.connect()
        seen = [connection.get_autocommit(), connection.get_server_info()]
        connection.autocommit(True)
        seen.append(connection.get_autocommit())
        connection.begin()
        seen.append(connection.server_status & 1)
        execute(connection, TABLE)
        connection.rollback()
        connection.select_db("harness")
        connection.ping(reconnect=False)
        seen.append(connection.server_status & 1)
        return [*seen, connection_number(connection)]

    assert on(main) == [False, "5.5.5-10.11.6-MariaDB", True, 1, 0, 1]


def test_wrong_logins_are_refused() -> None:
    def refused(user: str, password: str, database: str) -> int:
        login = {"user": user, "password": password, "database": database}
        return error_number(lambda: pymysql.connect(host="db1", ssl_disabled=True, **login))  # type: ignore[call-overload]

    def main(bench: MysqlBench) -> list[int]:
        wrong = refused("harness", "wrong", "harness"), refused("harness", "", "harness")
        return [*wrong, refused("root", "harness", "harness"), refused("harness", "harness", "other")]

    assert on(main) == [1045, 1045, 1045, 1049]


def test_errors_without_a_server_and_after_a_kill() -> None:
    def main(bench: MysqlBench) -> list[int]:
        connection = bench.connect()
        bench.host.kill()
        seen = [error_number(bench.connect), error_number(lambda: connection.ping(reconnect=False))]
        bench.host.start(wiped=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            connection.ping(reconnect=True)
        return [*seen, connection_number(connection)]

    assert on(main) == [2003, 2006, 1]


def test_committed_rows_survive_a_kill() -> None:
    def main(bench: MysqlBench) -> list[Any]:
        first, second = bench.connect(autocommit=True), bench.connect()
        execute(first, TABLE)
        execute(first, "INSERT INTO locks (name) VALUES ('a')")
        execute(second, "INSERT INTO locks (name) VALUES ('b')")
        execute(second, "SELECT GET_LOCK('x', 0)")
        seen = []
        for wiped in (False, True):
            bench.host.kill()
            bench.host.start(wiped=wiped)
            again = bench.connect()
            seen += [execute(again, "SELECT name FROM locks"), execute(again, "SELECT IS_FREE_LOCK('x')")]
        return seen

    free = ("rows", ((1,),))
    assert on(main) == [("rows", (("a",),)), free, ("error", 1146, ""), free]


def test_time_functions_use_the_servers_clock() -> None:
    def main(bench: MysqlBench) -> list[Any]:
        connection = bench.connect(autocommit=True)
        execute(connection, TABLE)
        bench.host.set_clock(3600 * SECOND)
        execute(connection, "INSERT INTO locks (name) VALUES ('a')")
        bench.host.set_clock(3600 * SECOND + 121 * SECOND)
        expiry = "DELETE FROM locks WHERE at < ADDTIME(NOW(), '-00:02:00')"
        seen = [execute(connection, "SELECT at, UNIX_TIMESTAMP() FROM locks"), execute(connection, expiry)]
        began = time.monotonic()
        execute(connection, "SELECT SLEEP(1.5)")
        return [*seen, round(time.monotonic() - began, 1)]

    (_, ((at, seconds),)), deleted, slept = on(main)
    assert at.replace(microsecond=0) == datetime(2026, 1, 1, 1)
    assert seconds == EPOCH // SECOND + 3721
    assert (deleted, slept) == (("ok", 1, 0), 1.5)


def test_idle_connection_is_closed() -> None:
    def main(bench: MysqlBench) -> int:
        connection = bench.connect()
        time.sleep(4)
        execute(connection, "SELECT 1")
        time.sleep(6)
        return error_number(lambda: connection.ping(reconnect=False))

    assert on(main, wait_timeout=5) in (2006, 2013)


def test_named_lock_belongs_to_the_session() -> None:
    def main(bench: MysqlBench) -> list[Any]:
        first, second = bench.connect(), StatementThread(bench.connect)
        execute(first, "SELECT GET_LOCK('x', 0)")
        execute(first, "SELECT GET_LOCK('x', 0)")
        seen: list[Any] = [execute(first, "SELECT IS_USED_LOCK('x'), RELEASE_LOCK('x'), RELEASE_LOCK('none')")]
        execute(first, "COMMIT")
        second.begin("SELECT GET_LOCK('x', 1), RELEASE_LOCK('x')")
        seen.append(second.answer(5))
        second.begin("SELECT GET_LOCK('x', 100)")
        seen.append(second.answer(5))
        execute(bench.connect(), f"KILL {connection_number(first)}")
        return [*seen, second.answer(5)]

    assert on(main) == [("rows", ((1, 1, None),)), ("rows", ((0, 0),)), None, ("rows", ((1,),))]


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ("SELECT GET_LOCK('Order-7', 0)", 0),
        ("SELECT GET_LOCK('order-7', 0)", 1),
        ("SELECT GET_LOCK('Order-7 ', 0)", 1),
        ("SELECT GET_LOCK('Örder-7', 0)", 1),
        ("SELECT IS_FREE_LOCK('ORDER-7')", 1),
        ("SELECT RELEASE_LOCK('order-7')", None),
        ("SELECT RELEASE_LOCK('Order-7')", 0),
        ("SELECT IS_USED_LOCK('')", None),
        ("SELECT IS_FREE_LOCK('')", None),
        ("SELECT GET_LOCK('', 0)", None),
        ("SELECT GET_LOCK(NULL, 0)", None),
        ("SELECT GET_LOCK('a', NULL)", None),
        ("SELECT GET_LOCK('a', -1)", None),
        ("SELECT GET_LOCK('a', -0.9)", 1),
        ("SELECT GET_LOCK('Order-7', -0.9)", 0),
        ("SELECT GET_LOCK('Order-7', 0.05)", 0),
        (f"SELECT GET_LOCK('{'n' * 192}', 0)", 1),
        (f"SELECT GET_LOCK('{'n' * 193}', 0)", 1059),
        (f"SELECT GET_LOCK('{'n' * 193}', -1)", None),
        (f"SELECT GET_LOCK('{'ö' * 97}', 0)", 1059),
        (f"SELECT IS_FREE_LOCK('{'n' * 193}')", 1059),
        ("SELECT GET_LOCK(1, 0)", 4079),
        ("SELECT GET_LOCK('b', 0), IS_FREE_LOCK(7)", 4079),
        (f"DO GET_LOCK('{'n' * 193}', 0)", 0),
        ("DO GET_LOCK(1.5, 0)", 4079),
        ("SELECT RELEASE_LOCK(1.5)", 4079),
        ("SELECT GET_LOCK('a')", 1582),
        ("SELECT RELEASE_LOCK('b') IS NULL AND GET_LOCK('b', 0) = 1", 1),
        ("SET @held = GET_LOCK('c', 0)", 0),
    ],
)
def test_name_and_timeout_of_named_lock(statement: str, answer: int | None) -> None:
    """The answers are those of MariaDB 10.11."""

    def main(bench: MysqlBench) -> Any:
        holder = bench.connect()
        execute(holder, "SELECT GET_LOCK('Order-7', 0)")
        return execute(bench.connect(), statement)

    kind, value, *_ = on(main)
    assert (value[0][0] if kind == "rows" else value) == answer


def test_victim_of_a_deadlock_of_named_locks_is_the_one_that_was_it_least_often() -> None:
    def main(bench: MysqlBench) -> list[Any]:
        first, second = StatementThread(bench.connect), StatementThread(bench.connect)
        seen: list[Any] = []
        for _ in range(3):
            for thread, name in ((first, "a"), (second, "b")):
                thread.begin(f"SELECT GET_LOCK('{name}', 0)")
                thread.answer(5)
            first.begin("SELECT GET_LOCK('b', 2)")
            assert first.answer(1) is None
            second.begin("SELECT GET_LOCK('a', 3)")
            seen.append((first.answer(5), second.answer(5)))
            for thread in (first, second):
                thread.begin("SELECT RELEASE_ALL_LOCKS()")
                thread.answer(5)
        return seen

    deadlock, timeout = ("error", 1213, ""), ("rows", ((0,),))
    assert on(main) == [(timeout, deadlock), (deadlock, timeout), (timeout, deadlock)]


def test_killed_connection_rolls_back() -> None:
    def main(bench: MysqlBench) -> list[Any]:
        owner, other, admin = bench.connect(), StatementThread(bench.connect), bench.connect()
        execute(owner, TABLE)
        execute(owner, "INSERT INTO locks (name) VALUES ('a')")
        other.begin("INSERT INTO locks (name) VALUES ('a')")
        seen: list[Any] = [other.answer(1), execute(admin, f"KILL {connection_number(owner)}"), other.answer(1)]
        return [
            *seen,
            execute(owner, "SELECT 1"),
            execute(admin, "KILL 999")[1],
            execute(admin, "KILL QUERY 999")[1],
        ]

    assert on(main) == [None, ("ok", 0, 0), ("ok", 1, 2), LOST, 1094, 1094]


def test_lost_client_is_noticed_after_its_statement() -> None:
    """As on a real server, a thread that waits for a row lock does not check whether its client is connected."""

    def main(bench: MysqlBench) -> list[Any]:
        owner, lost, look = bench.connect(), StatementThread(lambda: bench.connect(autocommit=True)), bench.connect()
        execute(owner, TABLE)
        execute(owner, "INSERT INTO locks (name) VALUES ('a')")
        lost.begin("INSERT INTO locks (name, owner) VALUES ('a', 'lost')")
        assert lost.answer(1) is None
        bench.world.a.break_streams({"db1"})
        time.sleep(1)
        again = bench.connect(autocommit=True)
        del owner, look
        return [execute(again, "SELECT name, owner FROM locks")]

    assert on(main) == [("rows", (("a", "lost"),))]


def test_commands_are_reported_by_their_first_word() -> None:
    def query(text: bytes) -> bytes:
        return (len(text) + 1).to_bytes(3, "little") + b"\0\x03" + text

    assert commands(query(b"  insert into t values (1)")) == ["INSERT"]
    assert commands(query(b"COMMIT")) == ["COMMIT"]
    assert commands(b"\x01\0\0\0\x0e") == []
    reported: list[tuple[str, str]] = []

    def main(bench: MysqlBench) -> None:
        bench.server.on_command = lambda peer, word: reported.append((peer, word))
        connection = connect_to("db1")
        execute(connection, "select 1")
        connection.commit()

    on(main)
    assert reported == [("a", "SET"), ("a", "SET"), ("a", "SELECT"), ("a", "COMMIT")]


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("SELEC 1", 1064), ("SELECT * FROM nope", 1146), ("SELECT nope", 1054), ("SELECT NOPE(1)", 1305),
        ("SELECT @@nope", 1193), ("SET autocommit = 7", 1231), ("INSERT INTO locks (name) VALUES (NULL)", 1048),
        ("INSERT INTO locks (id) VALUES (1)", 1364), ("INSERT INTO locks (name) VALUES ('123456789')", 1406),
        ("INSERT INTO locks (name, at) VALUES ('a', 'soon')", 1292), ("INSERT INTO locks VALUES (1)", 1136),
        ("INSERT INTO locks (id, name) VALUES ('x', 'a')", 1366), ("CREATE TABLE locks (a INT)", 1050),
        ("DROP TABLE nope", 1051), ("UPDATE locks SET id = 9223372036854775807 + 1", 1690), ("USE nope", 1049),
    ],
)  # fmt: skip
def test_errors_have_mariadbs_numbers(statement: str, number: int) -> None:
    def main(bench: MysqlBench) -> Any:
        connection = bench.connect()
        execute(connection, TABLE)
        execute(connection, "INSERT INTO locks (name) VALUES ('q')")
        return execute(connection, statement)[:2]

    assert on(main) == ("error", number)


@pytest.mark.parametrize(
    ("statement", "lacking"),
    [
        (
            "SELECT CASE WHEN IS_USED_LOCK('k') = CONNECTION_ID() THEN 1 ELSE 0 END",
            "CASE WHEN IS_USED_LOCK('?0') = CONNECTION_ID() THEN 1 ELSE 0 END in MariaDB's SQL",
        ),
        ("SELECT MD5('a')", "the SQL function MD5"),
        ("SELECT RELEASE_LOCK('a') WHERE 0", "WHERE without FROM in MariaDB's SQL"),
        ("SELECT * FROM information_schema.innodb_trx", "the table information_schema.innodb_trx in MariaDB's SQL"),
        ("SELECT @@innodb_flush_method", "the system variable innodb_flush_method"),
        ("SELECT * FROM nope", None),
        ("SELEC 1", None),
    ],
)
def test_a_statement_that_only_the_real_server_has_is_noted(statement: str, lacking: str | None) -> None:
    def main(bench: MysqlBench) -> Any:
        assert execute(bench.connect(), statement)[0] == "error"
        return bench.world.kernel.unsupported

    assert on(main) == ({lacking: "a"} if lacking else {})
