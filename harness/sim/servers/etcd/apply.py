"""Applies committed requests to a simulated etcd member's store and leases (server/etcdserver/apply.go).

All members apply the same requests in the same order. Requests and responses are messages of etcd3's generated code,
which clients use too. Abstracted: quotas, alarms, authentication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from harness.sim.grpc_wire import StatusError

from . import messages
from .checks import key_not_found
from .lessor import Lessor, lease_not_found
from .store import EtcdStore, KeyValue, compacted, future_revision

_TARGETS: Final = {
    messages.RangeRequest.KEY: attrgetter("key"),
    messages.RangeRequest.VERSION: attrgetter("version"),
    messages.RangeRequest.CREATE: attrgetter("create"),
    messages.RangeRequest.MOD: attrgetter("mod"),
    messages.RangeRequest.VALUE: attrgetter("value"),
}
_ABSENT: Final = KeyValue(b"", 0)


def message_of(kv: KeyValue) -> Any:
    """Return the protobuf KeyValue message."""
    return messages.KeyValue(
        key=kv.key,
        mod_revision=kv.mod,
        create_revision=kv.create,
        version=kv.version,
        value=kv.value,
        lease=kv.lease,
    )


def range_response(store: EtcdStore, request: Any) -> Any:
    """Execute a RangeRequest and return its RangeResponse. Raises StatusError for a compacted or future revision."""
    found = store.range(request.key, request.range_end, request.revision)
    response = messages.RangeResponse(count=len(found))
    response.header.revision = store.read_revision
    if request.count_only:
        return response
    if not _is_filtered_or_sorted(request) and request.limit > 0:  # etcd then applies the limit before it sorts
        found = found[: request.limit + 1]
    found = [kv for kv in found if _passes_filters(request, kv)]
    found = _sort_range(request, found)
    if 0 < request.limit < len(found):
        found = found[: request.limit]
        response.more = True
    response.kvs.extend(map(message_of, found))
    if request.keys_only:
        for kv in response.kvs:
            kv.value = b""
    return response


def _is_filtered_or_sorted(request: Any) -> bool:
    return bool(
        request.sort_order
        or request.min_mod_revision
        or request.max_mod_revision
        or request.min_create_revision
        or request.max_create_revision
    )


def _passes_filters(request: Any, kv: KeyValue) -> bool:
    return not (
        (request.max_mod_revision and kv.mod > request.max_mod_revision)
        or (request.min_mod_revision and kv.mod < request.min_mod_revision)
        or (request.max_create_revision and kv.create > request.max_create_revision)
        or (request.min_create_revision and kv.create < request.min_create_revision)
    )


def _sort_range(request: Any, found: list[KeyValue]) -> list[KeyValue]:
    by = _TARGETS.get(request.sort_target)
    if by is None or (not request.sort_order and request.sort_target == messages.RangeRequest.KEY):
        return found
    return sorted(found, key=by, reverse=request.sort_order == messages.RangeRequest.DESCEND)


_REQUESTS: Final = {
    "put": messages.PutRequest,
    "delete": messages.DeleteRangeRequest,
    "txn": messages.TxnRequest,
    "compact": messages.CompactionRequest,
    "grant": messages.LeaseGrantRequest,
    "revoke": messages.LeaseRevokeRequest,
}


@lru_cache(maxsize=64)
def _parse_request(method: str, data: bytes) -> Any:
    """Parse the request of an entry. It is shared, because all members apply an entry at about the same time, so
    it must not be changed."""
    return _REQUESTS[method].FromString(data)


def is_readonly(txn: Any) -> bool:
    """Return whether a TxnRequest changes nothing, whichever branch it takes."""
    return all(
        kind == "request_range" or (kind == "request_txn" and is_readonly(op.request_txn))
        for op in [*txn.success, *txn.failure]
        for kind in [op.WhichOneof("request")]
    )


def is_serializable(txn: Any) -> bool:
    """Return whether any member may answer a read-only transaction from possibly stale data. As in etcd, a nested
    transaction rules it out."""
    return all(
        op.WhichOneof("request") == "request_range" and op.request_range.serializable
        for op in [*txn.success, *txn.failure]
    )


class Applier:
    """Executes requests on one member's store and leases. ``on_changes`` is called with each transaction's changes."""

    def __init__(self, store: EtcdStore, lessor: Lessor, on_changes: Callable[[list[KeyValue]], None]) -> None:
        self.store = store
        self.lessor = lessor
        self._on_changes = on_changes
        self._wants_response = True
        """True to build the response of a transaction, which is slow."""
        self._methods: dict[str, Callable[[Any], Any]] = {
            "put": self._put_alone,
            "delete": self._delete,
            "txn": self._txn,
            "compact": self._compact,
            "grant": self._grant,
            "revoke": self._revoke,
        }

    def apply(self, method: str, data: bytes, *, wants_response: bool) -> Any:
        """Execute the serialized request of a log entry and return its response, with only the revision in the header.

        The response to a transaction may be incomplete unless ``wants_response``. Raises StatusError if etcd would
        refuse the request.
        """
        self._wants_response = wants_response
        try:
            return self._methods[method](_parse_request(method, data))
        finally:
            changes = self.store.commit()
            if changes:
                self._on_changes(changes)

    def _put_alone(self, request: Any) -> Any:
        self._check_lease(request)
        self._check_exists_if_ignored(request)
        return self._put(request)

    def _check_lease(self, request: Any) -> None:
        if request.lease and request.lease not in self.lessor.leases:
            raise lease_not_found()

    def _check_exists_if_ignored(self, request: Any) -> None:
        if (request.ignore_value or request.ignore_lease) and not self.store.range(request.key, b""):
            raise key_not_found()

    def _put(self, request: Any) -> Any:
        response = messages.PutResponse()
        value, lease = request.value, request.lease
        old = self.store.at(request.key, self.store.read_revision)
        if old is not None:
            if request.ignore_value:
                value = old.value
            if request.ignore_lease:
                lease = old.lease
            if request.prev_kv:
                response.prev_kv.CopyFrom(message_of(old))
        self.store.put(request.key, value, lease)
        response.header.revision = self.store.read_revision
        return response

    def _delete(self, request: Any) -> Any:
        doomed = self.store.range(request.key, request.range_end)
        self.store.delete(doomed)
        response = messages.DeleteRangeResponse(deleted=len(doomed))
        if request.prev_kv:
            response.prev_kvs.extend(map(message_of, doomed))
        response.header.revision = self.store.read_revision
        return response

    # Transactions: all comparisons, also of nested transactions, are evaluated before any change.

    def read(self, request: Any) -> Any:
        """Execute a read-only TxnRequest and return its response. Raises StatusError."""
        self._wants_response = True
        return self._txn(request)

    def _txn(self, request: Any) -> Any:
        path: list[bool] = []
        self._choose_branches(request, path)
        self._check(request, iter(path), self._check_put_op)
        # etcd 3.4 checks the revisions of ranges only on the member that answers, and on all others applies a
        # transaction that this one refuses: https://github.com/etcd-io/etcd/issues/18667.
        self._check(request, iter(path), self._check_range_op, ranges=self._wants_response)
        response = self._do(request, iter(path))
        response.header.revision = self.store.read_revision
        return response

    def _choose_branches(self, txn: Any, path: list[bool]) -> None:
        success = all(self._is_true(compare) for compare in txn.compare)
        path.append(success)
        for op in txn.success if success else txn.failure:
            if op.WhichOneof("request") == "request_txn":
                self._choose_branches(op.request_txn, path)

    def _is_true(self, compare: Any) -> bool:
        found: Iterable[KeyValue] = self.store.range(compare.key, compare.range_end)
        if not found:
            if compare.target == messages.Compare.VALUE:
                return False
            found = [_ABSENT]
        return all(_compare(compare, kv) for kv in found)

    def _check(self, txn: Any, path: Any, check: Callable[[str, Any], None], *, ranges: bool = True) -> None:
        """Check the operations to be executed. ``ranges`` is False to omit ranges outside of nested transactions."""
        for op in txn.success if next(path) else txn.failure:
            kind = op.WhichOneof("request")
            if kind == "request_txn":
                self._check(op.request_txn, path, check)
            elif ranges or kind != "request_range":
                check(kind, getattr(op, kind))

    def _check_put_op(self, kind: str, request: Any) -> None:
        if kind == "request_put":
            self._check_exists_if_ignored(request)  # etcd checks this first here, but second in a plain put
            self._check_lease(request)

    def _check_range_op(self, kind: str, request: Any) -> None:
        if kind == "request_range" and request.revision:
            if request.revision > self.store.revision:
                raise future_revision()
            if request.revision < self.store.compact_revision:
                raise compacted()

    def _do(self, txn: Any, path: Any) -> Any:
        success = next(path)
        response = messages.TxnResponse(succeeded=success)
        response.header.SetInParent()
        for op in txn.success if success else txn.failure:
            kind = op.WhichOneof("request")
            if kind == "request_range" and not self._wants_response:
                continue
            done = _OPERATIONS[kind](self, op, path)
            if self._wants_response:
                response.responses.add(**{kind.replace("request", "response"): done})
        return response

    # The rest.

    def _compact(self, request: Any) -> Any:
        self.store.compact(request.revision)
        response = messages.CompactionResponse()
        response.header.revision = self.store.revision
        return response

    def _grant(self, request: Any) -> Any:
        lease = self.lessor.grant(request.ID, request.TTL)
        response = messages.LeaseGrantResponse(ID=lease.id, TTL=lease.ttl)
        response.header.revision = self.store.revision
        return response

    def _revoke(self, request: Any) -> Any:
        self.lessor.revoke(request.ID)
        for key in sorted(self.store.leases.pop(request.ID, ())):
            self.store.delete(self.store.range(key, b""))
        response = messages.LeaseRevokeResponse()
        response.header.revision = self.store.read_revision
        return response


_OPERATIONS: Final[dict[str, Callable[[Applier, Any, Any], Any]]] = {
    "request_range": lambda applier, op, _: range_response(applier.store, op.request_range),
    "request_put": lambda applier, op, _: applier._put(op.request_put),
    "request_delete_range": lambda applier, op, _: applier._delete(op.request_delete_range),
    "request_txn": lambda applier, op, path: applier._do(op.request_txn, path),
}


def _compare(compare: Any, kv: KeyValue) -> bool:
    have, want = {
        messages.Compare.VALUE: (kv.value, compare.value),
        messages.Compare.VERSION: (kv.version, compare.version),
        messages.Compare.CREATE: (kv.create, compare.create_revision),
        messages.Compare.MOD: (kv.mod, compare.mod_revision),
        messages.Compare.LEASE: (kv.lease, compare.lease),
    }[compare.target]
    return bool(
        {
            messages.Compare.EQUAL: have == want,
            messages.Compare.NOT_EQUAL: have != want,
            messages.Compare.GREATER: have > want,
            messages.Compare.LESS: have < want,
        }[compare.result]
    )


__all__ = ["Applier", "StatusError", "is_readonly", "is_serializable", "message_of", "range_response"]
