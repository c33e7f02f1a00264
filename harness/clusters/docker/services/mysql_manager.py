"""Failover manager of replicated MariaDB servers: ``python3 -m harness.clusters.docker.services.mysql_manager CONFIG``.

See :class:`.failover_manager.FailoverManager`. A rebuilt server's connections are closed, its data is dropped, and it
replicates everything from the primary. It gets a new server id, since a replica skips events with its own id.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import DictCursor

from .failover_manager import ANSWER_S, FailoverManager, Say, say

ACCOUNT: Final = "manager"
"""User and password."""
CLIENTS: Final = "harness"
"""Database and user of the clients."""
ORDER: Final = 15.0
"""Time limit in seconds for commands: a replica with semi-synchronous replication takes two seconds to stop."""


class MysqlManager(FailoverManager):
    """The manager; ``semi_sync`` enables semi-synchronous replication."""

    def __init__(self, servers: dict[str, str], announce: Say, *, semi_sync: bool) -> None:
        self._semi_sync = semi_sync
        super().__init__(servers, announce)

    def found(self) -> str | None:
        return next((name for name in self.servers if self.accepts_writes(name)), None)

    def reaches(self, name: str) -> bool:
        """Return whether the primary answers; make it writable again if it was restarted."""
        read_only = self._ask(name, _read_only)
        if read_only == 1:
            self._ask(name, self._open_up, ORDER)
        return read_only is not None

    def received(self, name: str) -> int | None:
        found: int | None = self._ask(name, _received_change)
        return found

    def promote(self, name: str) -> bool:
        return bool(self._ask(name, self._open_up, ORDER))

    def accepts_writes(self, name: str) -> bool:
        return bool(self._ask(name, _read_only) == 0)

    def must_be_rebuilt(self, name: str) -> bool:
        return bool(self._ask(name, self._does_not_follow))

    def rebuild(self, name: str) -> None:
        self._ask(name, self._rebuild, ORDER)

    def _open_up(self, connection: Connection[Any]) -> bool:
        """Make a server the primary. Semi-synchronous replication as a master is enabled only now: a replica with it
        would wait for acknowledgements of the changes that it applies, and apply none."""
        _do(connection, "STOP SLAVE", "RESET SLAVE ALL")
        if self._semi_sync:
            _do(connection, "SET GLOBAL rpl_semi_sync_master_enabled = 1")
        _do(connection, "SET GLOBAL read_only = 0")
        return True

    def _does_not_follow(self, connection: Connection[Any]) -> bool:
        status = _status(connection)
        if status.get("Master_Host") != self.servers[self.primary]:
            return True
        return "No" in (status["Slave_IO_Running"], status["Slave_SQL_Running"])

    def _rebuild(self, connection: Connection[Any]) -> None:
        """Rebuild a replica. Connections are closed first: commits that wait there for an acknowledgement must not be
        reported as done."""
        _end_clients(connection)
        if self._semi_sync:
            _do(connection, "SET GLOBAL rpl_semi_sync_master_enabled = 0")
        _do(
            connection,
            "SET GLOBAL read_only = 1",
            "STOP SLAVE",
            "RESET SLAVE ALL",
            "SET SESSION sql_log_bin = 0",
            f"DROP DATABASE IF EXISTS {CLIENTS}",
            f"CREATE DATABASE {CLIENTS}",
            "RESET MASTER",
            "SET GLOBAL gtid_slave_pos = ''",
            f"SET GLOBAL server_id = {1 + secrets.randbelow(1 << 31)}",
            f"CHANGE MASTER TO MASTER_HOST = '{self.servers[self.primary]}', MASTER_USER = '{ACCOUNT}', "
            f"MASTER_PASSWORD = '{ACCOUNT}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1, "
            "MASTER_HEARTBEAT_PERIOD = 1",
            "START SLAVE",
        )

    def _ask(self, name: str, question: Callable[[Connection[Any]], Any], patience: float = ANSWER_S) -> Any:
        """Send a request and return its answer, ``None`` if there was none."""
        try:
            with closing(_connect(self.servers[name], patience)) as connection:
                return question(connection)
        except (pymysql.MySQLError, OSError) as error:
            if patience != ANSWER_S:
                print(f"{name}: {error}")
            return None


def _connect(address: str, patience: float) -> Connection[Any]:
    timeouts: dict[str, Any] = {"connect_timeout": ANSWER_S, "read_timeout": patience, "write_timeout": ANSWER_S}
    return pymysql.connect(host=address, user=ACCOUNT, password=ACCOUNT, autocommit=True, **timeouts)


def _do(connection: Connection[Any], *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _read_only(connection: Connection[Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@read_only")
        ((value,),) = cursor.fetchall()
        return int(value)


def _status(connection: Connection[Any]) -> dict[str, Any]:
    with connection.cursor(DictCursor) as cursor:
        cursor.execute("SHOW SLAVE STATUS")
        return cursor.fetchone() or {}


def _received_change(connection: Connection[Any]) -> int | None:
    """Sequence number of the last change that a replica has received, ``None`` if it is no replica."""
    status = _status(connection)
    if not status:
        return None
    position = str(status["Gtid_IO_Pos"])
    return int(position.rpartition("-")[2]) if position else 0


def _end_clients(connection: Connection[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = %s", (CLIENTS,))
        for (number,) in cursor.fetchall():
            try:
                cursor.execute(f"KILL HARD CONNECTION {int(number)}")
            except pymysql.MySQLError as error:  # the connection has ended already
                print(error)


def follows(connection: Connection[Any], address: str) -> bool:
    """Return whether the server replicates from ``address`` without an error."""
    status = _status(connection)
    running = (status.get("Slave_IO_Running"), status.get("Slave_SQL_Running"))
    return status.get("Master_Host") == address and running == ("Yes", "Yes")


def main(config: str) -> None:
    settings: dict[str, Any] = json.loads(config)
    MysqlManager(settings["servers"], say, semi_sync=settings["semi_sync"]).run()


if __name__ == "__main__":
    main(sys.argv[1])
