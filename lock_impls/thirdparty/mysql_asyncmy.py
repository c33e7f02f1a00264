"""MySQL lock with GET_LOCK on asyncmy, an asyncio client without a lock of its own; tested with asyncmy 0.2.18.

The lock of :mod:`harness.lock_impls.mysql_get_lock` with another client library. It is not reentrant here: asyncmy is
for one task at a time, and this lock refuses a second acquire.

Commands: ``SELECT GET_LOCK(name, seconds)`` · ``SELECT RELEASE_LOCK(name)``, on one connection, which is opened again
after it was lost. A call that waits for longer than :data:`TIMEOUT_S` for an answer is ended by ``asyncio.timeout``, as
users do, since asyncmy's own ``read_timeout`` is off by default.
Source: MySQL manual, "Locking Functions"; asyncmy/connection.pyx.

Safe for: what mysql-get-lock is safe for.

Known failures: getlock-reconnect, getlock-idle, db-async-failover, getlock-multi-primary.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Final

import asyncmy
from asyncmy.errors import MySQLError

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.mysql_client import KINDS, REQUIRES, TIMEOUT_S
from harness.lock_impls.mysql_get_lock import GetLock

LONGEST_WAIT_S: Final = 3.0
"""Longest wait of one statement."""


class AsyncmyGetLock:
    info: ClassVar = LockInfo(
        name="mysql-asyncmy",
        title="GET_LOCK, RELEASE_LOCK on asyncmy",
        algorithm="SELECT GET_LOCK(name, seconds) = 1; SELECT RELEASE_LOCK(name) = 1.",
        source="MySQL manual, Locking Functions; asyncmy 0.2.18, asyncmy/connection.pyx",
        safety="F?",
        kinds=KINDS,
        requires=("asyncmy==0.2.18", *REQUIRES),
        library="asyncmy 0.2.18",
        promises="The client has no lock; MySQL's own 'is released explicitly by executing RELEASE_LOCK() or "
        "implicitly when your session terminates'.",
        asynchronous=True,
        on_death=GetLock.info.on_death,
        outage=GetLock.info.outage,
        failures=(
            Failure("getlock-reconnect", "the session is lost, and the holder goes on",
                    "harness run mysql-asyncmy --nemesis connection-reset --hold 1s"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        (self._host, self._port), *_ = endpoints.addresses
        self._login = {"user": endpoints.user, "password": endpoints.password, "db": endpoints.database}
        self._key = key
        self._connection: Any = None
        self._held = False

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> AsyncmyGetLock:  # noqa: ARG003
        """Ignore ``ttl``: the lock lasts as long as the connection."""
        return cls(endpoints, key)

    async def acquire(self, timeout: float) -> Grant | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while not self._held:
            wait = min(LONGEST_WAIT_S, max(0.0, round(deadline - loop.time(), 3)))
            self._held = await self._ask("SELECT GET_LOCK(%s, %s)", self._key, wait, patience=wait + TIMEOUT_S) == 1
            if self._held:
                return Grant()
            if loop.time() >= deadline:
                return None
        raise LockError(f"{self._key} is held by this client")

    async def release(self) -> None:
        held, self._held = self._held, False
        if not held or self._connection is None:
            raise LockError(f"{self._key} is not held by this client")
        if await self._ask("SELECT RELEASE_LOCK(%s)", self._key, patience=TIMEOUT_S) != 1:
            raise LockError(f"{self._key} is not held by this session")

    async def _ask(self, statement: str, *arguments: Any, patience: float) -> Any:
        try:
            async with asyncio.timeout(patience):
                if self._connection is None:
                    self._connection = await asyncmy.connect(host=self._host, port=self._port, **self._login)
                async with self._connection.cursor() as cursor:
                    await cursor.execute(statement, arguments)
                    ((answer,),) = await cursor.fetchall()
            return answer
        except (MySQLError, OSError) as error:
            if self._connection is not None:
                self._connection.close()
            self._connection, self._held = None, False
            raise Indeterminate(f"{type(error).__name__}: {error}") from error
