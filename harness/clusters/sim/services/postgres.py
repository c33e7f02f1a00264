"""Simulated PostgreSQL servers, independent of each other.

Options of servers, all in seconds: ``lock_timeout`` (how long a statement waits for a lock, unless its session sets
another limit; usually for ever), ``deadlock_timeout`` (how long a session waits for a lock before it looks for a
deadlock, usually 1), ``idle_session_timeout`` and ``idle_in_transaction_session_timeout`` (after how long an idle
connection is closed, usually never), and ``statement_timeout``.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from harness.clusters.sim.kinds import SimServers, watch_of
from harness.history.lock_keys import KeyObservation
from harness.sim.servers.postgres.observer import LockObserver
from harness.sim.servers.postgres.server import PostgresServer

_STATEMENT: Final = re.compile(rb"(?:Q....|P....[^\0]*\0)\s*([A-Za-z]+)", re.DOTALL)


class PostgresServers(SimServers):
    """Independent servers."""

    @staticmethod
    def commands(data: bytes) -> list[str]:
        """Return the first keywords of the SQL statements in a client's data: simple queries, and those to prepare."""
        return [word.decode().upper() for word in _STATEMENT.findall(data)]

    def install(self) -> None:
        parameters = {name: f"{round(seconds * 1000)}ms" for name, seconds in self.options.items()}
        for host in self.hosts:
            server = PostgresServer(port=self.port, **parameters)
            host.install(server)
            self.watch[host.name] = watch_of(server)
            self.key_count[host.name] = server.size
            self.look[host.name] = partial(_look, LockObserver(server))


def _look(observer: LockObserver, key: str) -> KeyObservation | None:
    found = observer.look(key)
    return None if found is None else KeyObservation(found.owner, None, found.client)
