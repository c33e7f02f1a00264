"""A lock in the manner of Chubby, on etcd: a session with a grace period, a sequencer, and a lock-delay.

Requests: as ``etcd-mutex``, and then ``Txn`` "if the own key is there and key.holder is not then put key.holder" ·
while it holds: keep-alives; when they are not answered for a ttl the session is in *jeopardy*, and :meth:`still_valid`
blocks until one is answered (it goes on) or the grace period is over (it is lost) · release: ``Txn`` "if the own key is
there then delete it and key.holder".
Source: Burrows, "The Chubby lock service", OSDI 2006, 2.4 (sequencers, lock-delay), 2.8 (sessions); article 003.

How an ungraceful loss is known: ``key.holder`` names the holder's generation, is bound to no lease, and only a release
deletes it. Whoever is first in the queue and finds it knows that its predecessor went by the end of its lease, and
waits ``lock_delay`` seconds (an option, 1 by default) before it takes the lock: requests of the predecessor that are
still on their way arrive in that time. Chubby counts from the loss, this lock from when it sees it. The next try of the
same client goes on with the same wait.
``grace`` (3 s by default; 45 s in Chubby) helps where a new leader of etcd has extended the lease.

The fence is the generation, which is the own key's create revision; :meth:`ChubbyLock.sequencer` has it with name and
mode. For ttls see ``etcd-mutex``.
Safe for: correctness, together with a resource that checks the generation. Without that, the lock-delay covers delays
that are shorter than it.
Known failures: etcd-pause, ttl-pause-write, ttl-check-then-pause, ttl-net-delay (beyond the lock-delay; all saved by
the fence), etcd-lease-clock-back, watchdog-zombie, lost-reply-acquire (until the ttl).
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from lock_impls.base import Endpoints, LockError, LockInfo
from lock_impls.etcd_client import KINDS, OVERTIME_S, PATIENCE_S, Lease, Session
from lock_impls.etcd_mutex import EXPIRED, ON_DEATH, OUTAGE, EtcdMutex, failures, hung_holder

GRACE_S = 3.0
LOCK_DELAY_S = 1.0
LOOK_S = 0.05
"""How often a session in jeopardy is looked at."""


class ChubbyLock(EtcdMutex):
    info: ClassVar = LockInfo(
        name="chubby-etcd",
        title="Chubby's session, sequencer and lock-delay on etcd",
        algorithm="As etcd-mutex; a record that only a release deletes tells of a lost holder: wait lock_delay then.",
        source="article 003; Burrows, OSDI 2006",
        safety="F",
        kinds=KINDS,
        fence=True,
        queue=True,
        options={"grace": GRACE_S, "lock_delay": LOCK_DELAY_S},
        on_death=f"{ON_DEATH}, and the lock-delay",
        outage=OUTAGE,
        no_single_point=True,
        overtime=OVERTIME_S + LOCK_DELAY_S,
        failures=(*failures("chubby-etcd"), hung_holder("chubby-etcd")),
    )

    def __init__(
        self, endpoints: Endpoints, key: str, ttl: float, grace: float = GRACE_S, lock_delay: float = LOCK_DELAY_S
    ) -> None:
        super().__init__(endpoints, key, ttl)
        self.holder = f"{key}.holder"
        self._grace = grace
        self._lock_delay = lock_delay
        self._lost: tuple[bytes, float] | None = None  # a lost holder's generation, and when it was found

    def sequencer(self) -> tuple[str, str, int] | None:
        """Name, mode and generation, to be handed to servers with each request; None if it is not held."""
        return None if self.fence is None else (self.key, "exclusive", self.fence)

    def still_valid(self) -> bool:
        """False once the session is lost; blocks while it is in jeopardy."""
        while self.fence is not None and self.session.jeopardy():
            time.sleep(LOOK_S)
        return super().still_valid()

    def _new_session(self, answer_by: float) -> Lease:
        return Session(self.endpoints, self.ttl, answer_by, self._grace)

    def _wait_in_queue(self, until: float, answer_by: float) -> int | None:
        mine = super()._wait_in_queue(until, answer_by)
        if mine is None:
            return None
        own, lost = self.own, None
        while (lost := self._take(own, mine, lost)) is not None:
            if self._lost is None or self._lost[0] != lost:
                self._lost = (lost, time.monotonic())
            due = self._lost[1] + self._lock_delay
            if due > until:
                time.sleep(max(0.0, until - time.monotonic()))
                return None
            time.sleep(max(0.0, due - time.monotonic()))
            if self.session.lost():
                raise LockError(EXPIRED)
        self._lost = None
        return mine

    def _take(self, own: str, mine: int, lost: bytes | None) -> bytes | None:
        """Become the holder that is on record, in the place of none or of ``lost``. Returns the generation of another
        that is on record: it was lost, since the own key is the oldest."""

        def take(client: Any) -> Any:
            keys = client.transactions
            before = keys.create(self.holder) == 0 if lost is None else keys.value(self.holder) == lost
            return client.transaction(
                compare=[keys.create(own) == mine, before],
                success=[keys.put(self.holder, str(mine))],
                failure=[keys.get(own), keys.get(self.holder)],
            )

        taken, found = self.members.insist(take, time.monotonic() + PATIENCE_S)
        if taken:
            return None
        there, holders = found
        if not there:
            raise LockError(EXPIRED)
        generation: bytes = holders[0][0] if holders else b""
        return None if generation == str(mine).encode() else generation or None  # its own: the answer was lost

    def _remove(self, fence: int) -> None:
        own, before = self.own, self.members.unanswered

        def give_back(client: Any) -> Any:
            keys = client.transactions
            return client.transaction(
                compare=[keys.create(own) == fence], success=[keys.delete(own), keys.delete(self.holder)], failure=[]
            )

        given_back, _ = self.members.insist(give_back, time.monotonic() + PATIENCE_S)
        if not given_back and (self.session.lost() or self.members.unanswered == before):
            raise LockError(f"{self.key} is not held any more: its session has expired")
