"""ShedLock (Java) over a database, imitated statement for statement: the simulated twins of the scenarios
shedlock-*.java, which run the library itself.

A row for each task says until when it is locked. To lock, a client inserts the row, or updates it if ``lock_until`` has
passed. To unlock, it sets ``lock_until`` to now, and the row stays.
Source: ShedLock's JdbcTemplateLockProvider and its issues 74, 132, 231, 639, 2583 and 2584.
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import ClassVar, Final

from harness.lock_impls.base import Endpoints, Grant
from harness.lock_impls.mysql_client import KINDS, Busy, MysqlSession, RowLock, span
from harness.lock_impls.origins import model_of

ANSWER_S: Final = 10.0
"""Time-out for an answer: longer than a pause. JDBC drivers wait without limit unless they are told otherwise."""


class ShedLock(RowLock):
    """shedlock-skew, shedlock-unlock-foreign: times come from the application's clock, and unlocking a task needs only
    its name.

    So it was before ``usingDbTime``, and before unlock checked ``locked_by``.
    """

    origin: ClassVar = model_of(
        "the lock provider for JDBC", "ShedLock", "4.0.0", "JdbcTemplateStorageAccessor.java, lines 89 and 127"
    )
    kinds = KINDS

    TABLE = """CREATE TABLE IF NOT EXISTS shedlock (
        name VARCHAR(64) NOT NULL PRIMARY KEY,
        lock_until DATETIME(6) NOT NULL,
        locked_at DATETIME(6) NOT NULL,
        locked_by VARCHAR(255) NOT NULL,
        number INT NOT NULL
    ) ENGINE = InnoDB"""

    me = ""
    """The name in ``locked_by``, new for each grant."""

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl)
        self.session = MysqlSession(endpoints, self.TABLE, patience=ANSWER_S)

    def at(self, later: float) -> str:
        """Format the moment ``later`` seconds from now as an SQL expression."""
        moment = datetime.fromtimestamp(time.time() + later, UTC)
        return f"'{moment:%Y-%m-%d %H:%M:%S.%f}'"

    def try_lock(self) -> Grant | None:
        began, me = time.monotonic(), uuid.uuid4().hex
        now, until = self.at(0.0), self.at(self.ttl)
        try:
            new = f"INSERT INTO shedlock VALUES (%s, {until}, {now}, %s, 1)"
            self.session.execute(new, self.key, me)
        except Busy:
            change = (
                f"UPDATE shedlock SET lock_until = {until}, locked_at = {now}, locked_by = %s, number = number + 1 "
                f"WHERE name = %s AND lock_until <= {now}"
            )
            if not self.session.execute(change, me, self.key).count:
                return None
        self.me = me
        return Grant(valid_for=self.remaining(began))

    def unlock(self) -> bool:
        return bool(
            self.session.execute(f"UPDATE shedlock SET lock_until = {self.at(0.0)} WHERE name = %s", self.key).count
        )


class DatabaseTime(ShedLock):
    """shedlock-skew, cured: with ``usingDbTime()`` all times come from the server's one clock."""

    origin: ClassVar = ShedLock.origin.fixed("all times come from the database (usingDbTime)")

    def at(self, later: float) -> str:
        return f"ADDTIME(NOW(6), '{span(later)}')"


class OwnLockOnly(ShedLock):
    """shedlock-unlock-foreign, cured: unlock checks the owner, and the row counts its holders, as a fence for a
    resource. (ShedLock has no such number.)"""

    origin: ClassVar = ShedLock.origin.fixed("unlock names its owner, and each grant has a number")

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        if super().try_lock() is None:
            return None
        mine = "SELECT number FROM shedlock WHERE name = %s AND locked_by = %s"
        rows = self.session.execute(mine, self.key, self.me).rows
        # no row: the lease is over already
        return Grant(fence=rows[0][0], valid_for=self.remaining(began)) if rows else None

    def unlock(self) -> bool:
        free = f"UPDATE shedlock SET lock_until = {self.at(0.0)} WHERE name = %s AND locked_by = %s"
        return bool(self.session.execute(free, self.key, self.me).count)
