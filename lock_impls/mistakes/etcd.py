"""etcd locks that are wrong on purpose: each is one documented mistake, and the scenarios must notice it."""

from __future__ import annotations

import threading
import time
from typing import Any

from lock_impls.base import Endpoints, Grant, Indeterminate, LockError
from lock_impls.etcd_client import ANSWER_S, PATIENCE_S, Members, Unanswered
from lock_impls.etcd_mutex import EtcdMutex
from lock_impls.etcd_mutex_unsafe import UnsafeMutex

LOOK_S = 0.05
LATER_S = 0.3


class UnlocksOnceMore(UnsafeMutex):
    """etcd-stale-unlock: an unlock that was not answered is asked for once more, a while later, by the name of the
    key; its session locks again meanwhile, and has a key of the same name."""

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl, keep_alive=True)

    def _delete(self) -> bool:
        own = self.own
        try:
            deleted: bool = self.members.ask(lambda client: client.delete(own))
        except Unanswered as error:
            threading.Thread(target=self._once_more, args=(own,), daemon=True).start()
            raise Indeterminate(str(error)) from error
        return deleted

    def _once_more(self, own: str) -> None:
        while self.fence is None:
            time.sleep(LOOK_S)
        time.sleep(LATER_S)
        Members(self.endpoints).insist(lambda client: client.delete(own), time.monotonic() + PATIENCE_S)


class CancelledAtHandOver(EtcdMutex):
    """etcd-cancel: its time is over when its turn comes; it deletes its key, and says that it holds the lock (Go's
    client before 3.4)."""

    def _wait_in_queue(self, until: float, answer_by: float) -> int | None:
        mine = super()._wait_in_queue(until, answer_by)
        if mine is not None and time.monotonic() >= until:
            self._delete()
        return mine


class LeavesItsKey(EtcdMutex):
    """etcd-cancel: it gives up waiting, its clean-up fails, and nobody notices; the session goes on."""

    def _leave_queue(self) -> None:
        return


class ForgetsItsKey(EtcdMutex):
    """lost-reply-acquire: it asks once, and takes a session of its own for each try; that of a try whose answer was
    lost is kept alive by its thread."""

    def acquire(self, timeout: float) -> Grant | None:
        before = self.members.unanswered
        try:
            return super().acquire(timeout)
        except (LockError, Indeterminate):
            if self.members.unanswered > before:
                raise Indeterminate("not answered, and not looked after") from None
            raise

    def _enqueue(self, answer_by: float) -> Any:
        return super()._enqueue(answer_by - 10 * ANSWER_S)

    def _end_session(self) -> None:
        self.session = None


class LeaseAsFence(EtcdMutex):
    """fo-equality: the number of its lease is its token, as in etcd's contrib/lock; the members number their leases
    each in a range of its own, so that they have no order."""

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        return None if grant is None else Grant(fence=self.session.id, valid_for=grant.valid_for)
