"""A simulated PostgreSQL 15 server: the service with its sessions, start and stop.

Source: https://www.postgresql.org/docs/15/, and PostgreSQL 15 itself: ``harness/fidelity/postgres/`` compares their
behaviour. Abstracted: statements take no time except for their waits; there is one database, and every account is
trusted; there is no log file. Committed transactions stay in this object over a kill.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any, Final

from harness.sim.servers.log_replication import Event
from harness.sim.servers.sessions import SessionServer
from harness.sim.servers.waits import Wait
from harness.sim.service import Conn, ServiceHost

from . import settings
from .locks import LockManager
from .plans import Plan
from .replication import PostgresReplication
from .session import PgSession
from .storage import Table, Transactions

FIRST_PID: Final = 100


class PostgresServer(SessionServer[PgSession]):
    """The server's :class:`~harness.sim.service.Service`. ``parameters`` are run-time parameters of the server."""

    def __init__(self, *, port: int = 5432, **parameters: str) -> None:
        super().__init__(FIRST_PID)
        self.port = port
        self.settings = {**settings.DEFAULTS, **parameters}
        self.tables: dict[str, Table] = {}
        self.plans: dict[tuple[str, tuple[int, ...]], Plan] = {}
        self.transactions = Transactions()
        self.locks = LockManager()
        self.replication: PostgresReplication | None = None

    # Start and stop.

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        if wiped:
            self._drop_data()
        host.log("database system is ready to accept connections")

    def stop(self) -> None:
        """Drop all sessions, and roll back the transactions that are neither committed nor in the replication log."""
        for session in self.forget_sessions():
            session.drop()
        self.locks = LockManager()

    def _drop_data(self) -> None:
        self.tables.clear()
        self.plans.clear()
        self.transactions = Transactions()

    def size(self) -> int:
        """Return the number of rows in all tables."""
        return sum(len(table.rows) for table in self.tables.values())

    # Connections.

    def opened(self, conn: Conn) -> None:
        self.add_session(conn, partial(PgSession, self, conn))

    def session_of(self, holder: Any) -> PgSession | None:
        """Return the session that holds locks as ``holder``."""
        return next((one for one in self.sessions if one.holder is holder), None)

    def cancel(self, number: int, secret: int) -> None:
        """Cancel the statement of a session, if ``secret`` is its key."""
        session = self.session(number)
        if session is not None and session.secret == secret:
            session.interrupt(terminate=False)

    def executed(self, session: PgSession, word: str) -> bool:
        """Report a statement to ``on_command``; False if that has killed this server."""
        if self.on_command is not None:
            self.on_command(session.conn.peer, word)
        return self.is_open(session)

    # Replication.

    @property
    def has_data(self) -> bool:
        """False if there is nothing to connect to yet: a standby without data."""
        return self.replication is None or self.replication.has_data

    def set_in_hot_standby(self, in_hot_standby: bool) -> None:
        """Refuse writes, or accept them. Open sessions report that before they are ready for the next query."""
        self.settings["in_hot_standby"] = "on" if in_hot_standby else "off"

    def drop_everything(self) -> None:
        """Close all connections and drop all data."""
        sessions = self.sessions
        self.stop()
        for session in sessions:
            session.conn.close()
        self._drop_data()

    def replicate(self, event: Event, *, waits: bool) -> Generator[Wait, None, None]:
        """Send an event of the log to the standbys; wait for one if replication is synchronous and ``waits``."""
        if self.replication is not None:
            yield from self.replication.write(event, waits=waits)
