"""Simulated PostgreSQL servers: independent of each other, alone or behind PgBouncer, or a primary with hot standbys
and a manager that promotes one of them.

Options of servers, all in seconds: ``lock_timeout`` (how long a statement waits for a lock, unless its session sets
another limit; usually for ever), ``deadlock_timeout`` (how long a session waits for a lock before it looks for a
deadlock, usually 1), ``idle_session_timeout`` and ``idle_in_transaction_session_timeout`` (after how long an idle
connection is closed, usually never), and ``statement_timeout``.

That of the replicated kind: ``synchronous_standby_names``, whose value ``*`` makes a commit wait until a standby has
it.

Those of PgBouncer: ``pool_mode``, ``default_pool_size``, ``min_pool_size``, ``server_round_robin``,
``server_reset_query_always``.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from harness.clusters.kinds.postgres import POOL_MODE, POSTGRES, SYNCHRONOUS, run_time_parameters
from harness.clusters.sim.kinds import SimServers, watch_of
from harness.history.lock_keys import KeyObservation
from harness.sim.hosts import SimHost
from harness.sim.servers.postgres.observer import LockObserver
from harness.sim.servers.postgres.pgbouncer import POOL_SIZE, PgBouncer
from harness.sim.servers.postgres.replication import PostgresReplication
from harness.sim.servers.postgres.server import PostgresServer

from .failover import ManagedServers

_STATEMENT: Final = re.compile(rb"(?:Q....|P....[^\0]*\0)\s*([A-Za-z]+)", re.DOTALL)


class PostgresServers(SimServers):
    """Independent servers."""

    @staticmethod
    def commands(data: bytes) -> list[str]:
        """Return the first keywords of the SQL statements in a client's data: simple queries, and those to prepare."""
        return [word.decode().upper() for word in _STATEMENT.findall(data)]

    def new_server(self) -> PostgresServer:
        """Return a server with the plan's run-time parameters."""
        return PostgresServer(port=POSTGRES.port, **run_time_parameters(self.options))

    def install(self) -> None:
        for host in self.hosts:
            self.install_alone(host)

    def install_alone(self, host: SimHost) -> PostgresServer:
        """Install a server and return it."""
        server = self.new_server()
        host.install(server)
        self.watch[host.name] = watch_of(server)
        self.key_count[host.name] = server.size
        self.look[host.name] = partial(_look, LockObserver(server))
        return server


class ReplicatedPostgresServers(ManagedServers, PostgresServers):
    """A primary with hot standbys, and a manager that promotes one of them."""

    def install_server(self, host: SimHost, follows: str | None) -> PostgresReplication:
        server = self.install_alone(host)
        synchronous = server.settings[SYNCHRONOUS] == "*"
        server.replication = PostgresReplication(server, follows=follows, synchronous=synchronous)
        return server.replication


class PgBouncerServers(PostgresServers):
    """Independent servers, each behind a PgBouncer on its host. The locks' keys are not observed: in transaction mode a
    server session, which PostgreSQL knows as the holder, is no client's."""

    def install(self) -> None:
        options = self.options
        for host in self.hosts:
            server = self.new_server()
            pooler = PgBouncer(
                server,
                port=self.port,
                transaction_mode=options.get("pool_mode", POOL_MODE) == "transaction",
                pool_size=options.get("default_pool_size", POOL_SIZE),
                min_pool_size=options.get("min_pool_size", 0),
                round_robin=options.get("server_round_robin", False),
                reset_always=options.get("server_reset_query_always", False),
            )
            host.install(pooler)
            self.watch[host.name] = watch_of(server)
            self.key_count[host.name] = server.size


def _look(observer: LockObserver, key: str) -> KeyObservation | None:
    found = observer.look(key)
    return None if found is None else KeyObservation(found.owner, None, found.client)
