"""MySQL locks that belong to a session, used by who has not got the session for himself, or has another server's; and
an advisory lock whose names are hashed to two bytes."""

from __future__ import annotations

import hashlib
import itertools
import uuid
from typing import Any

from lock_impls.base import Endpoints, Grant
from lock_impls.mysql_client import KINDS, Result, Session
from lock_impls.mysql_get_lock import LONGEST_WAIT_S, GetLock

# Two locks in one session.


class SecondName(GetLock):
    """Not a mistake since MySQL 5.7.5 and MariaDB 10.0.2: who holds the lock takes another one in the same session,
    for a job that nobody else has."""

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
    """getlock-second: MySQL before 5.7.5 (and MariaDB before 10.0.2) ends the session's first lock when it is asked for
    a second one. Such a server cannot be had here: the class does what it does."""

    def _lock_second(self) -> None:
        self.session.execute("SELECT RELEASE_LOCK(%s)", self.key)
        super()._lock_second()


# Sessions that somebody else hands out.


class Pooler:
    """Lends a session for each transaction (here: each statement) and another one for the next, as ProxySQL with
    multiplexing and PgBouncer with ``pool_mode = transaction`` do. It has the methods of a Session."""

    SIZE = 16

    def __init__(self, endpoints: Endpoints, *, resets: bool) -> None:
        """``resets``: a session is cleaned when it is given back (PgBouncer's ``server_reset_query_always``)."""
        self._sessions = [Session(endpoints, patience=LONGEST_WAIT_S + 1.0) for _ in range(self.SIZE)]
        self._lent = itertools.cycle(self._sessions)
        self._resets = resets

    @property
    def connected(self) -> bool:
        """To the pooler, which is always there."""
        return True

    def execute(self, statement: str, *arguments: Any) -> Result:
        session = next(self._lent)
        answer = session.execute(statement, *arguments)
        if self._resets:
            session.execute("SELECT RELEASE_ALL_LOCKS()")  # of what COM_RESET_CONNECTION does, the part that matters
        return answer


class Pooled(GetLock):
    """getlock-pooled: the lock is taken in one session and given back in another one, where it is not held."""

    kinds = KINDS
    resets = False

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        self.session = Pooler(endpoints, resets=self.resets)  # type: ignore[assignment]


class PooledAndReset(Pooled):
    """getlock-pooled: the session is cleaned as soon as it is back in the pool, and the lock is gone."""

    resets = True


# Servers that have a lock each.


class AnyPrimary(GetLock):
    """getlock-multi-primary: each acquire goes to the next server, as a load balancer in front of Galera sends it."""

    kinds = ("mysql-single",)

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, key)
        places = [Endpoints(endpoints.kind, (one,), account=endpoints.account) for one in endpoints.addresses]
        self._next = itertools.cycle([Session(place, patience=LONGEST_WAIT_S + 1.0) for place in places])

    def acquire(self, timeout: float) -> Grant | None:
        self.session = next(self._next)
        return super().acquire(timeout)


# Names that are hashed.


class WholeHash(GetLock):
    """Not a mistake: an advisory lock by the whole MD5 of its name. The group is such that k0 and k1 begin alike."""

    kinds = KINDS
    GROUP = "group-152465"

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        super().__init__(endpoints, self.hashed(f"{self.GROUP}/{key}".encode()).hex())

    def hashed(self, name: bytes) -> bytes:
        return hashlib.md5(name, usedforsecurity=False).digest()


class TwoBytes(WholeHash):
    """pg-adv-collision: tooz's PostgresLock asks for pg_advisory_lock(a, b), where a and b are the first two bytes of
    the name's MD5. There is no PostgreSQL here: the same names, over GET_LOCK."""

    def hashed(self, name: bytes) -> bytes:
        return super().hashed(name)[:2]
