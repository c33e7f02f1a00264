"""The Lock gRPC service of a simulated etcd: server/etcdserver/api/v3lock with clientv3/concurrency, as of 3.4.23.

Each waiter puts a key under the lock's name, attached to its lease, and holds the lock when no older key is left. A
request without a lease gets one of 60 s. The bug of 3.4 is reproduced
(https://github.com/etcd-io/etcd/issues/11456): a waiter does not check that its own key still exists, so a waiter
whose lease expired in the queue is granted the lock, too. Abstracted: the keep-alive that a session sends at its start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from harness.sim.grpc_wire import ServerCall, StatusError

from . import messages
from .checks import check_key
from .member import Answer, Member
from .store import KeyValue

SESSION_TTL: Final = 60


class _LockWaiter:
    """A Lock call in the queue. It waits until the key ``waits_for``, the next older one, is deleted."""

    __slots__ = ("call", "key", "prefix", "revision", "waits_for")

    def __init__(self, call: ServerCall, prefix: bytes, key: bytes, revision: int) -> None:
        self.call = call
        self.prefix = prefix
        self.key = key
        self.revision = revision
        self.waits_for = b""


class LockService:
    """The calls Lock and Unlock on one member. ``answer`` sends a call's response or failure."""

    def __init__(
        self, member: Member, new_lease: Callable[[Any, Answer], None], answer: Callable[[ServerCall, Any], None]
    ) -> None:
        self._member = member
        self._new_lease = new_lease
        self._answer = answer
        self._waiters: dict[ServerCall, _LockWaiter] = {}

    def stop(self) -> None:
        self._waiters.clear()

    def lock(self, call: ServerCall, request: Any) -> None:
        """Queue a LockRequest, on a new lease if it names none; it is answered when the lock is granted."""
        if request.lease:
            self._enqueue(call, request.name, request.lease)
            return

        def granted(result: Any) -> None:
            if isinstance(result, StatusError):
                self._answer(call, result)
            else:
                self._enqueue(call, request.name, result.ID)

        self._new_lease(messages.LeaseGrantRequest(TTL=SESSION_TTL), granted)

    def unlock(self, call: ServerCall, request: Any) -> None:
        """Delete the key of an UnlockRequest. Raises StatusError if the key is empty."""
        delete = messages.DeleteRangeRequest(key=request.key)
        check_key(delete)

        def done(result: Any) -> None:
            failed = isinstance(result, StatusError)
            self._answer(call, result if failed else messages.UnlockResponse(header=result.header))

        self._member.propose("delete", delete, done)

    def _enqueue(self, call: ServerCall, name: bytes, lease: int) -> None:
        """Put the lease's key unless it exists, then wait for older keys to be deleted."""
        prefix = name + b"/"
        key = prefix + b"%x" % lease
        absent = messages.Compare(target=messages.Compare.CREATE, result=messages.Compare.EQUAL, key=key)
        put = messages.RequestOp(request_put=messages.PutRequest(key=key, lease=lease))
        get = messages.RequestOp(request_range=messages.RangeRequest(key=key))
        txn = messages.TxnRequest(compare=[absent], success=[put], failure=[get])

        def queued(result: Any) -> None:
            if isinstance(result, StatusError):
                self._answer(call, result)
                return
            revision = result.header.revision
            if not result.succeeded:
                revision = result.responses[0].response_range.kvs[0].create_revision
            self._waiters[call] = waiter = _LockWaiter(call, prefix, key, revision)
            self._grant_or_wait(waiter)

        self._member.propose("txn", txn, queued)

    def _grant_or_wait(self, waiter: _LockWaiter) -> None:
        """Grant the lock if no older key is left, otherwise wait for the youngest of them. As in 3.4, the waiter's own
        key is not checked."""
        older = [kv for kv in self._member.store.range(waiter.prefix, waiter.prefix[:-1] + b"0")
                 if kv.create < waiter.revision]  # fmt: skip
        if older:
            waiter.waits_for = max(older, key=lambda kv: kv.create).key
            return
        del self._waiters[waiter.call]
        self._answer(waiter.call, messages.LockResponse(header=messages.ResponseHeader(), key=waiter.key))

    def changed(self, changes: list[KeyValue]) -> None:
        """Check waiters again whose awaited key was deleted by an applied transaction."""
        gone = {change.key for change in changes if not change.version}
        for waiter in list(self._waiters.values()):
            if waiter.waits_for in gone:
                self._member.host.call_later(0, self._recheck, waiter)

    def _recheck(self, waiter: _LockWaiter) -> None:
        if self._waiters.get(waiter.call) is waiter:
            self._grant_or_wait(waiter)

    def dropped(self, call: ServerCall) -> None:
        """The client has cancelled its call: delete its key."""
        waiter = self._waiters.pop(call, None)
        if waiter is not None:
            self._member.propose("delete", messages.DeleteRangeRequest(key=waiter.key), lambda _: None)
