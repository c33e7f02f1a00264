"""Recorded traffic of a MySQL, written by hand."""

from __future__ import annotations

import hashlib
import struct
from typing import Any, Final

from harness.documents.trace import ServerTrace
from harness.fidelity.trace.check import check_recording
from harness.sim.servers.mysql import protocol
from harness.sim.servers.mysql.errors import SqlError
from harness.sim.servers.mysql.protocol import AUTOCOMMIT, LONGLONG, Field
from tests.fidelity.traffic import Traffic

SALT: Final = b"abcdefgh" + b"ijklmnopqrst"
FIRST_ID: Final = 1000
"""The session of connection n has the id 1000 + n."""


def proof(salt: bytes) -> bytes:
    """Return what proves that the client knows the account's password."""
    stage = hashlib.sha1(protocol.ACCOUNT.encode()).digest()
    mask = hashlib.sha1(salt + hashlib.sha1(stage).digest()).digest()
    return bytes(left ^ right for left, right in zip(stage, mask, strict=True))


def login(user: str = protocol.ACCOUNT, salt: bytes = SALT, flags: int = 0) -> bytes:
    """Return a client's answer to the greeting."""
    answer = proof(salt)
    head = struct.pack("<IIB23x", flags | 1 << 3, 1 << 24, protocol.UTF8MB4)
    return protocol.frame(head + user.encode() + b"\0" + bytes([len(answer)]) + answer + b"harness\0", 1)


def command(code: int, body: str = "") -> bytes:
    return protocol.frame(bytes([code]) + body.encode(), 0)


def query(text: str) -> bytes:
    return command(protocol.COM_QUERY, text)


def ok(affected: int = 0, insert_id: int = 0, status: int = AUTOCOMMIT) -> bytes:
    return protocol.frame(protocol.ok(affected, insert_id, status), 1)


def error(number: int, *parts: object) -> bytes:
    return protocol.frame(protocol.error(SqlError(number, *parts)), 1)


def rows(*values: object, status: int = AUTOCOMMIT) -> bytes:
    """Return the reply with rows of one value each."""
    cells = [[None if value is None else str(value).encode()] for value in values]
    return protocol.frames(protocol.result([Field("value", LONGLONG)], cells, status), 1)


class Server:
    """Builds the recording of a server with two sessions. All times are ms; without ``replied`` there is no reply."""

    def __init__(self) -> None:
        self.traffic = Traffic("mysql-single")
        for number in (1, 2):
            self.open(number, number)

    def open(self, connection: int, arrived: float, user: str = protocol.ACCOUNT, flags: int = 0) -> Server:
        greeting = protocol.frame(protocol.greeting(FIRST_ID + connection, SALT, AUTOCOMMIT), 0)
        self.traffic.open(connection, arrived).add("out", arrived + 0.1, connection=connection, data=greeting)
        self.traffic.bytes(connection, arrived + 0.2, arrived + 0.5, login(user, flags=flags), ok())
        return self

    def ask(self, connection: int, arrived: float, replied: float | None, text: str, reply: bytes = b"") -> Server:
        """Send a statement; the reply is OK unless it is given."""
        self.traffic.bytes(connection, arrived, replied, query(text), reply or ok())
        return self

    def value(self, connection: int, arrived: float, replied: float | None, call: str, value: object) -> Server:
        """Call a function, which returns a value."""
        return self.ask(connection, arrived, replied, f"SELECT {call}", rows(value))

    def lock(
        self, connection: int, arrived: float, replied: float | None, value: object = 1, wait_s: float = 9
    ) -> Server:
        return self.value(connection, arrived, replied, f"GET_LOCK('k', {wait_s})", value)

    def try_lock(self, connection: int, arrived: float, replied: float, *, granted: bool) -> Server:
        return self.lock(connection, arrived, replied, int(granted), 0)

    def unlock(self, connection: int, arrived: float, replied: float | None, value: object = 1) -> Server:
        return self.value(connection, arrived, replied, "RELEASE_LOCK('k')", value)

    def table(self) -> Server:
        """Make a table with one row."""
        created = self.ask(1, 3, 4, "CREATE TABLE t (k INT PRIMARY KEY, n INT, until DATETIME(6)) ENGINE=InnoDB")
        return created.ask(1, 5, 6, "INSERT INTO t (k, n) VALUES (1, 0)", ok(1))

    def hang_up(self, connection: int, at: float, by: str = "client") -> Server:
        self.traffic.add("end", at, connection=connection, by=by)
        return self

    def restart(self, killed: float, started: float, how: str = "kept") -> Server:
        self.traffic.add("kill", killed, killed + 1).add("start", started, started + 1, how=how)
        return self

    def check(self, **options: Any) -> ServerTrace:
        return check_recording(self.traffic.recording(), options)

    @property
    def state(self) -> str:
        return self.check().state
