"""The documented failures of database locks that are a few statements in a fixed order: each as it goes wrong, and then
as it goes right. The same code runs on the simulated MariaDB and, with ``-m long``, on a real one."""

from __future__ import annotations

import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.constants import CR, ER

from harness.clusters.docker import Clients, DockerCluster
from lock_impls.base import Endpoints, LockError
from lock_impls.mistakes.mysql import EndsTransaction, StaysInTransaction, UncountedReentry
from lock_impls.mysql_for_update import ForUpdateLock
from lock_impls.mysql_get_lock import GetLock
from lock_impls.mysql_reentrant import ReentrantLock
from lock_impls.mysql_unique import UniqueLock
from tests.clusters.bench import make, on

GONE = (CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST)
AT_ONCE = 0.5
"""Seconds: who waits for a lock waits longer."""


class Place:
    """Where the servers are, and connections to them. ``servers`` are a primary and a replica."""

    def __init__(self, kind: str, servers: dict[str, str]) -> None:
        self.kind = kind
        self.servers = servers
        self.endpoints = Endpoints(kind, ((servers["n1"], 3306),))

    def connect(self, host: str = "n1", *, autocommit: bool = True) -> Talk:
        address = self.servers[host]
        return Talk(
            pymysql.connect(host=address, user="harness", password="harness", database="harness", autocommit=autocommit)
        )


class Talk:
    """A connection, and what its server says."""

    def __init__(self, connection: Connection[Any]) -> None:
        self.connection = connection

    def ask(self, statement: str) -> Any:
        """The first value of the first row, None if there is none."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            row = cursor.fetchone()
            return row[0] if row else None

    def do(self, *statements: str) -> None:
        for statement in statements:
            self.ask(statement)

    def refusal(self, statement: str) -> int:
        """The number of the error that it gets."""
        with pytest.raises(pymysql.MySQLError) as caught:
            self.ask(statement)
        return int(caught.value.args[0])

    def outcome(self, statement: str) -> int:
        """The number of the error that it gets, 0 if it gets none."""
        try:
            self.do(statement)
        except pymysql.MySQLError as error:
            return int(error.args[0])
        return 0

    @property
    def number(self) -> int:
        return int(self.connection.thread_id())  # type: ignore[no-untyped-call]


def seconds(call: Callable[[], Any]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def numbers(place: Place, table: str, *rows: str, key: str = "PRIMARY KEY") -> Talk:
    """A connection to a new table of names and values."""
    talk = place.connect()
    values = ", ".join(f"('{name}', 0)" for name in rows)
    talk.do(f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} (name VARCHAR(20) {key}, v INT) ENGINE = InnoDB")
    if rows:
        talk.do(f"INSERT INTO {table} VALUES {values}")
    return talk


# The stories.


def uniq_reent_self(place: Place) -> None:
    """Who has the row and locks again meets himself."""
    lock = UniqueLock(place.endpoints, "reent-self", 1.0)
    assert lock.acquire(0)
    assert lock.acquire(1.0) is None, "and so on for ever"
    lock.release()
    cured = ReentrantLock(place.endpoints, "reent-self", 1.0)
    assert cured.acquire(0)
    assert cured.acquire(1.0)
    cured.release()
    cured.release()


def uniq_reent_nocount(place: Place) -> None:
    """The first unlock of two deletes the row, while its owner is still in the outer section."""

    def other_gets_it(lock_class: Any) -> bool:
        mine, other = (lock_class(place.endpoints, f"nocount-{lock_class.__name__}", 1.0) for _ in range(2))
        assert mine.acquire(0)
        assert other.acquire(0) is None
        assert mine.acquire(0)
        mine.release()
        return other.acquire(0) is not None

    assert other_gets_it(UncountedReentry)
    assert not other_gets_it(ReentrantLock)


def uniq_in_open_tx(place: Place) -> None:
    """A try-lock waits, if the row that it meets is of a transaction that has not ended."""
    numbers(place, "in_open_tx")
    a, b = place.connect(), place.connect()
    b.do("SET SESSION innodb_lock_wait_timeout = 1")
    a.do("BEGIN", "INSERT INTO in_open_tx VALUES ('x', 0)")
    began = time.monotonic()
    assert b.refusal("INSERT INTO in_open_tx VALUES ('x', 0)") == ER.LOCK_WAIT_TIMEOUT
    assert time.monotonic() - began >= 0.9
    a.do("COMMIT")
    assert seconds(lambda: b.refusal("INSERT INTO in_open_tx VALUES ('x', 0)")) < AT_ONCE
    assert b.refusal("INSERT INTO in_open_tx VALUES ('x', 0)") == ER.DUP_ENTRY


def fu_missing_row(place: Place) -> None:
    """FOR UPDATE of a row that is not there returns at once, to both; then neither can insert it before the other."""
    numbers(place, "missing_row", "z")
    a, b = place.connect(autocommit=False), place.connect(autocommit=False)
    for talk in (a, b):
        assert seconds(partial(talk.do, "SELECT name FROM missing_row WHERE name = 'm' FOR UPDATE")) < AT_ONCE
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
    a.do("ROLLBACK")
    a.do("SELECT name FROM missing_row WHERE name = 'm' FOR UPDATE")
    b.do("ROLLBACK", "SET SESSION innodb_lock_wait_timeout = 1")
    assert b.refusal("SELECT name FROM missing_row WHERE name = 'm' FOR UPDATE") == ER.LOCK_WAIT_TIMEOUT, "it is there"


def fu_no_index(place: Place) -> None:
    """Without an index every row is locked, and who wants another one waits."""

    def outcome(table: str, key: str) -> int:
        numbers(place, table, "a", "b", key=key)
        a, b = place.connect(), place.connect()
        a.do("BEGIN", f"SELECT v FROM {table} WHERE name = 'a' FOR UPDATE")
        b.do("SET SESSION innodb_lock_wait_timeout = 1", "BEGIN")
        outcome = b.outcome(f"SELECT v FROM {table} WHERE name = 'b' FOR UPDATE")
        a.do("ROLLBACK")
        b.do("ROLLBACK")
        return outcome

    assert outcome("no_index", "") == ER.LOCK_WAIT_TIMEOUT
    assert outcome("with_index", "PRIMARY KEY") == 0


def fu_autocommit(place: Place) -> None:
    """With autocommit the row lock ends with its statement."""
    numbers(place, "autocommitted", "x")
    wanted = "SELECT v FROM autocommitted WHERE name = 'x' FOR UPDATE"
    a, b = place.connect(), place.connect()
    b.do("SET SESSION innodb_lock_wait_timeout = 1")
    assert a.ask(wanted) == 0
    assert b.ask(wanted) == 0
    a.do("SET autocommit = 0")
    assert a.ask(wanted) == 0
    assert b.refusal(wanted) == ER.LOCK_WAIT_TIMEOUT


def fu_conn_lost(place: Place) -> None:
    """The connection is killed, the next one gets the row, and the first hears of it only when it asks."""
    a, b = ForUpdateLock(place.endpoints, "conn-lost"), ForUpdateLock(place.endpoints, "conn-lost")
    assert a.acquire(0)
    assert a.still_valid()
    assert b.acquire(0) is None
    kill(place, a.session)
    assert b.acquire(1.0), "two holders: nothing has told the first one yet"
    assert a.held
    assert not a.still_valid()
    with pytest.raises(LockError, match="lost with its connection"):
        a.release()
    b.release()


def kill(place: Place, session: Any) -> None:
    """End a lock's connection at the server."""
    number = session.execute("SELECT CONNECTION_ID()").rows[0][0]
    place.connect().do(f"KILL {number}")
    time.sleep(0.1)


