"""A client's connection to a MySQL server, with a thread of its own: a statement that waits does not block the others.

The same code runs on the simulated server, in the threads of a simulated host, and on a real one.
"""

from __future__ import annotations

import contextlib
import queue
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CR, ER

from harness.clusters.kinds import ACCOUNT

Outcome = tuple[Any, ...]
"""("rows", rows), ("ok", affected rows, insert id), ("error", number, text or "") or ("lost",)."""
Connect = Callable[[], "Connection[Any]"]
LOST: Final = ("lost",)
_ID: Final = re.compile(r"\{id(\d+)\}")
_LOST_NUMBERS: Final = frozenset({0, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR})
LIMIT_S: Final = 60.0
KILLED: Final = ("error", 1927)
STILL_WAITS: Final = ("still waits",)
SNAPSHOT: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
"""A snapshot is kept open, because a real server purges deleted rows at unpredictable times."""


def connect_to(host: str, port: int = 3306, **options: Any) -> Connection[Any]:
    """Connect to a server with the account of the clients."""
    return pymysql.connect(
        host=host, port=port, user=ACCOUNT, password=ACCOUNT, database=ACCOUNT, ssl_disabled=True, **options
    )


def execute(connection: Connection[Any], statement: str) -> Outcome:
    """Execute a statement and return its outcome. The text of an error counts only for a duplicate key."""
    try:
        with connection.cursor() as cursor:
            affected = cursor.execute(statement)
            if cursor.description is not None:
                return ("rows", cursor.fetchall())
            return ("ok", affected, cursor.lastrowid)
    except pymysql.MySQLError as error:
        number = error.args[0] if error.args else 0
        if number in _LOST_NUMBERS:
            return LOST
        return ("error", number, error.args[1] if number == ER.DUP_ENTRY else "")


class StatementThread:
    """One connection and its thread. ``settings`` are executed at the beginning."""

    def __init__(self, connect: Connect, settings: Sequence[str] = ()) -> None:
        self.connection = connect()
        for statement in settings:
            execute(self.connection, statement)
        self._statements: queue.Queue[str | None] = queue.Queue()
        self._outcomes: queue.Queue[Outcome] = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def number(self) -> int:
        """Connection id at the server."""
        return int(self.connection.thread_id())  # type: ignore[no-untyped-call]

    def _work(self) -> None:
        while (statement := self._statements.get()) is not None:
            self._outcomes.put(execute(self.connection, statement))

    @property
    def has_answer(self) -> bool:
        """True if there is an outcome that has not been taken."""
        return not self._outcomes.empty()

    def begin(self, statement: str) -> None:
        self._statements.put(statement)

    def answer(self, patience_s: float) -> Outcome | None:
        """Return the outcome of the statement, None if there is none after ``patience_s``."""
        try:
            return self._outcomes.get(timeout=patience_s)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Close the connection in order."""
        self._statements.put(None)
        self._thread.join(LIMIT_S)
        with contextlib.suppress(pymysql.MySQLError):
            self.connection.close()


class Connections:
    """The numbered connections of one sequence, with the tables of the sequence."""

    def __init__(self, connect: Connect, setup: Sequence[str]) -> None:
        self.settings: dict[int, Sequence[str]] = {}
        """Statements to execute when a connection opens."""
        self.waiting: set[int] = set()
        self._connect = connect
        self._setup = setup
        self._threads: dict[int, StatementThread] = {}
        self.make_tables()

    def make_tables(self) -> None:
        main = self._connect()
        for statement in self._setup:
            outcome = execute(main, statement)
            assert outcome[0] != "error", (statement, outcome)
        main.commit()
        main.close()
        self.keep_snapshot()

    def keep_snapshot(self) -> None:
        self._main = self._connect()
        execute(self._main, SNAPSHOT)

    def get(self, number: int) -> StatementThread:
        """Return a connection, which is opened if it is not open."""
        if number not in self._threads:
            self._threads[number] = StatementThread(self._connect, self.settings.get(number, ()))
        return self._threads[number]

    def fill_in(self, text: str) -> str:
        """Put the ids of the connections in the place of ``{id0}``, ``{id1}`` and so on."""
        return _ID.sub(lambda found: str(self.get(int(found[1])).number), text)

    def note(self, number: int, outcome: Outcome | None) -> Outcome | None:
        """Note the outcome of a statement, None if it waits, and return it."""
        if outcome is None:
            self.waiting.add(number)
        else:
            self.waiting.discard(number)
            if outcome == LOST or outcome[:2] == KILLED:
                self._threads.pop(number).close()
        return outcome

    def number_waiting(self, *, besides: int) -> int:
        """Return how many statements wait, apart from one connection's and those whose answers are there: the
        statement may have made another one the victim of a deadlock."""
        return sum(not self._threads[number].has_answer for number in self.waiting - {besides})

    def close(self, number: int) -> StatementThread | None:
        """Close a connection that is open and does not wait, and return it."""
        if number not in self._threads or number in self.waiting:
            return None
        thread = self._threads.pop(number)
        thread.close()
        return thread

    def close_idle(self) -> None:
        """Close the connections that do not wait."""
        for number in list(self._threads):
            self.close(number)

    def close_all(self) -> None:
        """Close all connections of a server that has ended them."""
        for thread in self._threads.values():
            thread.close()
        self._main.close()
