"""Real PyMySQL, unmodified, on the simulated MariaDB: connections, results, errors, the clock, named locks."""

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

from harness.clusters.sim_mysql import commands
from harness.sim.hosts import EPOCH
from harness.sim.kernel import SECOND
from tests.sim.mysql_play import Bench, Player, ask, connect_to

TABLE = (
    "CREATE TABLE locks (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(8) NOT NULL UNIQUE,"
    " owner VARCHAR(8) DEFAULT 'nobody', at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3))"
)


def on(main: Callable[[Bench], Any], **options: Any) -> Any:
    """What ``main`` returns on a client's host of a new bench."""
    bench = Bench(**options)
    (found,) = bench.run(lambda: main(bench))
    return found


def number_of(call: Callable[[], Any]) -> int:
    """The number of the error that a call raises."""
    with pytest.raises(pymysql.MySQLError) as raised:
        call()
    return int(raised.value.args[0])


def number_of_session(connection: Any) -> int:
    return int(connection.thread_id())


def test_results_have_the_types_and_names_of_the_statement() -> None:
    def main(bench: Bench) -> Any:
        connection = bench.connect(cursorclass=DictCursor)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1, 'it''s', 1.50 AS price, NULL, COUNT( * ), %s", ("a\\'b\n",))
            return cursor.fetchall()

    assert on(main) == [
        {"1": 1, "it's": "it's", "price": Decimal("1.50"), "NULL": None, "COUNT( * )": 1, "a\\'b\n": "a\\'b\n"}
    ]


