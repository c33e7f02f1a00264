"""Streaming replication between simulated PostgreSQL servers, asynchronous or synchronous.

Source: https://www.postgresql.org/docs/15/warm-standby.html and src/backend/replication/syncrep.c: a synchronous commit
is durable on the primary first, and no other session sees it before a standby has it. A commit waits without a limit;
one that is interrupted takes effect, with a warning. Locks are not replicated. Abstracted: see
:mod:`harness.sim.servers.log_replication`; the log has the new versions of rows that transactions have committed,
instead of all changes of pages; a standby applies them at once and its queries never conflict with that.
"""

from __future__ import annotations

from typing import Any

from harness.sim.servers.log_replication import Event, LogReplication, tuples
from harness.sim.service import ServiceHost

from . import definitions, sql
from .interface import ServerInterface
from .storage import Row, Transaction


class PostgresReplication(LogReplication[ServerInterface]):
    """One server's replication. ``synchronous`` stands for ``synchronous_standby_names = '*'``. A server whose disk was
    lost accepts no connections until the manager has made it a standby."""

    def __init__(self, server: ServerInterface, *, follows: str | None, synchronous: bool) -> None:
        super().__init__(server, follows=follows, synchronous=synchronous, timeout_s=None)
        self._has_started = False

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        super().start(host, wiped=wiped)
        if self.follows is None:
            self.accept_writes()

    @property
    def read_only(self) -> bool:
        return self.server.settings["in_hot_standby"] == "on"

    @property
    def has_data(self) -> bool:
        """False while a standby has received nothing from its primary."""
        return bool(self.history)

    def set_read_only(self, read_only: bool) -> None:
        self.server.set_in_hot_standby(read_only)

    def forget_log(self) -> None:
        if self._has_started:
            self.follows, self.broken = "", True
        self._has_started = True

    def apply(self, event: Event) -> None:
        server = self.server
        if "definition" in event:
            tree = sql.parse(event["definition"])
            definitions.DEFINITIONS[sql.first_word(event["definition"])](server.tables, tree)
            server.plans.clear()
            return
        trx = server.transactions.begin(event["client"], server.host.wall_ns(), repeatable=False, read_only=False)
        for name, number, values in event["rows"]:
            table = server.tables.get(name)
            if table is not None:
                row = table.rows.get(number) or Row(number)
                table.next_row = max(table.next_row, number + 1)
                server.transactions.write(trx, table, row, tuples(values))
        server.transactions.end(trx, commit=True)


def rows_event(trx: Transaction) -> Event:
    """Return the log event of a commit: the new values of all rows, None for a deleted one, and the client, by which
    observers know it."""
    rows: dict[tuple[str, int], Any] = {}
    for table, row in trx.changed:
        rows[table.name, row.number] = row.newest().values
    return {"client": trx.client, "rows": [[name, number, values] for (name, number), values in rows.items()]}
