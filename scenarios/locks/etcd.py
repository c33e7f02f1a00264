"""etcd locks with documented mistakes, one class for each, for scenarios; some classes are the cures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from etcd3.exceptions import WatchTimedOut
from etcd3.locks import Lock

from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError
from harness.lock_impls.etcd_client import ANSWER_S, PATIENCE_S, EtcdMembers, MemberUnanswered, whole_seconds
from harness.lock_impls.etcd_mutex import EtcdMutex
from harness.lock_impls.etcd_mutex_unsafe import MUTEX_3_4, UnsafeEtcdMutex
from harness.lock_impls.origins import mistake, model_of, use_of
from harness.lock_impls.thirdparty.etcd3_lock import Etcd3Lock

POLL_S = 0.05
LATER_S = 0.3
SLOW_START_S = 2.5


class UnlocksOnceMore(UnsafeEtcdMutex):
    """etcd-stale-unlock: an unanswered unlock is repeated later by the name of the key.

    Meanwhile its session has locked again, with a key of the same name, which the repetition deletes.
    """

    origin: ClassVar = model_of(
        "Unlock, which deletes the key by name,",
        "etcd's Go client",
        "3.6.14",
        "client/v3/concurrency/mutex.go, line 144",
    )

    _released = 0

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl, keep_alive=True)

    def _remove(self, fence: int) -> None:
        self._released = fence
        super()._remove(fence)

    def _delete(self) -> bool:
        own = self.own
        try:
            deleted: bool = self.members.ask(lambda client: client.delete(own))
        except MemberUnanswered as error:
            threading.Thread(target=self._once_more, args=(own, self._released), daemon=True).start()
            raise Indeterminate(str(error)) from error
        return deleted

    def _once_more(self, own: str, revision: int) -> None:
        while self.fence is None:
            time.sleep(POLL_S)
        time.sleep(LATER_S)
        repeated = partial(self.deletion, own=own, revision=revision)
        EtcdMembers(self.endpoints).insist(repeated, time.monotonic() + PATIENCE_S)

    def deletion(self, client: Any, own: str, revision: int) -> object:
        """Repeat the deletion of the key ``own``, whose create revision was ``revision``."""
        return client.delete(own)


class UnlocksOnceMoreByRevision(UnlocksOnceMore):
    """etcd-stale-unlock, cured: the repetition deletes the key only if it is still that of the earlier hold."""

    origin: ClassVar = UnlocksOnceMore.origin.fixed("a repeated delete compares the create revision")

    def deletion(self, client: Any, own: str, revision: int) -> object:
        keys = client.transactions
        return client.transaction(compare=[keys.create(own) == revision], success=[keys.delete(own)], failure=[])


class ChecksItsKey(UnsafeEtcdMutex):
    """etcd-11456, cured: the waiter checks that its own key still exists (etcd since 3.5.0)."""

    origin: ClassVar = MUTEX_3_4.fixed("the last listing must contain the waiter's own key (3.5.0)")

    def _check_session(self, listing: Sequence[tuple[bytes, int]], mine: int) -> None:
        EtcdMutex._check_session(self, listing, mine)


class CancelledAtHandOver(EtcdMutex):
    """etcd-cancel: its time runs out when its turn comes; it deletes its key and reports that it holds the lock
    (Go's client before 3.4)."""

    origin: ClassVar = model_of(
        "Lock with a cancelled context", "etcd's Go client", "3.3.9", "clientv3/concurrency/mutex.go, line 74"
    )

    def _wait_in_queue(self, until: float, answer_by: float) -> int | None:
        mine = super()._wait_in_queue(until, answer_by)
        if mine is not None and time.monotonic() >= until:
            self._delete()
        return mine


class LeavesItsKey(EtcdMutex):
    """etcd-cancel: it stops waiting, its clean-up fails unnoticed, and its session goes on with the key in the
    queue."""

    origin: ClassVar = model_of(
        "TryLock, whose clean-up may fail,", "etcd's Go client", "3.6.14", "client/v3/concurrency/mutex.go, line 65"
    )

    def _leave_queue(self) -> None:
        return


class ForgetsItsKey(EtcdMutex):
    """lost-reply-acquire: it asks once, with a new session for each try; a thread keeps alive the session of a try
    whose answer was lost."""

    origin: ClassVar = mistake(
        "a put whose answer was lost and that its client forgets", "ZooKeeper's recipes (the guid), here for etcd"
    )

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
    """fo-equality: its token is the number of its lease, as in etcd's contrib/lock. Each member numbers leases in
    its own range, so the numbers have no order."""

    origin: ClassVar = model_of(
        "the example of a lock with fencing", "etcd's contrib/lock", "3.5.0", "contrib/lock/client/client.go, line 188"
    )

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        return None if grant is None else Grant(fence=self.session.id, valid_for=grant.valid_for)


class AsksWithoutQuorum(EtcdMutex):
    """etcd-old-leader: it checks its key with a serializable read, which a member answers from its own data even if
    it is partitioned from all others."""

    origin: ClassVar = mistake(
        "a check of the own key with a serializable read", "etcd-io/etcd#12528, #15247 and #20616"
    )

    def still_valid(self) -> bool:
        own, fence = self.own, self.fence
        until = time.monotonic() + 2 * PATIENCE_S
        found = self.members.insist(lambda client: client.get_response(own, serializable=True), until)
        return any(entry.create_revision == fence for entry in found.kvs)


class TrustsRefresh(Etcd3Lock):
    """pyetcd-refresh-dead: a user of python-etcd3's own lock assumes that the lease lasts if a refresh raises no
    error. The refresh of an ended lease raises none either."""

    origin: ClassVar = use_of(
        "python-etcd3", "0.12.0", "a refresh whose answer it does not read", "etcd3/locks.py, line 118"
    )

    def still_valid(self) -> bool:
        self._outcome(self._lock.refresh)
        return True


class ChecksRefreshedTtl(Etcd3Lock):
    """pyetcd-refresh-dead, cured: the user reads the remaining time of the lease, and the answer to the refresh."""

    origin: ClassVar = TrustsRefresh.origin.fixed("the program reads the remaining time in the answer")

    def acquire(self, timeout: float) -> Grant | None:
        if super().acquire(timeout) is None:
            return None
        return Grant(valid_for=max(0.0, float(self._outcome(lambda: self._lock.lease.remaining_ttl))))

    def still_valid(self) -> bool:
        return all(answer.TTL > 0 for answer in self._outcome(self._lock.refresh))


class ReadsRevision(Etcd3Lock):
    """ttl-net-delay: the program reads the create revision of its key after each acquire, for a resource that checks
    fencing tokens."""

    info: ClassVar = replace(Etcd3Lock.info, fence=True)
    origin: ClassVar = use_of(
        "python-etcd3", "0.12.0", "the create revision of its key as its fencing token", "etcd3/locks.py"
    )

    def acquire(self, timeout: float) -> Grant | None:
        if super().acquire(timeout) is None:
            return None
        found = self._outcome(lambda: self._lock.etcd_client.get_response(self._lock.key)).kvs
        if not found or found[0].value != self._lock.uuid:
            raise LockError(f"{self._lock.key} is not held by this client any more")
        return Grant(fence=found[0].create_revision)


class IsSlowToWatch(Etcd3Lock):
    """pyetcd-missed-delete: python-etcd3's own lock in a process that is slow: it requests the watch a while after
    each failed try."""

    origin: ClassVar = use_of(
        "python-etcd3",
        "0.12.0",
        "a pause between a failed try and its watch",
        "etcd3/locks.py; kragniz/python-etcd3#1107",
    )

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl)
        client = self._lock.etcd_client
        client.watch_once = partial(_slow_watch, client.watch_once)


