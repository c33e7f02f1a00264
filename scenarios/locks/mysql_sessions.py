"""MySQL locks that belong to a session, used in wrong ways.

The client shares the session with others, uses a second lock in it, or locks on different servers.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from harness.lock_impls.base import Endpoints, Grant
from harness.lock_impls.mysql_client import KINDS, MysqlSession, StatementResult
from harness.lock_impls.mysql_for_update import ForUpdateLock
from harness.lock_impls.mysql_get_lock import LONGEST_WAIT_S, GetLock
from harness.lock_impls.mysql_unique import UniqueLock
from harness.lock_impls.origins import model_of, use_of

GALERA: Final = "10.11.19"
"""Release of MariaDB and Galera in the containers."""

# Two locks in one session.


ONE_NAME: Final = model_of("GET_LOCK", "MySQL", "before 5.7.5", "the MySQL manual, 'Locking Functions'")


class SecondName(GetLock):
    """Not a mistake since MySQL 5.7.5 and MariaDB 10.0.2: the holder takes another lock in the same session, under a
    name that nobody else uses."""

    origin: ClassVar = ONE_NAME.fixed("a second name does not end the first lock (5.7.5)")
    kinds = KINDS

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self.second = f"job-{uuid.uuid4().hex}"

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        if grant is not None:
            self._lock_second()
        return grant

    def _lock_second(self) -> None:
        self.session.execute("SELECT GET_LOCK(%s, 0)", self.second)

    def release(self) -> None:
        self.session.execute("SELECT RELEASE_LOCK(%s)", self.second)
        super().release()


class SecondFreesFirst(SecondName):
    """getlock-second: MySQL before 5.7.5 (and MariaDB before 10.0.2) ends the session's first lock when the session
    requests a second one.

    Such a server is not available here; this class does what it does.
    """

    origin: ClassVar = ONE_NAME

    def _lock_second(self) -> None:
        self.session.execute("SELECT RELEASE_LOCK(%s)", self.key)
        super()._lock_second()


# Sessions that a pooler lends


class Pooler:
    """A pooler like ProxySQL with multiplexing, or PgBouncer with ``pool_mode = transaction``: it lends another session
    for each transaction (here: each statement).

    It has the methods of a MysqlSession.
    """

    SIZE = 16

    def __init__(self, endpoints: Endpoints, *, resets: bool) -> None:
        """``resets``: clean a session when it is given back (PgBouncer's ``server_reset_query_always``)."""
        self._sessions = [MysqlSession(endpoints, patience=LONGEST_WAIT_S + 1.0) for _ in range(self.SIZE)]
        self._lent = itertools.cycle(self._sessions)
        self._resets = resets

    @property
    def connected(self) -> bool:
        """True if the pooler is connected; it always is."""
        return True

    def execute(self, statement: str, *arguments: Any) -> StatementResult:
        session = next(self._lent)
        answer = session.execute(statement, *arguments)
        if self._resets:
            session.execute("SELECT RELEASE_ALL_LOCKS()")  # the relevant part of COM_RESET_CONNECTION
        return answer


class PooledGetLock(GetLock):
    """getlock-pooled: the lock is acquired in one session and released in another one, which does not hold it."""

    origin: ClassVar = model_of(
        "transaction pooling",
        "PgBouncer",
        "with pool_mode = transaction, any release",
        "PgBouncer's manual, pool_mode; pgbouncer/pgbouncer#102, #418",
    )
    kinds = KINDS
    resets = False

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self.session = Pooler(endpoints, resets=self.resets)  # type: ignore[assignment]


class PooledAndResetGetLock(PooledGetLock):
    """getlock-pooled: the pool cleans the session as soon as it is back, and the lock is gone."""

    origin: ClassVar = model_of(
        "transaction pooling with a reset after each transaction",
        "PgBouncer",
        "with server_reset_query_always, any release",
        "PgBouncer's manual, server_reset_query_always",
    )
    resets = True


# Several servers, each with its own locks


def _balanced(endpoints: Endpoints, table: str = "") -> Iterator[MysqlSession]:
    """Return sessions on the servers in turn, as a load balancer in front of Galera gives them to a client."""
    places = [Endpoints(endpoints.kind, (one,), account=endpoints.account) for one in endpoints.addresses]
    return itertools.cycle([MysqlSession(place, table, patience=LONGEST_WAIT_S + 1.0) for place in places])


class AnyPrimary(GetLock):
    """getlock-multi-primary: each acquire goes to the next server."""

    origin: ClassVar = use_of(
        "MariaDB Galera Cluster",
        GALERA,
        "a load balancer that gives each GET_LOCK the next node",
        "MDEV-30473; github/gh-ost#224",
    )
    kinds: ClassVar[tuple[str, ...]] = ("mysql-galera",)

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self._next = _balanced(endpoints)

    def acquire(self, timeout: float) -> Grant | None:
        self.session = next(self._next)
        return super().acquire(timeout)


class AnyServer(AnyPrimary):
    """getlock-multi-primary.sim: servers that are not connected stand for the nodes, which share nothing about GET_LOCK
    either."""

    origin: ClassVar = model_of(
        "GET_LOCK, which each node keeps for itself,", "MariaDB Galera Cluster", GALERA, "MDEV-30473; github/gh-ost#224"
    )
    kinds: ClassVar[tuple[str, ...]] = ("mysql-single",)


class AnyPrimaryForUpdate(ForUpdateLock):
    """fu-multi-primary: each acquire goes to the next server. Row locks are the node's own, and a transaction that
    writes nothing is not certified."""

    origin: ClassVar = use_of(
        "MariaDB Galera Cluster",
        GALERA,
        "a load balancer that gives each SELECT ... FOR UPDATE the next node",
        "MariaDB's manual, 'MariaDB Galera Cluster - Known Limitations'",
    )
    kinds = ("mysql-galera",)

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self._next = _balanced(endpoints, self.TABLE)

    def acquire(self, timeout: float) -> Grant | None:
        self.session = next(self._next)
        return super().acquire(timeout)


class AnyPrimaryUnique(UniqueLock):
    """fu-multi-primary, cured: a row is inserted and committed. If two nodes do that at the same time, Galera certifies
    one of the transactions, and the other one fails with error 1213."""

    origin: ClassVar = AnyPrimaryForUpdate.origin.fixed("the lock is a committed row, which Galera certifies")
    kinds = ("mysql-galera",)

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl)
        self._next = _balanced(endpoints, self.TABLE)

    def acquire(self, timeout: float) -> Grant | None:
        self.session = next(self._next)
        return super().acquire(timeout)
