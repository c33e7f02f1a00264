"""A MariaDB 10.11 in the simulator: the service itself, its sessions, start and stop.

Source: https://mariadb.com/kb/en/ and the behaviour of MariaDB 10.11, against which
``tests/sim/test_mysql_differential.py`` compares it. Abstracted: statements take no time but what they wait for; one
database, one account; the logs (what was committed stays in this object over a kill, and so does what was in the
replication log already and only waited for a replica's answer).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from harness.sim.servers.mysql import statements
from harness.sim.servers.mysql.errors import INTERRUPTED, LOCK_WAIT_TIMEOUT, SqlError
from harness.sim.servers.mysql.locks import Outcome, Wait
from harness.sim.servers.mysql.named_locks import NS_PER_S, NamedLocks
from harness.sim.servers.mysql.replication import Replication, rows_event
from harness.sim.servers.mysql.session import Session, Statement
from harness.sim.servers.mysql.storage import Table
from harness.sim.servers.mysql.transactions import Transaction, Transactions
from harness.sim.servers.mysql.values import to_number
from harness.sim.servers.mysql.variables import DEFAULTS
from harness.sim.service import Conn, ServiceHost

Tap = Callable[[str, str], None]


class MysqlServer:
    """``on_command`` is called with (client host, first keyword) after each statement, before its answer leaves; it
    may end this server. Times in seconds."""

    host: ServiceHost

    def __init__(self, *, port: int = 3306, lock_wait_timeout: float = 50, wait_timeout: float = 28800) -> None:
        self.port = port
        self.on_command: Tap | None = None
        self.tables: dict[str, Table] = {}
        self._first_variables = {
            **DEFAULTS, "innodb_lock_wait_timeout": lock_wait_timeout, "wait_timeout": wait_timeout,
        }  # fmt: skip
        self.variables = dict(self._first_variables)
        self.transactions = Transactions()
        self.named = NamedLocks()
        self._sessions: dict[int, Session] = {}
        self._next_session = 1
        self._ready: deque[Session] = deque()
        self._inside = False
        self._exclusive: list[tuple[Table, Wait]] = []
        self.replication: Replication | None = None

    # Life.

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        self.variables = {**self._first_variables, "hostname": host.name}
        self._next_session = 1
        if wiped:
            self.tables.clear()
            self.transactions = Transactions()
        host.log("ready for connections")

    def stop(self) -> None:
        """What was not committed is lost."""
        self._sessions.clear()
        self._ready.clear()
        self._exclusive.clear()
        self._inside = False
        for trx in list(self.transactions.active.values()):
            trx.waiting = None
            for lock in trx.locks:
                lock.wait = None
        for trx in list(self.transactions.active.values()):
            if trx.prepared:
                self.transactions.end(trx)
            else:
                self.transactions.rollback(trx)
        self.named = NamedLocks()
        self.transactions.purge()

    def size(self) -> int:
        """How many rows there are."""
        return sum(len(table.clustered.keys) for table in self.tables.values())

    # Connections.

    def opened(self, conn: Conn) -> None:
        session = conn.session = Session(self, conn, self._next_session)
        self._sessions[session.number] = session
        self._next_session += 1
        session.greet()

    def received(self, conn: Conn, data: bytes) -> None:
        session: Session = conn.session
        if self.has(session):
            self.enter(session.received, data)

    def closed(self, conn: Conn) -> None:
        session: Session = conn.session
        if self.has(session):
            self.enter(session.closed)

    def has(self, session: Session) -> bool:
        return self._sessions.get(session.number) is session

    def session(self, number: int) -> Session | None:
        return self._sessions.get(number)

    def session_of(self, trx: Transaction) -> int | None:
        """The number of the session that a transaction belongs to."""
        return next((number for number, session in self._sessions.items() if session.trx is trx), None)

    def leave(self, session: Session) -> None:
        if self._sessions.pop(session.number, None) is not None:
            session.drop()

    # Statements, one step at a time.

    def enter(self, fn: Callable[..., None], *args: Any) -> None:
        """Do something that may end others' waits, and then go on with their statements."""
        if self._inside:
            fn(*args)
            return
        self._inside = True
        try:
            fn(*args)
            while self._ready:
                session = self._ready.popleft()
                if self.has(session):
                    session.go_on()
        finally:
            self._inside = False
        self.transactions.purge()

    def wake(self, session: Session) -> None:
        self._ready.append(session)

    def execute(self, session: Session, text: str) -> Statement:
        return statements.run(session, text)

    def refuse_if_read_only(self) -> None:
        if self.variables["read_only"]:
            raise SqlError(1290)

    # Transactions.

    def commit(self, trx: Transaction) -> Generator[Wait, None, None]:
        """Make a transaction's changes last, and seen by others."""
        if self.replication is not None and trx.log:
            trx.prepared = True
            yield from self.replication.write(rows_event(trx))
        self.ended(trx, commit=True)

    def ended(self, trx: Transaction, *, commit: bool) -> None:
        if commit:
            self.transactions.end(trx)
        else:
            self.transactions.rollback(trx)
        for table, wait in list(self._exclusive):
            if not table.users:
                self._exclusive.remove((table, wait))
                wait.end(Outcome.GRANTED)

    # Definitions of tables.

    def exclusive(self, table: Table) -> Generator[Wait, None, None]:
        """Wait until no transaction uses a table."""
        while table.users:
            wait = Wait(round(to_number(self.variables["lock_wait_timeout"]) * NS_PER_S))
            place = (table, wait)
            wait.abandon = lambda place=place: self._exclusive.remove(place)  # type: ignore[misc]
            self._exclusive.append(place)
            yield wait
            if wait.ended is not Outcome.GRANTED:
                raise SqlError(LOCK_WAIT_TIMEOUT if wait.ended is Outcome.TIMEOUT else INTERRUPTED)

    def define(self, text: str) -> Generator[Wait, None, None]:
        """Tables' definitions have changed: replicas are to do the same."""
        if self.replication is not None:
            yield from self.replication.write({"definition": text})

    def redefine(self, text: str) -> None:
        """Change tables' definitions as the primary has."""
        statements.redefine(self, text)

    def empty(self) -> None:
        """End all sessions and drop all tables."""
        for session in list(self._sessions.values()):
            session.conn.close()
            self.leave(session)
        self.tables.clear()
