"""A simulated MariaDB 10.11 server: the service with its sessions, start and stop, and commits.

Source: https://mariadb.com/kb/en/, and MariaDB 10.11 itself: ``harness/fidelity/mysql/`` compares their
behaviour. Abstracted: statements take no time except for their waits; there is one database and one account; there are
no log files. Committed transactions stay in this object over a kill, and so do transactions that were in the
replication log and only waited for a replica's answer.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from harness.sim.servers.sessions import SessionServer
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


class MysqlServer(SessionServer[SqlSession]):
    """The server's :class:`~harness.sim.service.Service`. Time-outs are in seconds."""

    def __init__(self, *, port: int = 3306, lock_wait_timeout: float = 50, wait_timeout: float = 28800) -> None:
        super().__init__(first=1)
        self.port = port
        self.tables: dict[str, SqlTable] = {}
        self._initial_variables = {
            **DEFAULTS, "innodb_lock_wait_timeout": lock_wait_timeout, "wait_timeout": wait_timeout,
        }  # fmt: skip
        self.variables = dict(self._initial_variables)
        self.transactions = Transactions()
        self.named = NamedLocks()
        self._unused_waits: list[tuple[SqlTable, Wait]] = []
        self.replication: MysqlReplication | None = None

    # Start and stop.

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        self.variables = {**self._initial_variables, "hostname": host.name}
        if wiped:
            self.tables.clear()
            self.transactions = Transactions()
        host.log("ready for connections")

    def stop(self) -> None:
        """Drop all sessions, and roll back the transactions that are neither committed nor in the replication log."""
        self.forget_sessions()
        self._unused_waits.clear()
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
        self.add_session(conn, partial(SqlSession, self, conn)).send_greeting()

    def session_of(self, trx: Transaction) -> int | None:
        """Return the number of the session that a transaction belongs to, None if no session has it."""
        return next((session.number for session in self.sessions if session.trx is trx), None)

    # Execution of statements.

    def event_over(self) -> None:
        self.transactions.purge()

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
        for session in self.sessions:
            session.conn.close()
            self.remove_session(session)
        self.tables.clear()