def lockwait_partial(place: Place) -> None:
    """The second of two row locks is busy: the statement is undone, not the transaction with the first lock in it."""

    def third_gets_first(lock_class: Any, name: str) -> bool:
        holder = ForUpdateLock(place.endpoints, f"{name}-2")
        assert holder.acquire(0)
        pair = lock_class(place.endpoints, f"{name}-1+{name}-2")
        assert pair.acquire(0) is None, "not held, says the client"
        third = ForUpdateLock(place.endpoints, f"{name}-1")
        return third.acquire(0) is not None

    assert not third_gets_first(StaysInTransaction, "partial")
    assert third_gets_first(EndsTransaction, "whole")


def rr_stale_read(place: Place) -> None:
    """The lock is right and an update is lost: the transaction saw the data before it had the lock."""

    def counted(table: str, read: str) -> int:
        watcher = numbers(place, table, "x")
        a, b = place.connect(autocommit=False), place.connect(autocommit=False)
        b.do(f"SELECT v FROM {table}")  # the snapshot is of now
        add(a, table, read)
        add(b, table, read)
        return int(watcher.ask(f"SELECT v FROM {table}"))

    def add(talk: Talk, table: str, read: str) -> None:
        lock = GetLock(place.endpoints, table)
        assert lock.acquire(1.0)
        seen = talk.ask(f"SELECT v FROM {table} WHERE name = 'x'{read}")
        talk.do(f"UPDATE {table} SET v = {seen + 1} WHERE name = 'x'", "COMMIT")
        lock.release()

    assert counted("stale_read", "") == 1, "two were added"
    assert counted("fresh_read", " FOR UPDATE") == 2


