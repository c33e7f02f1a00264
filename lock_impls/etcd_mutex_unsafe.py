"""The queue of ``etcd-mutex`` with the bug of etcd 3.4: a waiter does not check that its own key still exists when the
older keys are gone.

etcd's Lock RPC and Go's concurrency.Mutex had this bug.
Requests: as ``etcd-mutex``, on a lease without keep-alives that is new for each acquire. With ``keep_alive`` one
session is used throughout, whatever the outcomes of its requests.
Source: etcd-io/etcd#11456 (fixed in 3.5.0), #22082; Jepsen's analysis of etcd 3.4.3.

Safe for: nothing. A client that waits for longer than its lease is granted a lock without having a key, beside the
holder that has one. A late delete of an earlier hold's key ends a later hold (etcd-stale-unlock).

Known failures: etcd-11456, etcd-stale-unlock, ttl-overrun (without keep-alive), and those of ``etcd-mutex``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from .base import Endpoints, Failure, LockInfo
from .etcd_client import KINDS, OVERTIME_S, REQUIRES, ClientLease
from .etcd_mutex import ON_DEATH, OUTAGE, EtcdMutex, failures
from .origins import model_of

MUTEX_3_4: Final = model_of(
    "concurrency.Mutex and the Lock RPC", "etcd", "3.4.23", "clientv3/concurrency/mutex.go, line 70"
)


class UnsafeEtcdMutex(EtcdMutex):
    info: ClassVar = LockInfo(
        name="etcd-mutex-unsafe",
        title="etcd's Lock RPC of 3.4: no check of the own key after waiting",
        algorithm=(
            "As etcd-mutex, but the lock counts as held when the older keys are gone, even if the own key is gone too."
        ),
        source="etcd-io/etcd#11456; Jepsen etcd 3.4.3",
        safety="X",
        kinds=KINDS,
        requires=REQUIRES,
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
                "a waiter's lease ends during the wait, and it is granted the lock all the same",
                "harness run etcd-mutex-unsafe --hold 1.5s --clients 5",
            ),
            *failures("etcd-mutex-unsafe"),
        ),
        origin=MUTEX_3_4,
    )

    def __init__(self, endpoints: Endpoints, key: str, ttl: float, keep_alive: bool = False) -> None:
        super().__init__(endpoints, key, ttl)
        self._keep_alive = keep_alive

    def _new_session(self, answer_by: float) -> ClientLease:
        if self._keep_alive:
            return super()._new_session(answer_by)
        return ClientLease(self.members, self.ttl, answer_by)

    def _begin_session(self, answer_by: float) -> None:
        if not self._keep_alive:
            self.session = None
        super()._begin_session(answer_by)

    def _valid_for(self) -> float | None:
        """State no end while a thread keeps the session alive, as in Go, where only Session.Done tells of it."""
        return None if self._keep_alive else super()._valid_for()

    def _check_session(self, listing: Sequence[tuple[bytes, int]], mine: int) -> None:
        """Check nothing: this is the bug."""

    def _end_doubtful_session(self) -> None:
        """Keep the session: this is the bug of etcd-stale-unlock."""
