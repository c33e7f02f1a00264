"""A MySQL or MariaDB that the user runs. Locks use a database of their own, which must be empty."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from harness.clusters.kinds import ACCOUNT
from harness.clusters.kinds.mysql import STRANGERS_LOGIN
from harness.clusters.servers.adapter import PATIENCE_S, SHOWN, NoAnswerError, OwnServer
from harness.clusters.servers.tls import TlsBegin

_IDENTITIES = ("@@server_uuid", "@@server_uid")
"""Variables with an identity of the server: of MySQL, and of MariaDB from 10.11 on."""


class MysqlServer(OwnServer):
    """See :class:`harness.clusters.servers.adapter.OwnServer`. Its keys are the tables of the address's database. User,
    password and database are ``harness`` if the address has none."""

    HELLO: ClassVar[bytes] = STRANGERS_LOGIN
    GREETS: ClassVar[bool] = True
    TLS_BEGIN: ClassVar[TlsBegin] = "mysql"

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        user = self.address.user or ACCOUNT
        password = self.address.password if self.address.user or self.address.password_from else ACCOUNT
        try:
            connection = self._connect(user, password)
            try:
                with connection.cursor() as cursor:
                    yield cursor
            finally:
                connection.close()
        except (pymysql.MySQLError, OSError) as error:
            raise NoAnswerError(
                f"the MySQL at {self.host}:{self.port}: {error}; it needs a database {self._database!r}, with all "
                f"privileges for a user {user!r}{'' if password != ACCOUNT else f' with the password {ACCOUNT!r}'}"
            ) from error

    def _connect(self, user: str, password: str) -> Connection[Cursor]:
        timeouts: dict[str, Any] = dict.fromkeys(("connect_timeout", "read_timeout", "write_timeout"), PATIENCE_S)
        tls = self.address.tls
        how: dict[str, Any] = {"ssl": tls.context()} if tls else {"ssl_disabled": True}
        connection = pymysql.connect(
            host=self.host, port=self.port, user=user, password=password, database=self._database, autocommit=True,
            **timeouts, **how,
        )  # fmt: skip
        if tls:
            with connection.cursor() as cursor:
                cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
                _, cipher = cursor.fetchone() or ("", "")
            if not cipher:  # PyMySQL 1.1 connects without TLS then
                connection.close()
                raise pymysql.OperationalError("the server has no TLS")
        return connection

    @property
    def _database(self) -> str:
        return self.address.database or ACCOUNT

    def _value(self, expression: str) -> str:
        with self._cursor() as cursor:
            cursor.execute(f"SELECT {expression}")
            row = cursor.fetchone()
        return str(row[0]) if row else ""

    def version(self) -> str:
        found, comment = self._value("VERSION()"), self._value("@@version_comment")
        product = "mariadb" if "mariadb" in f"{found} {comment}".lower() else "mysql"
        return f"{product} {found.partition('-')[0]}"

    def identity(self) -> str:
        for expression in _IDENTITIES:
            try:
                return self._value(expression)
            except NoAnswerError:  # no such variable
                continue
        return ""

    def refusal(self) -> str:
        return "it is read-only; give its primary" if self._value("@@read_only") == "1" else ""

    def _tables(self, cursor: Cursor) -> list[str]:
        cursor.execute("SHOW TABLES")
        return [str(row[0]) for row in cursor.fetchall()]

    def foreign_keys(self) -> list[str]:
        with self._cursor() as cursor:
            return [f"{self._database}.{name}" for name in self._tables(cursor)[:SHOWN]]

    def remove_keys(self, run: str) -> int:
        """Drop all tables of the database, which was empty before the run."""
        del run
        with self._cursor() as cursor:
            found = self._tables(cursor)
            for name in found:
                cursor.execute(f"DROP TABLE IF EXISTS `{name.replace('`', '``')}`")
            return len(found)
