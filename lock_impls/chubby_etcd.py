"""A lock in the style of Chubby on etcd: a session with a grace period, a sequencer, and a lock-delay.

Requests: as ``etcd-mutex``, and then ``Txn`` "if the own key exists and key.holder does not then put key.holder" ·
while it holds: keep-alives; if they are not answered for a ttl, the session is in *jeopardy*, and :meth:`still_valid`
blocks until one is answered (the session goes on) or the grace period is over (it is lost) · release: ``Txn`` "if the
own key exists then delete it and key.holder".
Source: Burrows, "The Chubby lock service", OSDI 2006, 2.4 (sequencers, lock-delay), 2.8 (sessions); article 003.

How a loss without release is detected: ``key.holder`` stores the holder's generation, is bound to no lease, and only a
release deletes it. If the first client in the queue finds it, the predecessor's lease has ended without a release. The
client then waits ``lock_delay`` seconds (an option, 1 by default) before it takes the lock, so that late requests of
the predecessor can arrive. Chubby counts from the loss, this lock from when the client detects it. The client's next
try continues the same wait. ``grace`` (3 s by default; 45 s in Chubby) helps if a new leader of etcd has extended the
lease.

The fence is the generation, which is the own key's create revision; :meth:`ChubbyEtcdLock.sequencer` returns it with
name and mode. For ttls see ``etcd-mutex``.

Safe for: correctness, if the resource checks the generation. Without that, the lock-delay covers only delays that are
shorter than it.

Known failures: etcd-pause, ttl-pause-write, ttl-check-then-pause, ttl-net-delay (beyond the lock-delay; the fence
covers all of these), etcd-lease-clock-back, watchdog-zombie, lost-reply-acquire (until the ttl).
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from .base import Endpoints, LockError, LockInfo
from .etcd_client import KINDS, OVERTIME_S, PATIENCE_S, REQUIRES, ClientLease, EtcdSession
from .etcd_mutex import EXPIRED, ON_DEATH, OUTAGE, EtcdMutex, failures, hung_holder

GRACE_S = 3.0
LOCK_DELAY_S = 1.0
POLL_JEOPARDY_S = 0.05
"""Interval between checks of a session in jeopardy."""


class ChubbyEtcdLock(EtcdMutex):
    info: ClassVar = LockInfo(
        name="chubby-etcd",
        title="Chubby's session, sequencer and lock-delay on etcd",
        algorithm="As etcd-mutex; a record that only a release deletes shows a lost holder: then wait lock_delay.",
        source="article 003; Burrows, OSDI 2006",
        safety="F",
        kinds=KINDS,
        requires=REQUIRES,
        fence=True,
        queue=True,
        options={"grace": GRACE_S, "lock_delay": LOCK_DELAY_S},
        on_death=f"{ON_DEATH}; then the lock-delay",
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
        """Name, mode and generation, which clients send to servers with each request; None if the lock is not held."""
        return None if self.fence is None else (self.key, "exclusive", self.fence)

    def still_valid(self) -> bool:
        """False once the session is lost; blocks while it is in jeopardy."""
        while self.fence is not None and self.session.jeopardy():
            time.sleep(POLL_JEOPARDY_S)
        return super().still_valid()

    def _new_session(self, answer_by: float) -> ClientLease:
        return EtcdSession(self.endpoints, self.ttl, answer_by, self._grace)

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
        """Record ourselves as the holder, in place of none or of ``lost``.

        Returns None on success. Otherwise returns the generation of another recorded holder, which must have been lost,
        since the own key is the oldest.
        """

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
        # our own record: only the answer had been lost
        return None if generation == str(mine).encode() else generation or None

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