def unlock_before_commit(place: Place) -> None:
    """The lock is right and an update is lost: it was given back before the change could be seen."""

    def counted(table: str, *, early: bool) -> int:
        watcher = numbers(place, table, "x")
        a, b = place.connect(autocommit=False), place.connect(autocommit=False)
        locks = [GetLock(place.endpoints, table) for _ in range(2)]
        assert locks[0].acquire(0)
        first = a.ask(f"SELECT v FROM {table}")
        if early:
            locks[0].release()
            assert locks[1].acquire(0)
            second = b.ask(f"SELECT v FROM {table}")
            a.do(f"UPDATE {table} SET v = {first + 1}", "COMMIT")
        else:
            a.do(f"UPDATE {table} SET v = {first + 1}", "COMMIT")
            locks[0].release()
            assert locks[1].acquire(0)
            second = b.ask(f"SELECT v FROM {table}")
        b.do(f"UPDATE {table} SET v = {second + 1}", "COMMIT")
        locks[1].release()
        return int(watcher.ask(f"SELECT v FROM {table}"))

    assert counted("early", early=True) == 1
    assert counted("late", early=False) == 2


def getlock_reconnect(place: Place) -> None:
    """The session is killed, the client library makes another, and nothing says that the lock is gone."""
    numbers(place, "reconnected", "x")
    a, b = place.connect(), place.connect()
    assert a.ask("SELECT GET_LOCK('reconnected', 0)") == 1
    b.do(f"KILL {a.number}")
    time.sleep(0.1)
    assert b.ask("SELECT GET_LOCK('reconnected', 1)") == 1
    a.connection.ping(reconnect=True)
    a.do("UPDATE reconnected SET v = v + 1")  # no error
    assert a.ask("SELECT IS_USED_LOCK('reconnected') = CONNECTION_ID()") == 0, "who asks is told"
    assert a.ask("SELECT RELEASE_LOCK('reconnected')") == 0


def getlock_idle(place: Place) -> None:
    """A session that says nothing for wait_timeout is closed, and its locks end."""
    a, b = place.connect(), place.connect()
    a.do("SET SESSION wait_timeout = 1")
    assert a.ask("SELECT GET_LOCK('idle', 0)") == 1
    assert b.ask("SELECT GET_LOCK('idle', 0)") == 0
    time.sleep(1.6)
    assert b.ask("SELECT GET_LOCK('idle', 1)") == 1
    assert a.refusal("SELECT 1") in GONE


def getlock_second(place: Place) -> None:
    """Since MySQL 5.7.5 and MariaDB 10.0.2 a session may have two; an older server, which would free the first, is not
    to be had here."""
    a, b = place.connect(), place.connect()
    assert a.ask("SELECT GET_LOCK('second-x', 0)") == 1
    assert a.ask("SELECT GET_LOCK('second-y', 0)") == 1
    assert b.ask("SELECT GET_LOCK('second-x', 0)") == 0


def getlock_pooled(place: Place) -> None:
    """Sessions that a pooler lends anew for each transaction, as ProxySQL and PgBouncer do: locks are the sessions'."""
    s1, s2 = place.connect(), place.connect()
    assert s1.ask("SELECT GET_LOCK('pooled', 0)") == 1, "A locks, on s1"
    assert s1.ask("SELECT GET_LOCK('pooled', 0)") == 1, "B is lent s1, and locks: it is his session's already"
    assert s2.ask("SELECT RELEASE_LOCK('pooled')") == 0, "A is lent s2, and unlocks: it is not"


def getlock_multi_primary(place: Place) -> None:
    """Each server has locks of its own: nothing of GET_LOCK is replicated."""
    a, b = place.connect("n1"), place.connect("n2")
    assert a.ask("SELECT GET_LOCK('multi', 0)") == 1
    assert b.ask("SELECT GET_LOCK('multi', 0)") == 1


STORIES = [
    story
    for name, story in inspect.getmembers(sys.modules[__name__], inspect.isfunction)
    if name.startswith(("uniq_", "fu_", "lockwait_", "rr_", "unlock_", "getlock_"))
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__.replace("_", "-"))
def test_story(story: Callable[[Place], None]) -> None:
    cluster = make("mysql-replicated", clients=1)

    def main() -> None:
        place = Place(cluster.kind, {"n1": "n1", "n2": "n2"})
        assert cluster.spawn("c0", lambda checkpoint: story(place))(600)

    on(cluster, main)


@pytest.fixture(scope="module")
def real() -> Iterator[Place]:
    cluster = DockerCluster(
        kind="mysql-replicated", nodes=0, clients=Clients(0), seed=0, resource="", options={}, needs=frozenset(),
        by_hand=True,
    )  # fmt: skip
    try:
        cluster.start_all()
        yield Place(cluster.kind, cluster.servers.addresses)
    finally:
        cluster.stop_all()


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__.replace("_", "-"))
def test_story_on_a_real_server(story: Callable[[Place], None], real: Place) -> None:
    story(real)
