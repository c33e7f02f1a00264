"""Validation of requests before a simulated etcd member proposes them (server/etcdserver/api/v3rpc/key.go)."""

from __future__ import annotations

from typing import Any, Final

from harness.sim.grpc_wire import StatusError

INVALID_ARGUMENT: Final = 3
MAX_TXN_OPS: Final = 128
Interval = tuple[bytes, bytes]
"""(first key, end of the range)."""


def _invalid(why: str) -> StatusError:
    return StatusError(INVALID_ARGUMENT, f"etcdserver: {why}")


def key_not_found() -> StatusError:
    return _invalid("key not found")


def check_key(request: Any) -> None:
    """Validate a Range, DeleteRange or Compare. Raises StatusError."""
    if not request.key:
        raise _invalid("key is not provided")


def check_put(request: Any) -> None:
    """Validate a PutRequest. Raises StatusError."""
    check_key(request)
    if request.ignore_value and request.value:
        raise _invalid("value is provided")
    if request.ignore_lease and request.lease:
        raise _invalid("lease is provided")


def check_txn(request: Any) -> None:
    """Validate a TxnRequest: operations, their number, and that no branch changes a key twice. Raises StatusError."""
    _check_ops(request, MAX_TXN_OPS)
    _check_duplicate_keys(request.success)
    _check_duplicate_keys(request.failure)


def _check_ops(txn: Any, limit: int) -> None:
    count = max(len(txn.compare), len(txn.success), len(txn.failure))
    if count > limit:
        raise _invalid("too many operations in txn request")
    for compare in txn.compare:
        check_key(compare)
    for op in [*txn.success, *txn.failure]:
        kind = op.WhichOneof("request")
        if kind is None:
            raise key_not_found()
        if kind == "request_put":
            check_put(op.request_put)
        elif kind == "request_txn":
            _check_ops(op.request_txn, limit - count)
        else:
            check_key(getattr(op, kind))


def _overlaps(intervals: list[Interval], key: bytes) -> bool:
    """Return whether the key is in one of the intervals. As in etcd's interval tree, an empty end is infinity."""
    return any((not end or key < end) and (start < key + b"\0") for start, end in intervals)


def _check_duplicate_keys(ops: Any) -> tuple[set[bytes], list[Interval]]:
    """Return the keys that ``ops`` put and the ranges that they delete; raise StatusError if a key changes twice."""
    deletes: list[Interval] = []
    puts: set[bytes] = set()
    for op in ops:
        if op.WhichOneof("request") == "request_delete_range":
            start, end = op.request_delete_range.key, op.request_delete_range.range_end
            deletes.append((start, end or start + b"\0"))
    for op in ops:
        if op.WhichOneof("request") == "request_txn":
            then, then_deletes = _check_duplicate_keys(op.request_txn.success)
            other, other_deletes = _check_duplicate_keys(op.request_txn.failure)
            _reject_duplicates(then, puts, deletes)
            puts |= then
            _reject_duplicates(other, puts - then, deletes)  # only one of the two branches is executed
            puts |= other
            deletes += then_deletes + other_deletes
    for op in ops:
        if op.WhichOneof("request") == "request_put":
            _reject_duplicates({op.request_put.key}, puts, deletes)
            puts.add(op.request_put.key)
    return puts, deletes


def _reject_duplicates(keys: set[bytes], puts: set[bytes], deletes: list[Interval]) -> None:
    if any(key in puts or _overlaps(deletes, key) for key in keys):
        raise _invalid("duplicate key given in txn request")
