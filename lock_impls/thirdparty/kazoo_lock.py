"""kazoo's own lock, ``kazoo.recipe.lock.Lock``, unmodified; tested with kazoo 2.11.0.

Its documentation promises an exclusive lock that is not reentrant ("repeated calls after already acquired will block"),
and tells users to add a listener: after LOST "it's certain that the lock and/or the lease has been lost". It does not
look by itself: ``is_acquired`` stays True until ``release()``, and ``release()`` returns True for a node that is gone.
:meth:`still_valid` is ``is_acquired``, as the class has nothing else. It issues no fence; ZooKeeper has one, the czxid
of the node that the recipe made, which this adapter reads as a user would (one request more than the lock makes).

Requests: the recipe of zookeeper-sequential with ``get`` for the watch. The time-out of the session is the ttl.
Source: kazoo/recipe/lock.py.

Safe for: correctness, together with a resource that refuses a czxid below the highest it has seen.
Known failures: zk-pause, zk-stale-flag, kz-orphan (python-zk/kazoo#732), chubby-late.
"""

from __future__ import annotations

from typing import ClassVar, Self

from kazoo.exceptions import LockTimeout, NoNodeError
from kazoo.recipe.lock import Lock

from lock_impls.base import Endpoints, Failure, Grant, LockError, LockInfo
from lock_impls.zookeeper_client import DEATH, KINDS, OUTAGE, Session, known_outcome, pausing


class KazooLock:
    info: ClassVar = LockInfo(
        name="kazoo-lock",
        title="kazoo's own Lock recipe, unmodified",
        algorithm="create UUID__lock__N (ephemeral, sequential); the lowest N holds; others watch their predecessor.",
        source="kazoo 2.11.0, kazoo/recipe/lock.py",
        safety="F",
        kinds=KINDS,
        fence=True,
        queue=True,
        on_death=DEATH,
        outage=OUTAGE,
        no_single_point=True,
        failures=(
            pausing("kazoo-lock"),
            Failure(
                "zk-stale-flag",
                "its session has ended, and is_acquired stays True",
                "harness run kazoo-lock --nemesis client-pause --discipline checking --hold 1s",
            ),
        ),
    )

    def __init__(self, session: Session, key: str) -> None:
        self.session = session
        self.lock = Lock(session.client, f"/locks/{key}")
        self._unread = False  # got, and its fence not read: nobody knows of it, and it would block its own client too

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        return cls(Session(endpoints, ttl), key)

    def acquire(self, timeout: float) -> Grant | None:
        self.session.connect()
        with known_outcome():
            if self._unread:
                self.lock.release()
                self._unread = False
            try:
                gotten = self.lock.acquire(timeout=timeout) if timeout > 0 else self.lock.acquire(blocking=False)
            except LockTimeout:
                return None
            if not gotten:
                return None
            self._unread = True
            grant = Grant(fence=self._czxid())
            self._unread = False
            return grant

    def _czxid(self) -> int:
        try:
            return int(self.session.again(self.session.ask, "exists", f"{self.lock.path}/{self.lock.node}").czxid)
        except (AttributeError, NoNodeError) as error:
            raise LockError("the session has ended, and the node with it") from error

    def release(self) -> None:
        with known_outcome():
            if not self.lock.release():
                raise LockError(f"{self.lock.path} is not held by this client")

    def still_valid(self) -> bool:
        return bool(self.lock.is_acquired)
