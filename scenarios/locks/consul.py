"""Consul's session lock (``consul lock``), imitated on etcd leases and keys, because there is no Consul server here.

A client renews a session with a TTL, and acquires a key with the session. The key's index (Consul's LockIndex) grows
with every grant. When a session is lost nobody can acquire its key for a lock-delay. All of that is
:class:`harness.lock_impls.chubby_etcd.ChubbyEtcdLock` without a grace period. Consul's own numbers are at least 10 s
for the TTL and 15 s for the lock-delay; here they are the ttl and one second.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Endpoints, Grant, LockError
from harness.lock_impls.chubby_etcd import ChubbyEtcdLock
from harness.lock_impls.origins import model_of


class IgnoresLostSession(ChubbyEtcdLock):
    """consul-isolated: the agent is partitioned, and the child process of ``consul lock`` goes on.

    Asked whether it holds the lock, the client says "Lock already held", from a flag of its own that only an answer of
    the servers resets.
    """

    origin: ClassVar = model_of(
        "the lock of the Go client, which answers from its own flag",
        "Consul",
        "of commit 14691f7e29",
        "api/lock.go, ErrLockHeld; hashicorp/consul#1290",
    )

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl, grace=0.0)

    def acquire(self, timeout: float) -> Grant | None:
        if self.fence is not None:
            raise LockError("Lock already held")
        grant = super().acquire(timeout)
        return None if grant is None else Grant(fence=grant.fence)

    def still_valid(self) -> bool:
        return self.fence is not None


class StopsInTime(ChubbyEtcdLock):
    """consul-isolated, cured: the client knows how long its session certainly lasts, and ends its child process
    before."""

    origin: ClassVar = IgnoresLostSession.origin.fixed("the client ends its work before its session can have expired")

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl, grace=0.0)
