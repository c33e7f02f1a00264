"""Row-based replication between simulated MariaDB servers, asynchronous or semi-synchronous.

Source: https://mariadb.com/kb/en/semisynchronous-replication/ with wait point AFTER_SYNC: a transaction is in the log
and on a replica before any other session sees it. After a time-out the primary continues without replicas until one has
caught up. Abstracted: see :mod:`harness.sim.servers.log_replication`; a replica ignores the locks of its own clients.
"""

from __future__ import annotations

from typing import Any

from harness.sim.servers.log_replication import Event, LogReplication, tuples

from .interface import ServerInterface
from .rows import RowWriter
from .storage import Key, SqlTable
from .transactions import Transaction


class MysqlReplication(LogReplication[ServerInterface]):
    """One server's replication. ``timeout_s`` is how long a commit waits for a replica if ``semi_sync``."""

    def __init__(self, server: ServerInterface, *, follows: str | None, semi_sync: bool, timeout_s: float) -> None:
        super().__init__(server, follows=follows, synchronous=semi_sync, timeout_s=timeout_s)

    @property
    def read_only(self) -> bool:
        return bool(self.server.variables["read_only"])

    def set_read_only(self, read_only: bool) -> None:
        self.server.variables["read_only"] = int(read_only)

    def forget_log(self) -> None:
        self.follows = self.first_follows

    def apply(self, event: Event) -> None:
        if "definition" in event:
            self.server.apply_definition(event["definition"])
            return
        everyone = self.server.transactions
        trx = everyone.begin("READ COMMITTED", 0)
        trx.unlocked = True
        for name, what, key, row in event["rows"]:
            table = self.server.tables.get(name)
            if table is not None:
                apply_change(RowWriter(everyone, trx), table, what, tuples(key), tuples(row))
        self.server.end_transaction(trx, commit=True)


def apply_change(rows: RowWriter, table: SqlTable, what: str, key: Key, row: Any) -> None:
    """Apply one change of the primary: ``what`` is insert, update or delete, ``row`` the new row."""
    record = table.clustered.entries.get(key)
    if what == "insert":
        if not table.clustered.columns:
            table.next_row = key[0][1] - 1
        step = rows.insert(table, row, "S")
        if table.auto_column is not None:
            table.store_auto(row)
            table.next_auto = max(table.next_auto, table.stored_auto)
    elif record is None:
        return
    elif what == "delete":
        step = rows.delete(table, record)
    else:
        step = rows.update(table, record, row)
    for _ in step:
        raise AssertionError("a replica must not wait for a lock")


def rows_event(trx: Transaction) -> Event:
    """Return the log event with all row changes of a transaction."""
    return {"rows": [list(change) for change in trx.log]}
