"""The same queue as ``etcd-mutex``, as etcd's Lock RPC and Go's concurrency.Mutex had it in 3.4: who waits does not
look whether its own key still exists when those before it have gone.

Requests: as ``etcd-mutex``, on a lease that nobody keeps alive, new for each acquire, unless ``keep_alive`` is true.
With it, one session goes on whatever became of its requests.
Source: etcd-io/etcd#11456 (fixed in 3.5.0), #22082; Jepsen's analysis of etcd 3.4.3.

Safe for: nothing. Who waits for longer than its lease is granted a lock that it has no key of, beside the holder that
has one; a late delete of an earlier hold's key ends a later hold (etcd-stale-unlock).
Known failures: etcd-11456, etcd-stale-unlock, ttl-overrun (without keep-alive), and those of ``etcd-mutex``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lock_impls.base import Endpoints, Failure, LockInfo
from lock_impls.etcd_client import KINDS, OVERTIME_S, Lease
from lock_impls.etcd_mutex import ON_DEATH, OUTAGE, EtcdMutex, failures


class UnsafeMutex(EtcdMutex):
    info: ClassVar = LockInfo(
        name="etcd-mutex-unsafe",
        title="etcd's Lock RPC of 3.4: no look at the own key after waiting",
        algorithm="As etcd-mutex; when the older keys are gone the lock is held, whether or not the own one is there.",
        source="etcd-io/etcd#11456; Jepsen etcd 3.4.3",
        safety="X",
        kinds=KINDS,
        fence=True,
        queue=True,
        options={"keep_alive": False},
        on_death=ON_DEATH,
        outage=OUTAGE,
        no_single_point=True,
        overtime=OVERTIME_S,
        failures=(
            Failure(
                "etcd-11456",
                "a waiter's lease ends while it waits, and it is granted the lock all the same",
                "harness run etcd-mutex-unsafe --hold 1.5s --clients 5",
            ),
            *failures("etcd-mutex-unsafe"),
        ),
    )

    def __init__(self, endpoints: Endpoints, key: str, ttl: float, keep_alive: bool = False) -> None:
        super().__init__(endpoints, key, ttl)
        self._keep_alive = keep_alive

    def _new_session(self, answer_by: float) -> Lease:
        if self._keep_alive:
            return super()._new_session(answer_by)
        return Lease(self.members, self.ttl, answer_by)

    def _begin_session(self, answer_by: float) -> None:
        if not self._keep_alive:
            self.session = None
        super()._begin_session(answer_by)

    def _check_session(self, listing: Sequence[tuple[bytes, int]], mine: int) -> None:
        """It does not."""

    def _end_doubtful_session(self) -> None:
        """It does not."""
