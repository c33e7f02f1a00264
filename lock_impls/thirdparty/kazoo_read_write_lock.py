"""kazoo's own read-write lock, ``kazoo.recipe.lock.WriteLock`` and ``ReadLock`` on one path, unmodified; tested with
kazoo 2.11.0.

Its documentation promises that "the write lock can not be acquired if it is held by any readers or writers", that "the
read lock blocks if it is held by any writers, but multiple readers may hold the lock", and that neither is re-entrant
("repeated calls after already acquired will block"); and, as of kazoo's Lock, that after LOST it is certain that the
lock has been lost. Of ``timeout`` it says "don't wait forever to acquire the lock". Nobody is told of a loss who has
added no listener: ``is_acquired`` stays True, and that is what ``still_valid`` is.

``acquire`` takes the WriteLock, ``acquire_shared`` the ReadLock; each has the czxid of its node for a fence, which this
adapter reads as a user would (one request more).

Requests: those of kazoo-lock, with nodes called ``__rlock__`` for readers. A writer waits for the youngest contender
before it, a reader for the youngest writer before it. The time-out of the session is the ttl. Source:
kazoo/recipe/lock.py.

Safe for: correctness, together with a resource that refuses a writer's czxid below the highest, and a reader's below
the highest of writers.
Known failures: zk-pause, zk-stale-flag, kz-orphan (python-zk/kazoo#732); kz-timeout-anew: the waiting time begins anew
whenever the one that a writer waits for has left, so that it may take as often that long as there are readers.
"""

from __future__ import annotations

from typing import ClassVar, Self

from kazoo.recipe.lock import ReadLock, WriteLock

from lock_impls.base import Endpoints, Failure, Grant, LockInfo
from lock_impls.thirdparty.kazoo_recipes import LIBRARY, KazooRecipe
from lock_impls.zookeeper_client import DEATH, KINDS, OUTAGE, Session, pausing


class KazooReadWriteLock(KazooRecipe):
    info: ClassVar = LockInfo(
        name="kazoo-read-write-lock",
        title="kazoo's own WriteLock and ReadLock recipes on one path, unmodified",
        algorithm=(
            "create UUID__lock__N or UUID__rlock__N (ephemeral, sequential); a writer waits for the youngest node "
            "before its own, a reader for the youngest writer's."
        ),
        source="kazoo 2.11.0, kazoo/recipe/lock.py",
        safety="F",
        kinds=KINDS,
        fence=True,
        queue=True,
        on_death=DEATH,
        outage=OUTAGE,
        no_single_point=True,
        library=LIBRARY,
        promises=(
            "The write lock can not be acquired if it is held by any readers or writers; the read lock blocks if it is "
            "held by any writers, but multiple readers may hold the lock. Not re-entrant. After LOST it's certain that "
            "the lock has been lost."
        ),
        failures=(
            pausing("kazoo-read-write-lock"),
            Failure(
                "zk-stale-flag",
                "a writer's session has ended, readers are in, and is_acquired stays True",
                "harness run kazoo-read-write-lock --nemesis client-pause --discipline checking --hold 1s "
                "--workload readers-writers",
            ),
        ),
    )

    def __init__(self, session: Session, path: str) -> None:
        super().__init__(session, WriteLock(session.client, path))
        self.readers = ReadLock(session.client, path)

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        return cls(Session(endpoints, ttl), f"/locks/{key}")

    def acquire_shared(self, timeout: float) -> Grant | None:
        return self._take(self.readers, timeout)
