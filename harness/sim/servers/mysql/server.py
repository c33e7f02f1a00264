"""A simulated MariaDB 10.11 server: the service with its sessions, start and stop, and commits.

Source: https://mariadb.com/kb/en/, and MariaDB 10.11 itself: ``harness/fidelity/mysql/`` compares their
behaviour. Abstracted: statements take no time except for their waits; there is one database and one account; there are
no log files. Committed transactions stay in this object over a kill, and so do transactions that were in the
replication log and only waited for a replica's answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from harness.sim.servers.waits import Wait, WaitOutcome
from harness.sim.service import Conn, ServiceHost

from . import definitions, statements
from .errors import INTERRUPTED, LOCK_WAIT_TIMEOUT, SqlError
from .named_locks import NS_PER_S, NamedLocks
from .replication import MysqlReplication, rows_event
from .session import SqlSession, Statement
from .storage import SqlTable
from .transactions import Transaction, Transactions
from .values import to_number
from .variables import DEFAULTS

OnCommand = Callable[[str, str], None]


class MysqlServer:
    """The server's :class:`~harness.sim.service.Service`. Time-outs are in seconds.

    ``on_command`` is called with (client host, first keyword) after each statement, before its answer is sent. It may
    kill this server.
    """

    host: ServiceHost

    def __init__(self, *, port: int = 3306, lock_wait_timeout: float = 50, wait_timeout: float = 28800) -> None:
        self.port = port
        self.on_command: OnCommand | None = None
        self.tables: dict[str, SqlTable] = {}
        self._initial_variables = {
            **DEFAULTS, "innodb_lock_wait_timeout": lock_wait_timeout, "wait_timeout": wait_timeout,
        }  # fmt: skip
        self.variables = dict(self._initial_variables)
        self.transactions = Transactions()
        self.named = NamedLocks()
        self._sessions: dict[int, SqlSession] = {}
        self._next_session = 1
        self._runnable: deque[SqlSession] = deque()
        self._running = False
        self._unused_waits: list[tuple[SqlTable, Wait]] = []
        self.replication: MysqlReplication | None = None

    # Start and stop.

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        self.variables = {**self._initial_variables, "hostname": host.name}
        self._next_session = 1
        if wiped:
            self.tables.clear()
            self.transactions = Transactions()
        host.log("ready for connections")

    def stop(self) -> None:
        """Drop all sessions, and roll back the transactions that are neither committed nor in the replication log."""
        self._sessions.clear()
        self._runnable.clear()
        self._unused_waits.clear()
        self._running = False
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
        for table in self.tables.values():
            table.next_auto = table.stored_auto

    def size(self) -> int:
        """Return the number of rows in all tables."""
        return sum(len(table.clustered.keys) for table in self.tables.values())

    # Connections.

    def opened(self, conn: Conn) -> None:
        session = conn.session = SqlSession(self, conn, self._next_session)
        self._sessions[session.number] = session
        self._next_session += 1
        session.send_greeting()

    def received(self, conn: Conn, data: bytes) -> None:
        session: SqlSession = conn.session
        if self.is_open(session):
            self.run_event(session.received, data)

    def closed(self, conn: Conn) -> None:
        session: SqlSession = conn.session
        if self.is_open(session):
            self.run_event(session.closed)

    def is_open(self, session: SqlSession) -> bool:
        """Return whether a session is still one of the server's."""
        return self._sessions.get(session.number) is session

    def session(self, number: int) -> SqlSession | None:
        """Return the session with a number, None if there is none."""
        return self._sessions.get(number)

    def session_of(self, trx: Transaction) -> int | None:
        """Return the number of the session that a transaction belongs to, None if no session has it."""
        return next((number for number, session in self._sessions.items() if session.trx is trx), None)

    def remove_session(self, session: SqlSession) -> None:
        """End a session and release all that it holds; its connection is not closed."""
        if self._sessions.pop(session.number, None) is not None:
            session.drop()

    # Execution of statements.

    def run_event(self, fn: Callable[..., None], *args: Any) -> None:
        """Call ``fn``, then resume all statements whose waits it has ended. Nested calls only call ``fn``."""
        if self._running:
            fn(*args)
            return
        self._running = True
        try:
            fn(*args)
            while self._runnable:
                session = self._runnable.popleft()
                if self.is_open(session):
                    session.resume()
        finally:
            self._running = False
        self.transactions.purge()

    def schedule(self, session: SqlSession) -> None:
        """Have the statement of a session resumed at the end of the present event."""
        self._runnable.append(session)

    def execute(self, session: SqlSession, text: str) -> Statement:
        """Start one statement."""
        return statements.run(session, text)

    def refuse_if_read_only(self) -> None:
        """Raise SqlError if clients must not write."""
        if self.variables["read_only"]:
            raise SqlError(1290)

    # Transactions.

    def commit(self, trx: Transaction) -> Generator[Wait, None, None]:
        """Replicate a transaction, then make its changes durable and visible to others."""
        if self.replication is not None and trx.log:
            trx.prepared = True
            yield from self.replication.write(rows_event(trx))
        self.end_transaction(trx, commit=True)

    def end_transaction(self, trx: Transaction, *, commit: bool) -> None:
        """Commit or roll back a transaction on this server, and resume waits for the tables that it used."""
        if commit:
            self.transactions.end(trx)
        else:
            self.transactions.rollback(trx)
        for table, wait in list(self._unused_waits):
            if not table.users:
                self._unused_waits.remove((table, wait))
                wait.end(WaitOutcome.GRANTED)

    # Definitions of tables.

    def wait_until_unused(self, table: SqlTable) -> Generator[Wait, None, None]:
        """Wait until no transaction uses a table. Raises SqlError on a time-out or a kill."""
        while table.users:
            wait = Wait(round(to_number(self.variables["lock_wait_timeout"]) * NS_PER_S))
            place = (table, wait)
            wait.abandon = lambda place=place: self._unused_waits.remove(place)  # type: ignore[misc]
            self._unused_waits.append(place)
            yield wait
            if wait.ended is not WaitOutcome.GRANTED:
                raise SqlError(LOCK_WAIT_TIMEOUT if wait.ended is WaitOutcome.TIMEOUT else INTERRUPTED)

    def replicate_definition(self, text: str) -> Generator[Wait, None, None]:
        """Replicate a statement that changes the definition of tables."""
        if self.replication is not None:
            yield from self.replication.write({"definition": text})

    def apply_definition(self, text: str) -> None:
        """Apply the primary's change of the definition of tables."""
        definitions.apply_definition(self, text)

    def drop_everything(self) -> None:
        """Close all connections and drop all tables."""
        for session in list(self._sessions.values()):
            session.conn.close()
            self.remove_session(session)
        self.tables.clear()
