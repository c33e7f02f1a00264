"""MariaDB servers in containers: one, or a primary with replicas and a manager that promotes one of them. A single one
may be a MySQL (:data:`SCRIPT`).

Clocks are set by libfaketime. MariaDB passes absolute times to the kernel, so if only the process had another clock,
its waits would be longer by the clock's offset.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import pymysql
from pymysql.connections import Connection

from harness.clusters.docker.commands import MysqlCommands
from harness.clusters.docker.containers.server_tools import IMAGE_SHELL
from harness.clusters.docker.kinds import ANSWER_S, reading
from harness.clusters.kinds import ACCOUNT
from harness.clusters.kinds.mysql import STRANGERS_LOGIN

from .failover import ManagedServers
from .faketime import ANNOUNCE, ENVIRONMENT, FIND, FaketimeServers
from .mysql_manager import ACCOUNT as MANAGER
from .mysql_manager import follows

READINGS: Final = 5
INIT: Final = f"""SET SESSION sql_log_bin = 0;
CREATE DATABASE IF NOT EXISTS {ACCOUNT};
CREATE USER IF NOT EXISTS {ACCOUNT}@'%' IDENTIFIED BY '{ACCOUNT}';
GRANT ALL ON {ACCOUNT}.* TO {ACCOUNT}@'%';
CREATE USER IF NOT EXISTS {MANAGER}@'%' IDENTIFIED BY '{MANAGER}';
GRANT ALL ON *.* TO {MANAGER}@'%' WITH GRANT OPTION;
"""
"""The clients' account cannot write to a server with read_only set; the manager's can."""
SETTINGS: Final = (
    "--skip-name-resolve", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--performance-schema=OFF",
    "--log-warnings=1", "--innodb-flush-log-at-trx-commit=1", "--max-connections=500",
    "--max-connect-errors=1000000000",
)  # fmt: skip
"""Options of every MariaDB that a simulated one stands for."""
_FILES: Final = (
    "--no-defaults", "--user=root", "--datadir=/data/db", "--init-file=/data/init.sql", "--socket=/data/mysql.sock",
    "--pid-file=/data/mysql.pid", "--bind-address=0.0.0.0",
)  # fmt: skip
MYSQL_SETTINGS: Final = (
    "--skip-name-resolve", "--innodb-buffer-pool-size=32M", "--loose-innodb-redo-log-capacity=8M",
    "--performance-schema=OFF", "--log-error-verbosity=2", "--innodb-flush-log-at-trx-commit=1",
    "--max-connections=500", "--max-connect-errors=1000000000", "--secure-file-priv=", "--loose-mysqlx=OFF",
    "--loose-mysql-native-password=ON",
)  # fmt: skip
"""The same for MySQL 8 and later. A ``loose`` option is ignored by a server that does not know it: MySQL 8.4 needs the
last one for passwords that PyMySQL sends without the package cryptography, 8.0 has them in any case, and 9 has none."""
SCRIPT: Final = f"""exec 2>&1
program=mariadbd product=mariadb
if ! [ -d /prepared ]; then
  program=$(command -v mariadbd || command -v mysqld) || {{ echo 'the image has neither mariadbd nor mysqld'; exit 1; }}
  case $("$program" --version) in *MariaDB*) ;; *' 8.'*) product=mysql8 ;; *) product=mysql ;; esac
fi
if ! [ -e /data/whole ]; then
  rm -rf /data/db
  if [ -d /prepared ]; then cp -a /prepared /data/db
  elif [ $product = mariadb ]; then
    "$(command -v mariadb-install-db || echo mysql_install_db)" --no-defaults --user=root --datadir=/data/db \\
      --skip-test-db >/dev/null
  else "$program" --no-defaults --initialize-insecure --user=root --datadir=/data/db $MYSQL
  fi || exit
  : >/data/whole
fi
case $product in
mariadb) set -- "$@" $MARIADB ;;
*) set -- "$@" $MYSQL ;;
esac
printf '%s' "$INIT" >/data/init.sql
if [ $product = mysql8 ]; then sed -i 's/ IDENTIFIED BY / IDENTIFIED WITH mysql_native_password BY /' /data/init.sql; fi
if [ $product = mysql ]; then
  for account in {ACCOUNT} {MANAGER}; do # the clients' first: the server counts as ready when the manager's can log in
    until mysql --no-defaults --socket=/data/mysql.sock --user=$account --password=$account --execute='DO 1'; do
      sleep 0.05
    done
  done >/dev/null 2>&1 &