class WatchesFromItsTry(IsSlowToWatch):
    """pyetcd-missed-delete, cured as in python-etcd3's development version (since commit 9f6d0ca): the watch begins
    at the revision at which the lock was found taken. The process is as slow."""

    origin: ClassVar = IsSlowToWatch.origin.fixed("the watch begins at the revision of the failed try (commit 9f6d0ca)")

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        super().__init__(endpoints, key, ttl)
        self._lock = _FromItsTry(key, ttl=whole_seconds(ttl), etcd_client=self._lock.etcd_client)


def _slow_watch(watch: Callable[..., Any], *key_and_timeout: Any, **options: Any) -> Any:
    time.sleep(SLOW_START_S)
    return watch(*key_and_timeout, **options)


class _FromItsTry(Lock):  # type: ignore[misc]
    def acquire(self, timeout: float = 10) -> bool:
        until = time.monotonic() + timeout
        keys = self.etcd_client.transactions
        while True:
            self.lease = self.etcd_client.lease(self.ttl)
            put = keys.put(self.key, self.uuid, lease=self.lease.id)
            taken, answers = self.etcd_client.transaction(
                compare=[keys.create(self.key) == 0], success=[put], failure=[keys.get(self.key)]
            )
            if taken:
                return True
            self.lease.revoke()
            self.lease = None
            remaining = until - time.monotonic()
            if remaining <= 0:
                return False
            revision = answers[0][0][1].response_header.revision
            with suppress(WatchTimedOut):
                self.etcd_client.watch_once(self.key, remaining, start_revision=revision + 1)
