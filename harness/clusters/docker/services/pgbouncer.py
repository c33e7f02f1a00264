"""PostgreSQL servers in containers, each behind a PgBouncer in its own container, as on many database hosts.

Clients connect to PgBouncer, and a fault on the host strikes both programs. PgBouncer has its own defaults, except for
the options of the plan, the number of clients, and ``server_login_retry``: with 15 seconds, clients would find no
server for long after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import Any, Final

from harness.clusters.docker.containers.server_tools import IMAGE_SHELL
from harness.clusters.kinds import ACCOUNT
from harness.clusters.kinds.postgres import POOL_MODE, POSTGRES

from .faketime import ENVIRONMENT
from .postgres import AS_POSTGRES, PREPARE, PostgresServers

_CONSOLE: Final = "pgbouncer"
"""Database by whose name PgBouncer's administration is reached; a query there needs no server session."""
_POOLER_OPTIONS: Final = (
    "pool_mode",
    "default_pool_size",
    "min_pool_size",
    "server_round_robin",
    "server_reset_query_always",
)
_START: Final = f"""{PREPARE}printf '%s' "$POOLER" >/data/pgbouncer.ini
{AS_POSTGRES} pgbouncer -q /data/pgbouncer.ini &
exec {AS_POSTGRES} "$@"
"""


def configuration(
    port: int, options: Mapping[str, Any], *, address: str = "*", database_port: int = POSTGRES.port
) -> str:
    """Return pgbouncer.ini; ``options`` are the server options of a plan, ``address`` is where PgBouncer listens."""
    chosen = {name: options[name] for name in _POOLER_OPTIONS if name in options}
    settings = {
        "listen_addr": address,
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "max_client_conn": 500,
        "server_login_retry": 0.1,
        "pool_mode": POOL_MODE,
        **{name: int(value) if isinstance(value, bool) else value for name, value in chosen.items()},
    }
    lines = [f"{name} = {value}" for name, value in settings.items()]
    server = f"{ACCOUNT} = host=127.0.0.1 port={database_port} dbname={ACCOUNT} user={ACCOUNT}"
    return "\n".join(["[databases]", server, "[pgbouncer]", *lines, ""])


class PgBouncerServers(PostgresServers):
    """See :class:`harness.clusters.docker.kinds.RealServers`."""

    def database_port(self, host: str) -> int:  # noqa: ARG002
        return POSTGRES.port

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        environment = {**ENVIRONMENT, "POOLER": configuration(self.port(host), self.options)}
        return [IMAGE_SHELL, "-c", _START, "start", *self.server_command(host)], environment

    def await_stage(self, hosts: list[str]) -> None:
        super().await_stage(hosts)
        for host in hosts:
            self._fill_pool(host, self.options.get("min_pool_size", 0))

    def _fill_pool(self, host: str, sessions: int) -> None:
        """Open as many server sessions, by transactions at the same time. PgBouncer itself opens those of
        ``min_pool_size`` only after the first client has come, and three a second."""
        with self.gate.open(), ExitStack() as connections:
            for _ in range(sessions):
                connection = connections.enter_context(closing(self.connection(host, self.port(host))))
                connection.run("BEGIN")
                connections.callback(connection.run, "ROLLBACK")

    def answers(self, host: str) -> bool:
        """Return whether both programs answer. A query through the pool could wait for a server session, so PgBouncer
        is asked for its version."""
        return bool(self._pooler_version(host)) and super().answers(host)

    def _pooler_version(self, host: str) -> str:
        answer = self.ask(host, lambda one: one.run("SHOW VERSION"), port=self.port(host), database=_CONSOLE)
        return str(answer[0][0]).lower() if answer else ""

    def version(self) -> str:
        return ", ".join(filter(None, (super().version(), self._pooler_version("n1"))))
