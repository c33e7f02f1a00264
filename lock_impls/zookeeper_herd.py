"""One ephemeral node that all who wait are watching: when it goes, they all come running, and one gets it.

Requests: ``create /locks/KEY`` EPHEMERAL; NodeExists: ``exists`` with a watch, and ``create`` again when it goes ·
``delete /locks/KEY``. Fence: the node's czxid.
Source: article 002 with a watch in place of the retry; ZooKeeper recipes, "Locks", which warn of the herd.

Safe for: what zookeeper-ephemeral is safe for; :attr:`woken` counts how often it was woken, which with n waiters is n
times for each release, where zookeeper-sequential wakes one.
Known failures: zk-herd, zk-pause, ttl-check-then-pause, chubby-late.
"""

from __future__ import annotations

from typing import ClassVar

from lock_impls.base import LockInfo
from lock_impls.zookeeper_client import DEATH, KINDS, OUTAGE, UNANSWERED, Signal, pausing
from lock_impls.zookeeper_ephemeral import EphemeralLock


class HerdLock(EphemeralLock):
    info: ClassVar = LockInfo(
        name="zookeeper-herd",
        title="One exclusive ephemeral node that all waiters watch",
        algorithm="create /locks/KEY (ephemeral); if it exists, watch it, and try again when it goes.",
        source="articles 002, 003; ZooKeeper recipes",
        safety="F",
        kinds=KINDS,
        fence=True,
        on_death=DEATH,
        outage=OUTAGE,
        no_single_point=True,
        failures=(pausing("zookeeper-herd"),),
    )

    def wait(self, deadline: float) -> bool:
        signal = Signal()
        try:
            if self.session.ask("exists", self.path, signal) is None:
                return True
        except UNANSWERED:
            return super().wait(deadline)
        return self.await_signal(signal, deadline)
