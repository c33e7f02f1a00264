"""ZooKeeper lock with one ephemeral node that all waiters watch: when it is deleted all of them wake (the "herd"), and
one gets the lock.

Requests: acquire is ``create /locks/KEY`` EPHEMERAL; after NodeExists: ``exists`` with a watch, and ``create``
again when the node is deleted · release is ``delete /locks/KEY``. Fence: the node's czxid.
Source: article 002 with a watch in place of the retry; ZooKeeper recipes, "Locks", which warn of the herd.

Safe for: what zookeeper-ephemeral is safe for. :attr:`woken` counts wake-ups: with n waiters each release causes n of
them, where zookeeper-sequential causes one.

Known failures: zk-herd, zk-pause, ttl-check-then-pause, chubby-late.
"""

from __future__ import annotations

from typing import ClassVar

from .base import LockInfo
from .zookeeper_client import DEATH, KINDS, OUTAGE, REQUIRES, UNANSWERED, Signal, paused_holder
from .zookeeper_ephemeral import EphemeralLock


class HerdLock(EphemeralLock):
    info: ClassVar = LockInfo(
        name="zookeeper-herd",
        title="One exclusive ephemeral node that all waiters watch",
        algorithm="create /locks/KEY (ephemeral); if it exists, watch it, and try again when it is deleted.",
        source="articles 002, 003; ZooKeeper recipes",
        safety="F",
        kinds=KINDS,
        requires=REQUIRES,
        fence=True,
        on_death=DEATH,
        outage=OUTAGE,
        no_single_point=True,
        failures=(paused_holder("zookeeper-herd"),),
    )

    def wait(self, deadline: float) -> bool:
        signal = Signal()
        try:
            if self.session.ask("exists", self.path, signal) is None:
                return True
        except UNANSWERED:
            return super().wait(deadline)
        return self.await_signal(signal, deadline)