fi
{FIND}{ANNOUNCE}exec "$program" "$@" --server-id="$(LD_PRELOAD= od -An -N3 -tu4 /dev/urandom | tr -d ' ')1"
"""
"""Start script of any MariaDB or MySQL; its arguments are the options that both take. Later than 8, MySQL takes a
password over TCP without encryption only from a client that has the package cryptography, unless the account has logged
in before since the start. So both accounts log in through the socket."""
_REPLICATED: Final = (
    "--read-only=ON", "--log-bin=b", "--log-slave-updates", "--sync-binlog=1", "--gtid-strict-mode=ON",
    "--slave-net-timeout=4",
)  # fmt: skip
_SEMI_SYNC: Final = ("--rpl-semi-sync-slave-enabled=ON", "--rpl-semi-sync-master-wait-point=AFTER_SYNC")
_ENVIRONMENT: Final = {
    "INIT": INIT,
    "MARIADB": " ".join(SETTINGS),
    "MYSQL": " ".join(MYSQL_SETTINGS),
    **ENVIRONMENT,
}


class MysqlServers(FaketimeServers):
    """Independent servers. See :class:`harness.clusters.docker.kinds.RealServers`."""

    START = 60.0  # an image of a user's makes its data at its first start
    NEWEST = ("db/ib_logfile0", "db/#innodb_redo/#ib_redo*")  # the latter in MySQL from 8.0.30 on
    COMMANDS = MysqlCommands
    KNOCK = STRANGERS_LOGIN
    GREETS = True

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:  # noqa: ARG002
        return [IMAGE_SHELL, "-c", SCRIPT, "start", *_FILES, *self._chosen()], _ENVIRONMENT

    def _chosen(self) -> list[str]:
        options = self.options
        chosen = []
        if "lock_wait_timeout" in options:
            chosen.append(f"--innodb-lock-wait-timeout={math.ceil(options['lock_wait_timeout'])}")
        if "wait_timeout" in options:
            chosen.append(f"--wait-timeout={math.ceil(options['wait_timeout'])}")
        return chosen

    def look(self, host: str) -> list[str]:
        if host not in self.data_hosts:
            return []
        address = ["-h", "127.0.0.1", "-P", str(self.port(host)), "-u", MANAGER, f"-p{MANAGER}"]
        return ["mariadb", "--no-defaults", *address, "-e", "SHOW FULL PROCESSLIST"]

    # Probes.

    def _connect(self, host: str) -> Connection[Any]:
        timeouts: dict[str, Any] = {"connect_timeout": ANSWER_S, "read_timeout": ANSWER_S, "write_timeout": ANSWER_S}
        address, port = self.reached(host)
        return pymysql.connect(
            host=address, port=port, user=MANAGER, password=MANAGER, database=ACCOUNT,
            autocommit=True, ssl_disabled=True, **timeouts,  # recordings of the traffic can be decoded
        )  # fmt: skip

    def _ask(self, host: str, question: Callable[[Connection[Any]], Any]) -> Any:
        """Send a request and return its answer, ``None`` if there was none."""
        try:
            with self.gate.open(), closing(self._connect(host)) as connection:
                return question(connection)
        except (pymysql.MySQLError, OSError, RuntimeError):  # the last from PyMySQL without cryptography
            return None

    def answers(self, host: str) -> bool:
        return bool(self._ask(host, lambda connection: _value(connection, "SELECT 1")))

    def key_count(self, host: str) -> int | None:
        """Number of rows in all tables."""
        rows: int | None = self._ask(host, _rows)
        return rows

    def clock(self, host: str) -> int | None:
        def read(connection: Connection[Any]) -> int:
            return int(_value(connection, "SELECT UNIX_TIMESTAMP(SYSDATE(6)) * 1000000")) * 1000

        def readings(connection: Connection[Any]) -> int:
            return min((reading(lambda: read(connection)) for _ in range(READINGS)), key=lambda found: found[0])[1]

        offset: int | None = self._ask(host, readings)
        return offset

    def version(self) -> str:
        response = self._ask("n1", lambda connection: _value(connection, "SELECT VERSION()"))
        return product(str(response)) if response else ""


def product(version: str) -> str:
    """Return name and version of a server by its VERSION(): MariaDB's contains its name, MySQL's does not."""
    return f"{'mariadb' if 'mariadb' in version.lower() else 'mysql'} {version}"


class ReplicatedMysqlServers(ManagedServers, MysqlServers):
    """A primary with replicas, and a manager that promotes one of them."""

    MANAGER = "harness.clusters.docker.services.mysql_manager"

    def manager_config(self) -> dict[str, Any]:
        return {**super().manager_config(), "semi_sync": self._semi_sync}

    @property
    def _semi_sync(self) -> bool:
        return bool(self.options.get("semi_sync"))

    def server_program(self, host: str) -> tuple[list[str], dict[str, str]]:
        return MysqlServers.program(self, host)

    def _chosen(self) -> list[str]:
        chosen = [*super()._chosen(), *_REPLICATED]
        if self._semi_sync:
            timeout_ms = round(self.options.get("semi_sync_timeout", 10.0) * 1000)
            chosen += [*_SEMI_SYNC, f"--rpl-semi-sync-master-timeout={timeout_ms}"]
        return chosen

    def server_answers(self, host: str) -> bool:
        return MysqlServers.answers(self, host)

    def is_linked(self, host: str) -> bool:
        return bool(self._ask(host, self._has_replicas if host == "n1" else self._follows_first))

    def _has_replicas(self, connection: Connection[Any]) -> bool:
        if not self._semi_sync:
            return bool(_value(connection, "SELECT @@read_only") == 0)
        query = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = "
        acknowledge = int(_value(connection, f"{query}'RPL_SEMI_SYNC_MASTER_CLIENTS'"))
        return acknowledge == len(self.data_hosts) - 1

    def _follows_first(self, connection: Connection[Any]) -> bool:
        return follows(connection, self.addresses["n1"])


def _value(connection: Connection[Any], statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone()
        return row[0] if row else None


def _rows(connection: Connection[Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        tables = [name for (name,) in cursor.fetchall()]
    return sum(int(_value(connection, f"SELECT COUNT(*) FROM `{table}`")) for table in tables)
