"""Failover manager of replicated PostgreSQL servers: ``python3 -m
harness.clusters.docker.services.postgres_manager CONFIG``.

See :class:`.failover_manager.FailoverManager`. A server that is rebuilt is shut down at once, which ends its sessions;
then its start script copies the primary by ``pg_basebackup``: see :mod:`.postgres_replicated`. After a restart of this
program the primary is the server that accepts writes on the newest timeline.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from pg8000.exceptions import DatabaseError, InterfaceError
from pg8000.native import Connection

from harness.clusters.kinds import ACCOUNT

from .failover_manager import ANSWER_S, FailoverManager, say

PROMOTION_S: Final = 10.0
"""Time limit in seconds for a promotion."""
REJOIN: Final = "/data/db/rejoin"
"""File that lets the start script of a server make it a standby of the primary after the end of PostgreSQL."""
_SHUT_DOWN: Final = (
    f"COPY (SELECT 1) TO PROGRAM 'touch {REJOIN}; kill -QUIT $(head -n 1 /data/db/postmaster.pid)'"  # immediate mode
)
_POSITION: Final = (
    "greatest(pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0'), pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'))"
)
"""SQL: position in the log up to which a standby has received it, in bytes."""
_TIMELINE: Final = "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int"
"""SQL: timeline of a server that accepts writes."""


class PostgresManager(FailoverManager):
    """The manager."""

    def found(self) -> str | None:
        writable = [name for name in self.servers if self.accepts_writes(name)]
        return max(writable, key=lambda name: self._value(name, _TIMELINE) or 0, default=None)

    def reaches(self, name: str) -> bool:
        return self.accepts_writes(name)

    def accepts_writes(self, name: str) -> bool:
        return self._value(name, "pg_is_in_recovery()") is False

    def received(self, name: str) -> int | None:
        found = self._value(name, f"CASE WHEN pg_is_in_recovery() THEN {_POSITION} END")
        return None if found is None else int(found)

    def promote(self, name: str) -> bool:
        if not self._value(name, f"pg_promote(true, {PROMOTION_S:.0f})", PROMOTION_S + 1):
            return False
        print(f"{name} is promoted, on timeline {self._value(name, _TIMELINE)}")
        return True

    def must_be_rebuilt(self, name: str) -> bool:
        in_recovery = self._value(name, "pg_is_in_recovery()")
        if in_recovery is None:
            return False
        received = self.received(name)
        written = self._value(self.primary, "pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')")
        ahead = received is not None and written is not None and received > written
        return ahead or not self._ask(name, lambda connection: is_standby_of(connection, self.servers[self.primary]))

    def rebuild(self, name: str) -> None:
        self._ask(name, lambda connection: connection.run(_SHUT_DOWN))

    def _value(self, name: str, expression: str, patience: float = ANSWER_S) -> Any:
        """Return the value of an SQL expression on a server, ``None`` if it does not answer."""
        return self._ask(name, lambda connection: connection.run(f"SELECT {expression}")[0][0], patience)

    def _ask(self, name: str, question: Callable[[Connection], Any], patience: float = ANSWER_S) -> Any:
        """Send a request and return its answer, ``None`` if there was none."""
        try:
            with closing(_connect(self.servers[name], patience)) as connection:
                return question(connection)
        except (DatabaseError, InterfaceError, OSError) as error:
            if patience != ANSWER_S:
                print(f"{name}: {error}")
            return None


def _connect(address: str, patience: float) -> Connection:
    return Connection(ACCOUNT, host=address, database=ACCOUNT, timeout=patience, ssl_context=False)


def is_standby_of(connection: Any, address: str) -> bool:
    """Return whether the server is a standby that streams, or tries to stream, from ``address``."""
    statement = "SELECT pg_is_in_recovery(), current_setting('primary_conninfo')"
    ((in_recovery, where),) = connection.run(statement)
    return bool(in_recovery and f"host={address} " in f"{where} ".replace("'", ""))


def follows(connection: Any, address: str) -> bool:
    """Return whether the server streams from ``address``."""
    statement = "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'"
    return is_standby_of(connection, address) and connection.run(statement) == [[1]]


def main(config: str) -> None:
    settings: dict[str, Any] = json.loads(config)
    PostgresManager(settings["servers"], say).run()


if __name__ == "__main__":
    main(sys.argv[1])
