"""Documented failures of database locks, statement by statement on several connections of one process.

Scenarios cannot show the reply to each statement. The same code runs on the simulated MariaDB and, with ``-m long``, on
a real one.
"""

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

AT_ONCE_S = 0.5
"""A statement that waits for a row lock takes longer than this."""


class Session:
    """One connection to the server."""

    def __init__(self, address: str, *, autocommit: bool = True) -> None:
        self.connection: Connection[Any] = pymysql.connect(
            host=address, user="harness", password="harness", database="harness", autocommit=autocommit
        )

    def ask(self, statement: str) -> Any:
        """Return the first value of the first row, or None without a row."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            row = cursor.fetchone()
            return row[0] if row else None

    def do(self, *statements: str) -> None:
        for statement in statements:
            self.ask(statement)

    def error_number(self, statement: str) -> int:
        """Return the error number of the statement, 0 if it succeeds."""
        try:
            self.do(statement)
        except pymysql.MySQLError as error:
            return int(error.args[0])
        return 0


# The stories. Each takes the server's address.


def fu_missing_row(address: str) -> None:
    """FOR UPDATE of a missing row returns at once to both sessions. When both insert it, one gets a deadlock error."""
    locking_read = "SELECT name FROM missing_row WHERE name = 'm' FOR UPDATE"
    Session(address).do(
        "DROP TABLE IF EXISTS missing_row",
        "CREATE TABLE missing_row (name VARCHAR(20) PRIMARY KEY, v INT) ENGINE = InnoDB",
        "INSERT INTO missing_row VALUES ('z', 0)",
    )
    a, b = Session(address, autocommit=False), Session(address, autocommit=False)
    for session in (a, b):
        began = time.monotonic()
        assert session.ask(locking_read) is None
        assert time.monotonic() - began < AT_ONCE_S
    errors: list[int] = []

    def insert(session: Session) -> None:
        errors.append(session.error_number("INSERT INTO missing_row VALUES ('m', 0)"))
        session.do("COMMIT")

    waiting = threading.Thread(target=insert, args=(a,))
    waiting.start()
    time.sleep(0.3)
    insert(b)
    waiting.join()
    assert sorted(errors) == [0, ER.LOCK_DEADLOCK]
    a.do("ROLLBACK", locking_read)
    b.do("ROLLBACK", "SET SESSION innodb_lock_wait_timeout = 1")
    assert b.error_number(locking_read) == ER.LOCK_WAIT_TIMEOUT, "an existing row is locked"


def getlock_pooled(address: str) -> None:
    """Two clients that share a session through a pooler both acquire the lock, because the session owns it."""
    s1, s2 = Session(address), Session(address)
    assert s1.ask("SELECT GET_LOCK('pooled', 0)") == 1, "A acquires the lock on s1"
    assert s1.ask("SELECT GET_LOCK('pooled', 0)") == 1, "B gets s1 from the pool; that session already holds the lock"
    assert s2.ask("SELECT RELEASE_LOCK('pooled')") == 0, "A unlocks on s2, which does not hold the lock"


STORIES = pytest.mark.parametrize("story", [fu_missing_row, getlock_pooled], ids=["fu-missing-row", "getlock-pooled"])


@STORIES
def test_story_on_the_simulated_server(story: Callable[[str], None]) -> None:
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
