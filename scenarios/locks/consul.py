"""Consul's session lock with the answer of the Go client's library (``consul lock``)."""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Grant, LockError
from harness.lock_impls.consul_session import ConsulSessionLock
from harness.lock_impls.origins import model_of


class IgnoresLostSession(ConsulSessionLock):
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

    def acquire(self, timeout: float) -> Grant | None:
        if self.fence is not None:
            raise LockError("Lock already held")
        grant = super().acquire(timeout)
        return None if grant is None else Grant(fence=grant.fence)

    def still_valid(self) -> bool:
        return self.fence is not None
