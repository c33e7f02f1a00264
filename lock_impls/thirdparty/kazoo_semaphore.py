"""kazoo's own semaphore, ``kazoo.recipe.lock.Semaphore`` with one lease, unmodified; tested with kazoo 2.11.0.

Its documentation promises that it "operates in the same manner as the Python threading version" with ``max_leases``
leases (1 by default), and that it "is not meant to be re-entrant". In fact a second acquire of the same object succeeds
at once, and the first release of the two gives the lease back. With one lease it is a mutex, and it is run as such. It
promises no order among waiters. They queue for a kazoo Lock that lets one of them at a time look for a lease, so they
are served in that queue's order. A client without a listener is not notified of a loss: ``is_acquired`` stays True, and
``still_valid`` is ``is_acquired``. It issues no fence; this adapter reads the czxid of the lease's node.

Requests: those of kazoo's Lock on ``PATH-__lock__``, then get_children of PATH, create ``PATH/UUID`` (ephemeral) and
exists. After a broken connection it starts again, without limit and without an error. The time-out of the session is
the ttl.
Source: kazoo/recipe/lock.py.

Safe for: correctness, if the resource refuses a czxid below the highest it has seen.

Known failures: zk-pause, zk-stale-flag, kz-semaphore-twice (see above), kz-semaphore-orphan (python-zk/kazoo#429, #430:
a lost clean-up leaves a node in the queue, and the next acquire creates another one behind it).
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from kazoo.recipe.lock import Semaphore

from harness.lock_impls.base import Endpoints, Failure, LockInfo
from harness.lock_impls.zookeeper_client import DEATH, KINDS, OUTAGE, REQUIRES, ZooKeeperSession, paused_holder

from .kazoo_recipes import LIBRARY, KazooAdapter


class KazooSemaphore(KazooAdapter):
    info: ClassVar = LockInfo(
        name="kazoo-semaphore",
        title="kazoo's own Semaphore recipe with one lease, unmodified",
        algorithm="take a kazoo Lock beside it, create PATH/UUID (ephemeral) if there is none, release the Lock.",
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
            "Operates in the same manner as the Python threading version, with leases that are available; not meant to "
            "be re-entrant. After LOST it's certain that the lease has been lost."
        ),
        failures=(
            paused_holder("kazoo-semaphore"),
            Failure(
                "zk-stale-flag",
                "its session has ended, but is_acquired stays True",
                "harness run kazoo-semaphore --nemesis client-pause --discipline checking --hold 1s",
            ),
            Failure(
                "kz-semaphore-twice",
                "a holder can acquire it a second time, and the first of the two releases frees it",
                "harness run kazoo-semaphore --nemesis none --workload reentrant",
            ),
        ),
    )

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        session = ZooKeeperSession(endpoints, ttl)
        return cls(session, Semaphore(session.client, f"/locks/{key}", max_leases=1))

    def node(self, recipe: Any) -> str:
        return str(recipe.create_path)
