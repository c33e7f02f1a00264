"""Consul's session lock, on etcd: there is no Consul here, so what matters of it is made of leases and keys.

A session with a TTL that the client renews · a key that is acquired with the session, and whose index (Consul's
LockIndex) grows with every grant · when a session is lost its key is nobody's for a lock-delay, so that others wait ·
all of that is :class:`lock_impls.chubby_etcd.ChubbyLock` without a grace period. Consul's own numbers are 10 s at least
for the TTL and 15 s for the lock-delay; here the ttl and one second.
"""

from __future__ import annotations

from lock_impls.base import Endpoints, Grant, LockError
from lock_impls.chubby_etcd import ChubbyLock


class RunsOn(ChubbyLock):
    """consul-isolated: its agent is cut off, and the child of ``consul lock`` runs on: whoever asks the client whether
    it holds the lock is told "Lock already held", by a flag of its own that only an answer of the servers resets."""

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl, grace=0.0)

    def acquire(self, timeout: float) -> Grant | None:
        if self.fence is not None:
            raise LockError("Lock already held")
        grant = super().acquire(timeout)
        return None if grant is None else Grant(fence=grant.fence)

    def still_valid(self) -> bool:
        return self.fence is not None


class StopsInTime(ChubbyLock):
    """consul-isolated, cured: it knows how long its session surely lasts, and its child is ended by then."""

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl, grace=0.0)
