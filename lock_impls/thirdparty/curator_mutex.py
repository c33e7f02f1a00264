"""Apache Curator's ``InterProcessMutex`` (Java, on ZooKeeper), unmodified; tested with Curator 5.9.0 on Java 17.

Its documentation promises "fully distributed locks that are globally synchronous, meaning at any snapshot in time no
two clients think they hold the same lock", reentrant by thread. It "strongly recommends" a ConnectionStateListener:
after SUSPENDED "you cannot be certain that you still hold the lock unless you subsequently receive a RECONNECTED
state", after LOST "it is certain that you no longer hold the lock". :meth:`still_valid` is that listener. The mutex
itself does not listen: ``isAcquiredInThisProcess()`` stays true, a second acquire by the same thread succeeds from a
map without a request, and ``release()`` of a node that ended with its session returns without an error.

It issues no fence. The program uses the czxid of the lock's node, which it reads as a user would (``checkExists`` of
``getLockPath()``, a method for subclasses); that is one request more than the lock makes.

Requests: create ``_c_GUID-lock-N`` (ephemeral, sequential, protected: after a lost answer it searches for its GUID),
getChildren; a client that is not first does getData of its predecessor with a watch. The session's time-out is the ttl
(Curator's default is 60 s), a connection may take 1 s (15 s), the retry policy is ExponentialBackoffRetry(100 ms, 2).
The waiting time of a caller is measured by the *wall* clock.
Source: org/apache/curator/framework/recipes/locks/InterProcessMutex.java, LockInternals.java.

Safe for: correctness, if the resource refuses a czxid below the highest it has seen.

Known failures: zk-pause, zk-reentry (the program notices it, because it reads the fence).
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import LockInfo
from harness.lock_impls.java import CURATOR, LANGUAGE, RUN, RUNTIME
from harness.lock_impls.program import Checks
from harness.lock_impls.zookeeper_client import DEATH, KINDS, OUTAGE, paused_holder


class CuratorMutex(Checks):
    info: ClassVar = LockInfo(
        name="curator-mutex",
        title="Curator's InterProcessMutex, unmodified",
        algorithm="create _c_GUID-lock-N (ephemeral, sequential); the lowest N holds; others watch their predecessor.",
        source=f"{CURATOR}, recipes/locks/InterProcessMutex.java",
        safety="F",
        kinds=KINDS,
        fence=True,
        reentrant=True,
        queue=True,
        on_death=DEATH,
        outage=OUTAGE,
        no_single_point=True,
        language=LANGUAGE,
        library=CURATOR,
        promises=(
            "globally synchronous: at no moment do two clients think that they hold it, if they listen to the state of "
            "their connection"
        ),
        runtime=RUNTIME,
        failures=(paused_holder("curator-mutex", " --cluster docker"),),
    )
    command: ClassVar = RUN
