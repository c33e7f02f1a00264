"""What committed requests do to the store: server/etcdserver/apply.go. All members apply the same in the same order.

Messages are those of etcd3's generated code, which the clients use too. Abstracted: quotas, alarms, authentication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from etcd3 import etcdrpc
from etcd3.etcdrpc import kv_pb2

from ...grpc_wire import Failed
from .checks import key_not_found
from .lessor import Lessor, lease_not_found
from .store import KeyValue, Store, compacted, future

_TARGETS: Final = {
    etcdrpc.RangeRequest.KEY: attrgetter("key"),
    etcdrpc.RangeRequest.VERSION: attrgetter("version"),
    etcdrpc.RangeRequest.CREATE: attrgetter("create"),
    etcdrpc.RangeRequest.MOD: attrgetter("mod"),
    etcdrpc.RangeRequest.VALUE: attrgetter("value"),
}
_ABSENT: Final = KeyValue(b"", 0)


def message_of(kv: KeyValue) -> Any:
    return kv_pb2.KeyValue(
        key=kv.key,
        mod_revision=kv.mod,
        create_revision=kv.create,
        version=kv.version,
        value=kv.value,
        lease=kv.lease,
    )


def range_response(store: Store, request: Any) -> Any:
    found = store.range(request.key, request.range_end, request.revision)
    response = etcdrpc.RangeResponse(count=len(found))
    response.header.revision = store.seen
    if request.count_only:
        return response
    if not _sifts(request) and request.limit > 0:  # etcd looks no further, even if it sorts what it has found
        found = found[: request.limit + 1]
    found = [kv for kv in found if _wanted(request, kv)]
    found = _sorted(request, found)
    if 0 < request.limit < len(found):
        found = found[: request.limit]
        response.more = True
    response.kvs.extend(map(message_of, found))
    if request.keys_only:
        for kv in response.kvs:
            kv.value = b""
    return response


def _sifts(request: Any) -> bool:
    return bool(
        request.sort_order
        or request.min_mod_revision
        or request.max_mod_revision
        or request.min_create_revision
        or request.max_create_revision
    )


def _wanted(request: Any, kv: KeyValue) -> bool:
    return not (
        (request.max_mod_revision and kv.mod > request.max_mod_revision)
        or (request.min_mod_revision and kv.mod < request.min_mod_revision)
        or (request.max_create_revision and kv.create > request.max_create_revision)
        or (request.min_create_revision and kv.create < request.min_create_revision)
    )


def _sorted(request: Any, found: list[KeyValue]) -> list[KeyValue]:
    by = _TARGETS.get(request.sort_target)
    if by is None or (not request.sort_order and request.sort_target == etcdrpc.RangeRequest.KEY):
        return found
    return sorted(found, key=by, reverse=request.sort_order == etcdrpc.RangeRequest.DESCEND)


_REQUESTS: Final = {
    "put": etcdrpc.PutRequest,
    "delete": etcdrpc.DeleteRangeRequest,
    "txn": etcdrpc.TxnRequest,
    "compact": etcdrpc.CompactionRequest,
    "grant": etcdrpc.LeaseGrantRequest,
    "revoke": etcdrpc.LeaseRevokeRequest,
}


@lru_cache(maxsize=64)
def _parsed(method: str, data: bytes) -> Any:
    """The request in an entry, which nobody may change: all members parse the same ones within a moment."""
    return _REQUESTS[method].FromString(data)


def is_readonly(txn: Any) -> bool:
    return all(
        kind == "request_range" or (kind == "request_txn" and is_readonly(op.request_txn))
        for op in [*txn.success, *txn.failure]
        for kind in [op.WhichOneof("request")]
    )


def is_serializable(txn: Any) -> bool:
    """May a read-only transaction be answered by any member, however stale? As etcd: nested ones make it not so."""
    return all(
        op.WhichOneof("request") == "request_range" and op.request_range.serializable
        for op in [*txn.success, *txn.failure]
    )


class Applier:
    """A member's state: the store and the leases. ``on_changes`` is told what each transaction has changed."""

    def __init__(self, store: Store, lessor: Lessor, on_changes: Callable[[list[KeyValue]], None]) -> None:
        self.store = store
        self.lessor = lessor
        self._on_changes = on_changes
        self._asked = True
        """Does anybody want a response? Transactions take long to put into words."""
        self._methods: dict[str, Callable[[Any], Any]] = {
            "put": self._put_alone,
            "delete": self._delete,
            "txn": self._txn,
            "compact": self._compact,
            "grant": self._grant,
            "revoke": self._revoke,
        }

    def apply(self, method: str, data: bytes, *, asked: bool) -> Any:
        """Do what a log entry says; the response, without the header's names, to who is ``asked``. Raises Failed."""
        self._asked = asked
        try:
            return self._methods[method](_parsed(method, data))
        finally:
            changes = self.store.commit()
            if changes:
                self._on_changes(changes)

    def _put_alone(self, request: Any) -> Any:
        self._check_lease(request)
        self._check_old(request)
        return self._put(request)

    def _check_lease(self, request: Any) -> None:
        if request.lease and request.lease not in self.lessor.leases:
            raise lease_not_found()

    def _check_old(self, request: Any) -> None:
        if (request.ignore_value or request.ignore_lease) and not self.store.range(request.key, b""):
            raise key_not_found()

    def _put(self, request: Any) -> Any:
        response = etcdrpc.PutResponse()
        value, lease = request.value, request.lease
        old = self.store.at(request.key, self.store.seen)
        if old is not None:
            if request.ignore_value:
                value = old.value
            if request.ignore_lease:
                lease = old.lease
            if request.prev_kv:
                response.prev_kv.CopyFrom(message_of(old))
        self.store.put(request.key, value, lease)
        response.header.revision = self.store.seen
        return response

    def _delete(self, request: Any) -> Any:
        doomed = self.store.range(request.key, request.range_end)
        self.store.delete(doomed)
        response = etcdrpc.DeleteRangeResponse(deleted=len(doomed))
        if request.prev_kv:
            response.prev_kvs.extend(map(message_of, doomed))
        response.header.revision = self.store.seen
        return response

    # Transactions: all comparisons, nested ones too, are made before anything is changed.

    def read(self, request: Any) -> Any:
        """A transaction that only reads."""
        self._asked = True
        return self._txn(request)

    def _txn(self, request: Any) -> Any:
        path: list[bool] = []
        self._choose(request, path)
        self._check(request, iter(path), self._check_put_op)
        self._check(request, iter(path), self._check_range_op)
        response = self._do(request, iter(path))
        response.header.revision = self.store.seen
        return response

    def _choose(self, txn: Any, path: list[bool]) -> None:
        success = all(self._holds(compare) for compare in txn.compare)
        path.append(success)
        for op in txn.success if success else txn.failure:
            if op.WhichOneof("request") == "request_txn":
                self._choose(op.request_txn, path)

    def _holds(self, compare: Any) -> bool:
        found: Iterable[KeyValue] = self.store.range(compare.key, compare.range_end)
        if not found:
            if compare.target == etcdrpc.Compare.VALUE:
                return False
            found = [_ABSENT]
        return all(_compare(compare, kv) for kv in found)

    def _check(self, txn: Any, path: Any, check: Callable[[str, Any], None]) -> None:
        for op in txn.success if next(path) else txn.failure:
            kind = op.WhichOneof("request")
            if kind == "request_txn":
                self._check(op.request_txn, path, check)
            else:
                check(kind, getattr(op, kind))

    def _check_put_op(self, kind: str, request: Any) -> None:
        if kind == "request_put":
            self._check_old(request)  # first here, and second in a put by itself
            self._check_lease(request)

    def _check_range_op(self, kind: str, request: Any) -> None:
        if kind == "request_range" and request.revision:
            if request.revision > self.store.revision:
                raise future()
            if request.revision < self.store.compact_revision:
                raise compacted()

    def _do(self, txn: Any, path: Any) -> Any:
        success = next(path)
        response = etcdrpc.TxnResponse(succeeded=success)
        response.header.SetInParent()
        for op in txn.success if success else txn.failure:
            kind = op.WhichOneof("request")
            if kind == "request_range" and not self._asked:
                continue
            done = _DONE[kind](self, op, path)
            if self._asked:
                response.responses.add(**{kind.replace("request", "response"): done})
        return response

    # The rest.

    def _compact(self, request: Any) -> Any:
        self.store.compact(request.revision)
        response = etcdrpc.CompactionResponse()
        response.header.revision = self.store.revision
        return response

    def _grant(self, request: Any) -> Any:
        lease = self.lessor.grant(request.ID, request.TTL)
        response = etcdrpc.LeaseGrantResponse(ID=lease.id, TTL=lease.ttl)
        response.header.revision = self.store.revision
        return response

    def _revoke(self, request: Any) -> Any:
        self.lessor.revoke(request.ID)
        for key in sorted(self.store.leases.pop(request.ID, ())):
            self.store.delete(self.store.range(key, b""))
        response = etcdrpc.LeaseRevokeResponse()
        response.header.revision = self.store.seen
        return response


