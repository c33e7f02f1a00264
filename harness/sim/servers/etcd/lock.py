"""The Lock service of a simulated etcd: server/etcdserver/api/v3lock over clientv3/concurrency, as of 3.4.23.

Each waiter has a key of its own under the lock's name, on its lease, and waits until no older key is left. Kept is
what 3.4 does wrong (https://github.com/etcd-io/etcd/issues/11456): it does not look then whether its own key is still
there, so a waiter whose lease has expired in the queue is granted the lock too. Without a lease it gets one of 60 s.
Abstracted: the keep-alive that a session sends at its start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from etcd3 import etcdrpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ...grpc_wire import Call, Failed
from .checks import check_key
from .member import Answer, Member
from .store import KeyValue

SESSION_TTL: Final = 60
_FIELDS: Final = {
    "LockRequest": (("name", "bytes"), ("lease", "int64")),
    "LockResponse": (("header", "header"), ("key", "bytes")),
    "UnlockRequest": (("key", "bytes"),),
    "UnlockResponse": (("header", "header"),),
}


def _messages() -> dict[str, Any]:
    """The service's messages, which etcd3 has no generated code for (server/etcdserver/api/v3lock/v3lockpb)."""
    file = descriptor_pb2.FileDescriptorProto(
        name="v3lock.proto", package="v3lockpb", syntax="proto3", dependency=["rpc.proto"]
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            added = message.field.add(name=field, number=number, label=kinds.LABEL_OPTIONAL)
            if kind == "header":
                added.type, added.type_name = kinds.TYPE_MESSAGE, ".etcdserverpb.ResponseHeader"
            else:
                added.type = kinds.TYPE_BYTES if kind == "bytes" else kinds.TYPE_INT64
    pool = descriptor_pool.Default()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(pool.FindMessageTypeByName(f"v3lockpb.{name}")) for name in _FIELDS}


MESSAGES: Final = _messages()


class _Waiter:
    """A Lock call in the queue: it looks again whenever the key before it is deleted."""

    __slots__ = ("call", "key", "prefix", "revision", "waits_for")

    def __init__(self, call: Call, prefix: bytes, key: bytes, revision: int) -> None:
        self.call = call
        self.prefix = prefix
        self.key = key
        self.revision = revision
        self.waits_for = b""


class LockService:
    """Lock and Unlock on one member; ``answer`` sends what a call has come to."""

    def __init__(
        self, member: Member, new_lease: Callable[[Any, Answer], None], answer: Callable[[Call, Any], None]
    ) -> None:
        self._member = member
        self._new_lease = new_lease
        self._answer = answer
        self._waiters: dict[Call, _Waiter] = {}

    def stop(self) -> None:
        self._waiters.clear()

    def lock(self, call: Call, request: Any) -> None:
        if request.lease:
            self._queue(call, request.name, request.lease)
            return

        def granted(result: Any) -> None:
            if isinstance(result, Failed):
                self._answer(call, result)
            else:
                self._queue(call, request.name, result.ID)

        self._new_lease(etcdrpc.LeaseGrantRequest(TTL=SESSION_TTL), granted)

    def unlock(self, call: Call, request: Any) -> None:
        delete = etcdrpc.DeleteRangeRequest(key=request.key)
        check_key(delete)

        def done(result: Any) -> None:
            failed = isinstance(result, Failed)
            self._answer(call, result if failed else MESSAGES["UnlockResponse"](header=result.header))

        self._member.propose("delete", delete, done)

    def _queue(self, call: Call, name: bytes, lease: int) -> None:
        """If there is no key of this lease, put one; and see who is first."""
        prefix = name + b"/"
        key = prefix + b"%x" % lease
        absent = etcdrpc.Compare(target=etcdrpc.Compare.CREATE, result=etcdrpc.Compare.EQUAL, key=key)
        put = etcdrpc.RequestOp(request_put=etcdrpc.PutRequest(key=key, lease=lease))
        get = etcdrpc.RequestOp(request_range=etcdrpc.RangeRequest(key=key))
        txn = etcdrpc.TxnRequest(compare=[absent], success=[put], failure=[get])

        def queued(result: Any) -> None:
            if isinstance(result, Failed):
                self._answer(call, result)
                return
            revision = result.header.revision
            if not result.succeeded:
                revision = result.responses[0].response_range.kvs[0].create_revision
            self._waiters[call] = waiter = _Waiter(call, prefix, key, revision)
            self._look(waiter)

        self._member.propose("txn", txn, queued)

    def _look(self, waiter: _Waiter) -> None:
        """Wait for the youngest of the older keys, or hold the lock: nobody asks whether the own key is still there."""
        older = [kv for kv in self._member.store.range(waiter.prefix, waiter.prefix[:-1] + b"0")
                 if kv.create < waiter.revision]  # fmt: skip
        if older:
            waiter.waits_for = max(older, key=lambda kv: kv.create).key
            return
        del self._waiters[waiter.call]
        self._answer(waiter.call, MESSAGES["LockResponse"](header=etcdrpc.ResponseHeader(), key=waiter.key))

    def changed(self, changes: list[KeyValue]) -> None:
        """A transaction has been applied."""
        gone = {change.key for change in changes if not change.version}
        for waiter in list(self._waiters.values()):
            if waiter.waits_for in gone:
                self._member.host.call_later(0, self._look_again, waiter)

    def _look_again(self, waiter: _Waiter) -> None:
        if self._waiters.get(waiter.call) is waiter:
            self._look(waiter)

    def dropped(self, call: Call) -> None:
        """The client has given up: so does its key."""
        waiter = self._waiters.pop(call, None)
        if waiter is not None:
            self._member.propose("delete", etcdrpc.DeleteRangeRequest(key=waiter.key), lambda _: None)
