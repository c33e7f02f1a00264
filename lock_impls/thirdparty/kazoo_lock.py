"""kazoo's own lock, ``kazoo.recipe.lock.Lock``, unmodified; tested with kazoo 2.11.0.

Its documentation promises an exclusive lock that is not reentrant ("repeated calls after already acquired will block"),
and tells users to add a listener: after LOST "it's certain that the lock and/or the lease has been lost". It does not
look by itself: ``is_acquired`` stays True until ``release()``, and ``release()`` returns True for a node that is gone.
``still_valid`` is ``is_acquired``, as the class has nothing else. It issues no fence; ZooKeeper has one, the czxid
of the node that the recipe made, which this adapter reads as a user would (one request more than the lock makes).

Requests: the recipe of zookeeper-sequential with ``get`` for the watch. The time-out of the session is the ttl.
Source: kazoo/recipe/lock.py.

Safe for: correctness, together with a resource that refuses a czxid below the highest it has seen.
Known failures: zk-pause, zk-stale-flag, kz-orphan (python-zk/kazoo#732), chubby-late.
"""

from __future__ import annotations

from typing import ClassVar, Self

from kazoo.recipe.lock import Lock

from lock_impls.base import Endpoints, Failure, LockInfo
from lock_impls.thirdparty.kazoo_recipes import LIBRARY, KazooRecipe
from lock_impls.zookeeper_client import DEATH, KINDS, OUTAGE, Session, pausing


class KazooLock(KazooRecipe):
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
        library=LIBRARY,
        promises=(
            "An exclusive lock, not re-entrant: repeated calls after already acquired will block. Highly recommended "
            "to add a listener; after LOST it's certain that the lock has been lost."
        ),
        failures=(
            pausing("kazoo-lock"),
            Failure(
                "zk-stale-flag",
                "its session has ended, and is_acquired stays True",
                "harness run kazoo-lock --nemesis client-pause --discipline checking --hold 1s",
            ),
        ),
    )

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        session = Session(endpoints, ttl)
        return cls(session, Lock(session.client, f"/locks/{key}"))
