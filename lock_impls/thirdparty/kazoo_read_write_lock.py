"""kazoo's own read-write lock, ``kazoo.recipe.lock.WriteLock`` and ``ReadLock`` on one path, unmodified; tested with
kazoo 2.11.0.

Its documentation promises that "the write lock can not be acquired if it is held by any readers or writers", that "the
read lock blocks if it is held by any writers, but multiple readers may hold the lock", and that neither is re-entrant
("repeated calls after already acquired will block"). As for kazoo's Lock, after LOST it is certain that the lock has
been lost. About ``timeout`` it says "don't wait forever to acquire the lock". A client without a listener is not
notified of a loss: ``is_acquired`` stays True, and ``still_valid`` is ``is_acquired``.

``acquire`` takes the WriteLock, ``acquire_shared`` the ReadLock. The fence is the czxid of the node, which this adapter
reads as a user would (one request more).

Requests: those of kazoo-lock, with nodes called ``__rlock__`` for readers. A writer waits for the youngest contender
before it, a reader for the youngest writer before it. The time-out of the session is the ttl.
Source: kazoo/recipe/lock.py.

Safe for: correctness, if the resource refuses a writer's czxid below the highest it has seen, and a reader's below the
highest of writers.

Known failures: zk-pause, zk-stale-flag, kz-orphan (python-zk/kazoo#732); kz-timeout-anew: a writer's waiting time
starts again whenever the reader that it waits for has left, so with n readers it may wait n times as long.
"""

from __future__ import annotations

from typing import ClassVar, Self

from kazoo.recipe.lock import ReadLock, WriteLock

from harness.lock_impls.base import Endpoints, Failure, Grant, LockInfo
from harness.lock_impls.zookeeper_client import DEATH, KINDS, OUTAGE, REQUIRES, ZooKeeperSession, paused_holder

from .kazoo_recipes import LIBRARY, KazooAdapter


class KazooReadWriteLock(KazooAdapter):
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
        requires=REQUIRES,
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
            paused_holder("kazoo-read-write-lock"),
            Failure(
                "zk-stale-flag",
                "a writer's session has ended and readers have the lock, but the writer's is_acquired stays True",
                "harness run kazoo-read-write-lock --nemesis client-pause --discipline checking --hold 1s "
                "--workload readers-writers",
            ),
        ),
    )

    def __init__(self, session: ZooKeeperSession, path: str) -> None:
        super().__init__(session, WriteLock(session.client, path))
        self.readers = ReadLock(session.client, path)

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        return cls(ZooKeeperSession(endpoints, ttl), f"/locks/{key}")

    def acquire_shared(self, timeout: float) -> Grant | None:
        return self._take(self.readers, timeout)
