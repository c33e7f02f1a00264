"""A PostgreSQL that the user runs. Locks use a database of their own, which must be empty."""

from __future__ import annotations

from typing import Any, ClassVar

from pg8000.exceptions import DatabaseError, InterfaceError
from pg8000.native import Connection, identifier

from harness.clusters.kinds import ACCOUNT
from harness.clusters.servers.adapter import PATIENCE_S, SHOWN, NoAnswerError, OwnServer
from harness.clusters.servers.tls import TlsBegin
from harness.clusters.servers.tls_connections import SSL_REQUEST

_TABLES = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"


class PostgresServer(OwnServer):
    """See :class:`harness.clusters.servers.adapter.OwnServer`. Its keys are the tables of the address's database, by
    default ``harness``, to which the address's user connects, by default ``harness`` without a password."""

    HELLO: ClassVar[bytes] = SSL_REQUEST  # it is answered by one byte
    TLS_BEGIN: ClassVar[TlsBegin] = "postgres"

    @property
    def _database(self) -> str:
        return self.address.database or ACCOUNT

    def _rows(self, *statements: str) -> list[list[Any]]:
        """Execute statements and return the rows of the last."""
        address, user = self.address, self.address.user or ACCOUNT
        who = f"{user!r}" if address.password_from else f"{user!r} who needs no password"
        try:
            connection = Connection(
                user, host=self.host, port=self.port, database=self._database, timeout=PATIENCE_S,
                password=address.password or None, ssl_context=address.tls.context() if address.tls else False,
            )  # fmt: skip
            try:
                answers = [connection.run(statement) for statement in statements]
            finally:
                connection.close()
        except (DatabaseError, InterfaceError, OSError) as error:
            raise NoAnswerError(
                f"the PostgreSQL at {self.host}:{self.port}: {error}; it needs a database {self._database!r}, owned by "
                f"a user {who}"
            ) from error
        return [list(row) for row in answers[-1] or []]

    def version(self) -> str:
        return f"postgres {str(self._rows('SHOW server_version')[0][0]).partition(' ')[0]}"

    def identity(self) -> str:
        return str(self._rows("SELECT system_identifier FROM pg_control_system()")[0][0])

    def refusal(self) -> str:
        return "it is a standby; give its primary" if self._rows("SELECT pg_is_in_recovery()")[0][0] else ""

    def foreign_keys(self) -> list[str]:
        return [f"{self._database}.{table}" for _, table in self._rows(_TABLES)[:SHOWN]]

    def remove_keys(self, run: str) -> int:
        """Drop all tables of the database, which was empty before the run."""
        del run
        found = self._rows(_TABLES)
        if found:
            self._rows(*(f"DROP TABLE IF EXISTS {identifier(schema)}.{identifier(table)}" for schema, table in found))
        return len(found)
