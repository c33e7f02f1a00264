"""A simulated PostgreSQL 15 server: the service with its sessions, start and stop.

Source: https://www.postgresql.org/docs/15/, and PostgreSQL 15 itself: ``harness/fidelity/postgres/`` compares their
behaviour. Abstracted: statements take no time except for their waits; there is one database, and every account is
trusted; there is no log file. Committed transactions stay in this object over a kill.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from harness.sim.service import Conn, ServiceHost

from . import settings
from .locks import LockManager
from .plans import Plan
from .session import PgSession
from .storage import Table, Transactions

OnCommand = Callable[[str, str], None]
FIRST_PID: Final = 100


class PostgresServer:
    """The server's :class:`~harness.sim.service.Service`. ``parameters`` are run-time parameters of the server.

    ``on_command`` is called with (client host, first keyword) after each statement, before its answer is sent. It may
    kill this server.
    """

    host: ServiceHost

    def __init__(self, *, port: int = 5432, **parameters: str) -> None:
        self.port = port
        self.on_command: OnCommand | None = None
        self.settings = {**settings.DEFAULTS, **parameters}
        self.tables: dict[str, Table] = {}
        self.plans: dict[tuple[str, tuple[int, ...]], Plan] = {}
        self.transactions = Transactions()
        self.locks = LockManager()
        self._sessions: dict[int, PgSession] = {}
        self._next_pid = FIRST_PID
        self._runnable: deque[PgSession] = deque()
        self._running = False

    # Start and stop.

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        self._next_pid = FIRST_PID
        if wiped:
            self.tables.clear()
            self.plans.clear()
            self.transactions = Transactions()
        host.log("database system is ready to accept connections")

    def stop(self) -> None:
        """Drop all sessions, and roll back the transactions that are not committed."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        self._runnable.clear()
        self._running = False
        for session in sessions:
            session.drop()
        self.locks = LockManager()

    def size(self) -> int:
        """Return the number of rows in all tables."""
        return sum(len(table.rows) for table in self.tables.values())

    # Connections.

    def opened(self, conn: Conn) -> None:
        session = conn.session = PgSession(self, conn, self._next_pid)
        self._sessions[session.number] = session
        self._next_pid += 1

    def received(self, conn: Conn, data: bytes) -> None:
        session: PgSession = conn.session
        if self.is_open(session):
            self.run_event(session.received, data)

    def closed(self, conn: Conn) -> None:
        session: PgSession = conn.session
        if self.is_open(session):
            self.run_event(session.closed)

    def is_open(self, session: PgSession) -> bool:
        """Return whether a session is still one of the server's."""
        return self._sessions.get(session.number) is session

    def session(self, number: int) -> PgSession | None:
        """Return the session with a process id, None if there is none."""
        return self._sessions.get(number)

    def session_of(self, holder: Any) -> PgSession | None:
        """Return the session that holds locks as ``holder``."""
        return next((one for one in self._sessions.values() if one.holder is holder), None)

    def remove_session(self, session: PgSession) -> None:
        """End a session and release all that it holds; its connection is not closed."""
        if self._sessions.pop(session.number, None) is not None:
            session.drop()

    def cancel(self, number: int, secret: int) -> None:
        """Cancel the statement of a session, if ``secret`` is its key."""
        session = self._sessions.get(number)
        if session is not None and session.secret == secret:
            session.interrupt(terminate=False)

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

    def schedule(self, session: PgSession) -> None:
        """Have the statement of a session resumed at the end of the present event."""
        self._runnable.append(session)

    def executed(self, session: PgSession, word: str) -> bool:
        """Report a statement to ``on_command``; False if that has killed this server."""
        if self.on_command is not None:
            self.on_command(session.conn.peer, word)
        return self.is_open(session)
