"""kazoo's own semaphore, ``kazoo.recipe.lock.Semaphore`` with one lease, unmodified; tested with kazoo 2.11.0.

Its documentation promises that it "operates in the same manner as the Python threading version" with ``max_leases``
leases (1 unless told otherwise), and says that it "is not meant to be re-entrant": in fact a second acquire of the same
object says yes at once, and the first release of the two gives the lease back. With one lease it is a mutex, and so it
is run here. No order among those who wait is promised; they queue for a kazoo Lock that lets one of them at a time look
for a lease, so they are served in it. Nobody is told that the lease is lost who has added no listener:
``is_acquired`` stays True, which is what ``still_valid`` is. It issues no fence; this adapter reads the czxid of the
lease's node.

Requests: those of kazoo's Lock on ``PATH-__lock__``, then get_children of PATH, create ``PATH/UUID`` (ephemeral) and
exists. A connection that breaks is not an error to it but a reason to begin again, without limit. The time-out of the
session is the ttl. Source: kazoo/recipe/lock.py.

Safe for: correctness, together with a resource that refuses a czxid below the highest it has seen.
Known failures: zk-pause, zk-stale-flag, kz-semaphore-twice (above), kz-semaphore-orphan (python-zk/kazoo#429, #430: a
clean-up that was lost leaves a node in the queue, and the next acquire makes another one behind it).
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from kazoo.recipe.lock import Semaphore

from lock_impls.base import Endpoints, Failure, LockInfo
from lock_impls.thirdparty.kazoo_recipes import LIBRARY, KazooRecipe
from lock_impls.zookeeper_client import DEATH, KINDS, OUTAGE, Session, pausing


class KazooSemaphore(KazooRecipe):
    info: ClassVar = LockInfo(
        name="kazoo-semaphore",
        title="kazoo's own Semaphore recipe with one lease, unmodified",
        algorithm="take a kazoo Lock beside it, create PATH/UUID (ephemeral) if there is none, give the Lock back.",
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
            "Operates in the same manner as the Python threading version, with leases that are available; not meant to "
            "be re-entrant. After LOST it's certain that the lease has been lost."
        ),
        failures=(
            pausing("kazoo-semaphore"),
            Failure(
                "zk-stale-flag",
                "its session has ended, and is_acquired stays True",
                "harness run kazoo-semaphore --nemesis client-pause --discipline checking --hold 1s",
            ),
            Failure(
                "kz-semaphore-twice",
                "who acquires it twice has it twice, and the first release of the two frees it",
                "harness run kazoo-semaphore --nemesis none --workload reentrant",
            ),
        ),
    )

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        session = Session(endpoints, ttl)
        return cls(session, Semaphore(session.client, f"/locks/{key}", max_leases=1))

    def node(self, recipe: Any) -> str:
        return str(recipe.create_path)
