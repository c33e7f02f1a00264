"""kazoo's own lock, ``kazoo.recipe.lock.Lock`` (ZooKeeper), unmodified; tested with kazoo 2.11.0.

Its documentation promises an exclusive lock that is not reentrant ("repeated calls after already acquired will block"),
and tells users to add a listener: after LOST "it's certain that the lock and/or the lease has been lost". The lock
itself does not listen: ``is_acquired`` stays True until ``release()``, and ``release()`` returns True for a node that
is gone. ``still_valid`` is ``is_acquired``, because the class offers nothing else.

It issues no fence. This adapter uses the czxid of the node that the recipe made, which it reads as a user would (one
request more than the lock makes).

Requests: the recipe of zookeeper-sequential, with ``get`` for the watch. The time-out of the session is the ttl.
Source: kazoo/recipe/lock.py.

Safe for: correctness, if the resource refuses a czxid below the highest it has seen.

Known failures: zk-pause, zk-stale-flag, kz-orphan (python-zk/kazoo#732), chubby-late.
"""

from __future__ import annotations

from typing import ClassVar, Self

from kazoo.recipe.lock import Lock

from harness.lock_impls.base import Endpoints, Failure, LockInfo
from harness.lock_impls.zookeeper_client import DEATH, KINDS, OUTAGE, REQUIRES, ZooKeeperSession, paused_holder

from .kazoo_recipes import LIBRARY, KazooAdapter


class KazooLock(KazooAdapter):
    info: ClassVar = LockInfo(
        name="kazoo-lock",
        title="kazoo's own Lock recipe, unmodified",
        algorithm="create UUID__lock__N (ephemeral, sequential); the lowest N holds; others watch their predecessor.",
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
            "An exclusive lock, not re-entrant: repeated calls after already acquired will block. Highly recommended "
            "to add a listener; after LOST it's certain that the lock has been lost."
        ),
        failures=(
            paused_holder("kazoo-lock"),
            Failure(
                "zk-stale-flag",
                "its session has ended, but is_acquired stays True",
                "harness run kazoo-lock --nemesis client-pause --discipline checking --hold 1s",
            ),
        ),
    )

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        session = ZooKeeperSession(endpoints, ttl)
        return cls(session, Lock(session.client, f"/locks/{key}"))
