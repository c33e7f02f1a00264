"""ShedLock (Java) over a database, statement for statement; the library itself is not run here.

A row for each task says until when it is locked. Who wants the lock inserts the row, and where there is one updates it
if ``lock_until`` has passed; who gives it back sets ``lock_until`` to now, and the row stays.
Source: ShedLock's JdbcTemplateLockProvider and its issues 74, 132, 231, 639, 2583 and 2584.
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime

from lock_impls.base import Grant
from lock_impls.mysql_client import KINDS, Busy, RowLock, span


class ShedLock(RowLock):
    """shedlock-skew, shedlock-unlock-foreign: times are those of the application's clock, and to unlock a task it is
    enough to know its name, as in the versions before ``usingDbTime`` and before unlock asked for ``locked_by``."""

    kinds = KINDS

    TABLE = """CREATE TABLE IF NOT EXISTS shedlock (
        name VARCHAR(64) NOT NULL PRIMARY KEY,
        lock_until DATETIME(6) NOT NULL,
        locked_at DATETIME(6) NOT NULL,
        locked_by VARCHAR(255) NOT NULL,
        number INT NOT NULL
    ) ENGINE = InnoDB"""

    me = ""
    """Whom ``locked_by`` names: a new name for each grant."""

    def at(self, later: float) -> str:
        """The moment that is so many seconds from now, as an SQL expression."""
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
    """shedlock-skew, cured: ``usingDbTime()``, all times are those of the one clock of the server."""

    def at(self, later: float) -> str:
        return f"ADDTIME(NOW(6), '{span(later)}')"


class OwnLockOnly(DatabaseTime):
    """shedlock-unlock-foreign, cured: who unlocks says who he is, and the row counts its holders, for a resource to
    check. (ShedLock has no such number.)"""

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        if super().try_lock() is None:
            return None
        mine = "SELECT number FROM shedlock WHERE name = %s AND locked_by = %s"
        rows = self.session.execute(mine, self.key, self.me).rows
        return Grant(fence=rows[0][0], valid_for=self.remaining(began)) if rows else None  # none: it is over already

    def unlock(self) -> bool:
        free = f"UPDATE shedlock SET lock_until = {self.at(0.0)} WHERE name = %s AND locked_by = %s"
        return bool(self.session.execute(free, self.key, self.me).count)