_DONE: Final[dict[str, Callable[[Applier, Any, Any], Any]]] = {
    "request_range": lambda applier, op, _: range_response(applier.store, op.request_range),
    "request_put": lambda applier, op, _: applier._put(op.request_put),
    "request_delete_range": lambda applier, op, _: applier._delete(op.request_delete_range),
    "request_txn": lambda applier, op, path: applier._do(op.request_txn, path),
}


def _compare(compare: Any, kv: KeyValue) -> bool:
    have, want = {
        etcdrpc.Compare.VALUE: (kv.value, compare.value),
        etcdrpc.Compare.VERSION: (kv.version, compare.version),
        etcdrpc.Compare.CREATE: (kv.create, compare.create_revision),
        etcdrpc.Compare.MOD: (kv.mod, compare.mod_revision),
        etcdrpc.Compare.LEASE: (kv.lease, compare.lease),
    }[compare.target]
    return bool(
        {
            etcdrpc.Compare.EQUAL: have == want,
            etcdrpc.Compare.NOT_EQUAL: have != want,
            etcdrpc.Compare.GREATER: have > want,
            etcdrpc.Compare.LESS: have < want,
        }[compare.result]
    )


__all__ = ["Applier", "Failed", "is_readonly", "is_serializable", "message_of", "range_response"]
