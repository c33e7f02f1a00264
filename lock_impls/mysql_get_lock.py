"""MySQL lock with GET_LOCK and RELEASE_LOCK: a named lock that belongs to the session (the connection).

Commands: ``SELECT GET_LOCK(name, seconds)``: 1 = held, 0 = busy, NULL = an error · ``SELECT RELEASE_LOCK(name)``: 1, or
0 or NULL if it was not held. A session may lock a name again, and must unlock it as often (since MySQL 5.7.5, MariaDB
10.0.2; before that a second GET_LOCK ended the first lock: getlock-second). Names have at most 64 characters: longer
keys are hashed.
Source: MySQL manual, "Locking Functions"; tooz's MySQL driver.

Safe for: cutting duplicate work, with one server and connections of one's own. The lock ends with the session. A pooler
may share the session, an idle time-out may close it, and a client library may replace it without telling the holder.
The lock is not replicated, and every server of a cluster has its own.

Known failures: getlock-reconnect, getlock-idle, late-acquire (until the server notices that the client is gone),
db-async-failover, getlock-multi-primary; in other setups: getlock-second, getlock-pooled.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any, ClassVar, Final, Self

from .base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from .mysql_client import KINDS, REQUIRES, MysqlSession, Unreachable
from .polling import poll

LONGEST_WAIT_S: Final = 3.0
"""Longest wait of one statement: a client that waits for long in a server notices late that the server is gone."""
LONGEST_NAME: Final = 64


class GetLock:
    info: ClassVar = LockInfo(
        name="mysql-get-lock",
        title="GET_LOCK, RELEASE_LOCK",
        algorithm="SELECT GET_LOCK(name, seconds) = 1; SELECT RELEASE_LOCK(name) = 1.",
        source="MySQL manual, Locking Functions; tooz",
        safety="F?",
        kinds=KINDS,
        requires=REQUIRES,
        reentrant=True,
        on_death=(
        "the server, when it notices that the connection is gone: at once, or after hours if the network does not "
        "report it"
),
        outage="the lock is lost with its server; unavailable until a server is back or promoted",
        failures=(
            Failure("getlock-reconnect", "the session is lost, and the holder goes on",
                    "harness run mysql-get-lock --nemesis connection-reset --hold 1s"),
            Failure("db-async-failover", "the server dies without the holder noticing",
                    "harness run mysql-get-lock --topology replicated --nemesis failover --ttl 8s --hold 4s"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        self.session = MysqlSession(endpoints, patience=LONGEST_WAIT_S + 1.0)
        self.key = key if len(key) <= LONGEST_NAME else hashlib.sha256(key.encode()).hexdigest()
        self.depth = 0

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:  # noqa: ARG003
        """Ignore ``ttl``: the lock lasts as long as the connection."""
        return cls(endpoints, key, **options)

    def acquire(self, timeout: float) -> Grant | None:
        deadline = time.monotonic() + timeout
        return poll(lambda: self._try(deadline - time.monotonic()), timeout, worth_another=Unreachable)

    def _try(self, patience: float) -> Grant | None:
        if not self.session.connected:
            self.depth = 0  # the locks of a session end with it
        wait = min(LONGEST_WAIT_S, max(0.0, round(patience, 3)))
        ((answer,),) = self.session.execute("SELECT GET_LOCK(%s, %s)", self.key, wait).rows
        if answer is None:
            raise LockError("GET_LOCK says NULL: it was killed, or memory ran out")
        if answer != 1:
            return None
        self.depth += 1
        return Grant()

    def still_valid(self) -> bool:
        """Ask the server over the session that the lock belongs to."""
        if not (self.depth and self.session.connected):
            return False
        try:
            ((mine,),) = self.session.execute("SELECT IS_USED_LOCK(%s) = CONNECTION_ID()", self.key).rows
        except (LockError, Indeterminate):
            return False
        return bool(mine)

    def release(self) -> None:
        if not self.depth:
            raise LockError(f"{self.key} is not held by this client")
        self.depth -= 1
        if not self.session.connected:
            self.depth = 0
            raise LockError(f"{self.key} was lost with its connection")
        ((answer,),) = self.session.execute("SELECT RELEASE_LOCK(%s)", self.key).rows
        if answer != 1:
            raise LockError(f"{self.key} is not held by this session")
