"""What the scenarios of database locks cannot tell: what several connections of one process are told, statement by
statement. The same code runs on the simulated MariaDB and, with ``-m long``, on a real one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.constants import ER

from tests.clusters.bench import make, on
from tests.clusters.real import servers

AT_ONCE = 0.5
"""Seconds: who waits for a lock waits longer."""


class Talk:
    """A connection, and what its server says."""

    def __init__(self, address: str, *, autocommit: bool = True) -> None:
        self.connection: Connection[Any] = pymysql.connect(
            host=address, user="harness", password="harness", database="harness", autocommit=autocommit
        )

    def ask(self, statement: str) -> Any:
        """The first value of the first row, None if there is none."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            row = cursor.fetchone()
            return row[0] if row else None

    def do(self, *statements: str) -> None:
        for statement in statements:
            self.ask(statement)

    def outcome(self, statement: str) -> int:
        """The number of the error that it gets, 0 if it gets none."""
        try:
            self.do(statement)
        except pymysql.MySQLError as error:
            return int(error.args[0])
        return 0


# The stories. Each is given the server's address.


def fu_missing_row(address: str) -> None:
    """FOR UPDATE of a row that is not there returns at once, to both; then neither can insert it before the other."""
    wanted = "SELECT name FROM missing_row WHERE name = 'm' FOR UPDATE"
    Talk(address).do(
        "DROP TABLE IF EXISTS missing_row",
        "CREATE TABLE missing_row (name VARCHAR(20) PRIMARY KEY, v INT) ENGINE = InnoDB",
        "INSERT INTO missing_row VALUES ('z', 0)",
    )
    a, b = Talk(address, autocommit=False), Talk(address, autocommit=False)
    for talk in (a, b):
        began = time.monotonic()
        assert talk.ask(wanted) is None
        assert time.monotonic() - began < AT_ONCE
    outcomes: list[int] = []

    def insert(talk: Talk) -> None:
        outcomes.append(talk.outcome("INSERT INTO missing_row VALUES ('m', 0)"))
        talk.do("COMMIT")

    waiting = threading.Thread(target=insert, args=(a,))
    waiting.start()
    time.sleep(0.3)
    insert(b)
    waiting.join()
    assert sorted(outcomes) == [0, ER.LOCK_DEADLOCK]
    a.do("ROLLBACK", wanted)
    b.do("ROLLBACK", "SET SESSION innodb_lock_wait_timeout = 1")
    assert b.outcome(wanted) == ER.LOCK_WAIT_TIMEOUT, "it is there"


def getlock_pooled(address: str) -> None:
    """Two clients that a pooler lends the same session are told that both have the lock: it is the session's."""
    s1, s2 = Talk(address), Talk(address)
    assert s1.ask("SELECT GET_LOCK('pooled', 0)") == 1, "A locks, on s1"
    assert s1.ask("SELECT GET_LOCK('pooled', 0)") == 1, "B is lent s1, and locks: it is his session's already"
    assert s2.ask("SELECT RELEASE_LOCK('pooled')") == 0, "A is lent s2, and unlocks: it is not"


STORIES = pytest.mark.parametrize("story", [fu_missing_row, getlock_pooled], ids=["fu-missing-row", "getlock-pooled"])


@STORIES
def test_story(story: Callable[[str], None]) -> None:
    cluster = make("mysql-single", clients=1)

    def main() -> None:
        assert cluster.spawn("c0", lambda checkpoint: story("n1"))(600)

    on(cluster, main)


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    with servers("mysql-single", 1) as cluster:
        yield cluster.servers.addresses["n1"]


@pytest.mark.long
@STORIES
def test_story_on_a_real_server(story: Callable[[str], None], real: str) -> None:
    story(real)
