"""``leader``: clients that elect a leader by the lock, as schedulers do. Only the leader may act.

The holder of a key is its leader. It acts at the protected resource again and again, for as long as it relies on the
lock by its own clock, and prolongs the lease by ``extend`` where the lock has it. Some leaders are slow: they stop
acting, and extend when their lease is about to end, or over. If the lock then says that they still hold it, they go on.
A leader that is told otherwise steps down. The checker ``leadership`` counts acts of former leaders.
"""

from __future__ import annotations

import time
from typing import ClassVar, Final

from harness.worker.client import Client
from harness.worker.interfaces import Grant
from harness.worker.sections import grants

from .mutex import MutexWorkload

RELIED: Final = 0.8
"""Share of a lease for which a leader acts."""
BEAT: Final = 0.1
"""Time between two acts, as a share of the lease."""
TERM: Final = (0.2, 0.6)
"""Time for which a leader acts before it extends or steps down, as a share of the lease."""
MOST_EXTENDS: Final = 2
SLOW: Final = 0.4
"""Share of the leaders that extend late."""
LATE: Final = (0.5, 2.0)
"""For how long they stop before that, as a share of the lease."""


class LeaderWorkload(MutexWorkload):
    """One leader acts at a time: the holder of the lock, which extends its lease, sometimes too late."""

    name: ClassVar = "leader"
    rare: ClassVar = True
    leases: ClassVar = 2.0

    @staticmethod
    def run(client: Client) -> None:
        for key, grant in grants(client, lease_share=RELIED):
            if _Leader(client, key, grant).lead():
                client.release(key)


class _Leader:
    def __init__(self, client: Client, key: str, grant: Grant) -> None:
        self._client, self._key, self._grant = client, key, grant
        self._lease = client.lease(key)
        self._acts = 0
        self._told_until = 0.0
        """Until when (s, monotonic) the leader goes on because an extend said that the lock is held."""

    def lead(self) -> bool:
        """Return whether the lock is to be released: the leader was not told that it is lost."""
        client, rng = self._client, self._client.rng
        self._act(rng.uniform(*TERM))
        for _ in range(rng.randint(0, MOST_EXTENDS) if client.can_extend(self._key) else 0):
            if rng.random() < SLOW:
                client.sleep(rng.uniform(*LATE) * self._lease)
            began = time.monotonic()
            extended = client.extend(self._key)
            if not extended:
                return extended is None
            self._told_until = began + RELIED * self._lease
            self._act(rng.uniform(*TERM))
        return True

    def _act(self, share: float) -> None:
        """Act for this share of a lease, unless the leader stops relying on the lock before."""
        client, until = self._client, time.monotonic() + share * self._lease
        while time.monotonic() < until and (client.relies(self._key) or time.monotonic() < self._told_until):
            if not client.check(self._key):
                return
            self._acts += 1
            client.write(self._key, self._grant, {"act": self._acts})
            client.sleep(BEAT * self._lease)
