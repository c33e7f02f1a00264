"""PostgreSQL servers in containers, independent of each other: start command and probes.

Clocks are set by libfaketime, or in the processes if the image has none: every connection has a server process of its
own, which inherits the clock of the first one. The account needs no password.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from pg8000.exceptions import DatabaseError, InterfaceError
from pg8000.native import Connection, identifier

from harness.clusters.docker.commands import PostgresCommands
from harness.clusters.docker.containers.server_tools import FOLDER, IMAGE_SHELL
from harness.clusters.docker.kinds import ANSWER_S, reading
from harness.clusters.kinds import ACCOUNT
from harness.clusters.kinds.postgres import run_time_parameters

from .faketime import ANNOUNCE, ENVIRONMENT, FIND, FaketimeServers

READINGS: Final = 5
# BusyBox's su, because Alpine's setpriv changes no user, and the names of other such programs differ between images.
# It takes options of the program for its own unless "--" comes before them.
CHANGE_USER: Final = f"""{FOLDER}/busybox su -m -s {IMAGE_SHELL} -- postgres -c 'exec "$0" "$@"'"""
"""Prefix of a shell command that starts a program as user ``postgres``."""
# Only our image has it already. Made once for a container, so that a later start without data takes as long as there.
_MAKE: Final = f"""if ! [ -d /prepared ]; then
  command -v postgres >/dev/null || {{ echo 'the image has no postgres in PATH'; exit 1; }}
  rm -rf /unfinished && mkdir -m 700 /unfinished && chown postgres /unfinished || exit
  {CHANGE_USER} initdb -D /unfinished -U {ACCOUNT} --auth=trust -E UTF8 --locale=C.UTF-8 --no-sync >/dev/null || exit
  echo 'CREATE DATABASE {ACCOUNT}' | {CHANGE_USER} postgres --single -D /unfinished postgres >/dev/null || exit
  printf 'host %s all all trust\\n' all replication >>/unfinished/pg_hba.conf && mv /unfinished /prepared || exit
fi
"""
# PostgreSQL syncs only what it changes itself, so a loss of power would empty copied files that are not synced.
INSTALL: Final = f"""{_MAKE}rm -rf /data/db && cp -a /prepared /data/db && chmod 711 /data && sync -f /data || exit
"""
"""Shell commands that create the data of a first start."""
# A killed server leaves postmaster.pid, and another process may have its number now.
NO_PID_FILE: Final = "rm -f /data/db/postmaster.pid\n"
# libfaketime names a semaphore after the process: loaded into a program before the change of user, it would leave one
# that PostgreSQL cannot open.
LIBRARY: Final = f"""{FIND}{ANNOUNCE}library=$LD_PRELOAD
export LD_PRELOAD=
"""
"""Shell commands that leave the path of libfaketime in ``$library``."""
PREPARE: Final = f"""exec 2>&1
if ! [ -e /data/whole ]; then
  {INSTALL}  >/data/whole && sync -f /data || exit
fi
{NO_PID_FILE}{LIBRARY}"""
"""Shell commands before the start of PostgreSQL."""
AS_POSTGRES: Final = f'{CHANGE_USER} env LD_PRELOAD="$library"'
"""Prefix of a shell command that starts a program as user ``postgres`` with libfaketime."""
_START: Final = f"""{PREPARE}exec {AS_POSTGRES} "$@"
"""
SETTINGS: Final = {
    "autovacuum": "off", "max_connections": "500", "shared_buffers": "16MB", "timezone": "UTC",
    "unix_socket_directories": "",
}  # fmt: skip
"""Settings of every PostgreSQL that a simulated one stands for."""
_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"


def setting_options(settings: dict[str, str]) -> list[str]:
    """Return the arguments of ``postgres`` for run-time parameters."""
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


class PostgresServers(FaketimeServers):
    """See :class:`harness.clusters.docker.kinds.RealServers`."""

    START = 60.0  # an image of a user's makes its data at its first start
    OTHER_USER = True  # PostgreSQL refuses to run as root
    COMMANDS = PostgresCommands
    NEWEST = ("db/pg_wal/0*",)
    # A connection of an unknown user, 64 bytes, which the server refuses.
    KNOCK = b"\0\0\0\x40\0\3\0\0user\0" + b"k" * 49 + b"\0\0"

    def database_port(self, host: str) -> int:
        """Port of PostgreSQL itself."""
        return self.port(host)

    def server_command(self, host: str) -> list[str]:
        """Return the command of PostgreSQL itself."""
        own = {"listen_addresses": "*", "port": str(self.database_port(host))}
        settings = {**SETTINGS, **run_time_parameters(self.options), **own}
        return ["postgres", "-D", "/data/db", *setting_options(settings)]

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        return [IMAGE_SHELL, "-c", _START, "start", *self.server_command(host)], ENVIRONMENT

    def look(self, host: str) -> list[str]:
        if host not in self.data_hosts or "release" in self.options:  # the image of a release has no psql
            return []
        address = ["-h", "127.0.0.1", "-p", str(self.database_port(host)), "-U", ACCOUNT, "-d", ACCOUNT]
        return ["psql", *address, "-c", "SELECT * FROM pg_locks"]

    # Probes.

    def connection(self, host: str, port: int, database: str = ACCOUNT) -> Any:
        """Connect to a program of the host. Raises an error of pg8000, or OSError."""
        address, port = self.reached(host, port)
        return Connection(ACCOUNT, host=address, port=port, database=database, timeout=ANSWER_S, ssl_context=False)

    def ask(self, host: str, question: Callable[[Any], Any], *, port: int = 0, database: str = ACCOUNT) -> Any:
        """Send a request and return its answer, ``None`` if there was none. Without a ``port`` PostgreSQL itself is
        asked."""
        port = port or self.database_port(host)
        try:
            with self.gate.open(), closing(self.connection(host, port, database)) as connection:
                return question(connection)
        except (DatabaseError, InterfaceError, OSError):
            return None

    def answers(self, host: str) -> bool:
        return bool(self.ask(host, lambda connection: connection.run("SELECT 1")))

    def key_count(self, host: str) -> int | None:
        """Number of rows in all tables."""
        rows: int | None = self.ask(host, _rows)
        return rows

    def clock(self, host: str) -> int | None:
        def read(connection: Any) -> int:
            ((micros,),) = connection.run("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
            return int(micros) * 1000

        def readings(connection: Any) -> int:
            return min((reading(lambda: read(connection)) for _ in range(READINGS)), key=lambda found: found[0])[1]

        offset: int | None = self.ask(host, readings)
        return offset

    def version(self) -> str:
        response = self.ask("n1", lambda connection: connection.run("SHOW server_version"))
        return f"postgresql {response[0][0].split()[0]}" if response else ""


def _rows(connection: Any) -> int:
    tables = [name for (name,) in connection.run(_TABLES)]
    return sum(connection.run(f"SELECT count(*) FROM {identifier(name)}")[0][0] for name in tables)