def test_rows_affected_and_ids() -> None:
    def main(bench: Bench) -> list[Any]:
        connection = bench.connect()
        return [
            ask(connection, statement)
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


def test_a_connection_tells_its_state() -> None:
    def main(bench: Bench) -> list[Any]:
        connection: Any = bench.connect()
        seen = [connection.get_autocommit(), connection.get_server_info()]
        connection.autocommit(True)
        seen.append(connection.get_autocommit())
        connection.begin()
        seen.append(connection.server_status & 1)
        ask(connection, TABLE)
        connection.rollback()
        connection.select_db("harness")
        connection.ping(reconnect=False)
        seen.append(connection.server_status & 1)
        return [*seen, number_of_session(connection)]

    assert on(main) == [False, "5.5.5-10.11.6-MariaDB", True, 1, 0, 1]


def test_who_may_not_come_in() -> None:
    def refused(user: str, password: str, database: str) -> int:
        login = {"user": user, "password": password, "database": database}
        return number_of(lambda: pymysql.connect(host="db1", ssl_disabled=True, **login))  # type: ignore[call-overload]

    def main(bench: Bench) -> list[int]:
        wrong = refused("harness", "wrong", "harness"), refused("harness", "", "harness")
        return [*wrong, refused("root", "harness", "harness"), refused("harness", "harness", "other")]

    assert on(main) == [1045, 1045, 1045, 1049]


def test_no_server_and_a_killed_one() -> None:
    def main(bench: Bench) -> list[int]:
        connection = bench.connect()
        bench.host.kill()
        seen = [number_of(bench.connect), number_of(lambda: connection.ping(reconnect=False))]
        bench.host.start(wiped=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            connection.ping(reconnect=True)
        return [*seen, number_of_session(connection)]

    assert on(main) == [2003, 2006, 1]


def test_what_was_committed_stays_over_a_kill() -> None:
    def main(bench: Bench) -> list[Any]:
        first, second = bench.connect(autocommit=True), bench.connect()
        ask(first, TABLE)
        ask(first, "INSERT INTO locks (name) VALUES ('a')")
        ask(second, "INSERT INTO locks (name) VALUES ('b')")
        ask(second, "SELECT GET_LOCK('x', 0)")
        seen = []
        for wiped in (False, True):
            bench.host.kill()
            bench.host.start(wiped=wiped)
            again = bench.connect()
            seen += [ask(again, "SELECT name FROM locks"), ask(again, "SELECT IS_FREE_LOCK('x')")]
        return seen

    free = ("rows", ((1,),))
    assert on(main) == [("rows", (("a",),)), free, ("error", 1146, ""), free]


def test_the_clock_is_the_servers() -> None:
    def main(bench: Bench) -> list[Any]:
        connection = bench.connect(autocommit=True)
        ask(connection, TABLE)
        bench.host.set_clock(3600 * SECOND)
        ask(connection, "INSERT INTO locks (name) VALUES ('a')")
        bench.host.set_clock(3600 * SECOND + 121 * SECOND)
        expiry = "DELETE FROM locks WHERE at < ADDTIME(NOW(), '-00:02:00')"
        seen = [ask(connection, "SELECT at, UNIX_TIMESTAMP() FROM locks"), ask(connection, expiry)]
        began = time.monotonic()
        ask(connection, "SELECT SLEEP(1.5)")
        return [*seen, round(time.monotonic() - began, 1)]

    (_, ((at, seconds),)), deleted, slept = on(main)
    assert at.replace(microsecond=0) == datetime(2026, 1, 1, 1)
    assert seconds == EPOCH // SECOND + 3721
    assert (deleted, slept) == (("ok", 1, 0), 1.5)


def test_an_idle_connection_is_closed() -> None:
    def main(bench: Bench) -> int:
        connection = bench.connect()
        time.sleep(4)
        ask(connection, "SELECT 1")
        time.sleep(6)
        return number_of(lambda: connection.ping(reconnect=False))

    assert on(main, wait_timeout=5) in (2006, 2013)


def test_a_named_lock_is_the_sessions() -> None:
    def main(bench: Bench) -> list[Any]:
        first, second = bench.connect(), Player(bench.connect)
        ask(first, "SELECT GET_LOCK('x', 0)")
        ask(first, "SELECT GET_LOCK('X', 0)")
        seen: list[Any] = [ask(first, "SELECT IS_USED_LOCK('x'), RELEASE_LOCK('x'), RELEASE_LOCK('none')")]
        ask(first, "COMMIT")
        second.begin("SELECT GET_LOCK('x', 1), RELEASE_LOCK('x')")
        seen.append(second.answer(5))
        second.begin("SELECT GET_LOCK('x', 100)")
        seen.append(second.answer(5))
        ask(bench.connect(), f"KILL {number_of_session(first)}")
        return [*seen, second.answer(5)]

    assert on(main) == [("rows", ((1, 1, None),)), ("rows", ((0, 0),)), None, ("rows", ((1,),))]


def test_a_killed_connection_loses_its_transaction() -> None:
    def main(bench: Bench) -> list[Any]:
        owner, other, admin = bench.connect(), Player(bench.connect), bench.connect()
        ask(owner, TABLE)
        ask(owner, "INSERT INTO locks (name) VALUES ('a')")
        other.begin("INSERT INTO locks (name) VALUES ('a')")
        seen: list[Any] = [other.answer(1), ask(admin, f"KILL {number_of_session(owner)}"), other.answer(1)]
        return [*seen, ask(owner, "SELECT 1")[1], ask(admin, "KILL 999")[1], ask(admin, "KILL QUERY 999")[1]]

    assert on(main) == [None, ("ok", 0, 0), ("ok", 1, 2), 2013, 1094, 1094]


def test_a_lost_client_is_noticed_when_its_statement_is_over() -> None:
    """As with the real server: a thread that waits for a row does not look whether its client is there."""

    def main(bench: Bench) -> list[Any]:
        owner, lost, look = bench.connect(), Player(lambda: bench.connect(autocommit=True)), bench.connect()
        ask(owner, TABLE)
        ask(owner, "INSERT INTO locks (name) VALUES ('a')")
        lost.begin("INSERT INTO locks (name, owner) VALUES ('a', 'lost')")
        assert lost.answer(1) is None
        bench.world.a.break_streams({"db1"})
        time.sleep(1)
        again = bench.connect(autocommit=True)
        del owner, look
        return [ask(again, "SELECT name, owner FROM locks")]

    assert on(main) == [("rows", (("a", "lost"),))]


def test_commands_are_told_by_their_first_word() -> None:
    def query(text: bytes) -> bytes:
        return (len(text) + 1).to_bytes(3, "little") + b"\0\x03" + text

    assert commands(query(b"  insert into t values (1)")) == ["INSERT"]
    assert commands(query(b"COMMIT")) == ["COMMIT"]
    assert commands(b"\x01\0\0\0\x0e") == []
    heard: list[tuple[str, str]] = []

    def main(bench: Bench) -> None:
        bench.server.on_command = lambda peer, word: heard.append((peer, word))
        connection = connect_to("db1")
        ask(connection, "select 1")
        connection.commit()

    on(main)
    assert heard == [("a", "SET"), ("a", "SET"), ("a", "SELECT"), ("a", "COMMIT")]


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
def test_errors_have_the_numbers_of_mariadb(statement: str, number: int) -> None:
    def main(bench: Bench) -> Any:
        connection = bench.connect()
        ask(connection, TABLE)
        ask(connection, "INSERT INTO locks (name) VALUES ('q')")
        return ask(connection, statement)[:2]

    assert on(main) == ("error", number)
