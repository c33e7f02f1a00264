"""What etcd refuses before it proposes a request: server/etcdserver/api/v3rpc/key.go."""

from __future__ import annotations

from typing import Any, Final

from ...grpc_wire import Failed

INVALID_ARGUMENT: Final = 3
MAX_TXN_OPS: Final = 128
Interval = tuple[bytes, bytes]


def _invalid(why: str) -> Failed:
    return Failed(INVALID_ARGUMENT, f"etcdserver: {why}")


def key_not_found() -> Failed:
    return _invalid("key not found")


def check_key(request: Any) -> None:
    """For a Range and a DeleteRange."""
    if not request.key:
        raise _invalid("key is not provided")


def check_put(request: Any) -> None:
    check_key(request)
    if request.ignore_value and request.value:
        raise _invalid("value is provided")
    if request.ignore_lease and request.lease:
        raise _invalid("lease is provided")


def check_txn(request: Any) -> None:
    _check_ops(request, MAX_TXN_OPS)
    _intervals(request.success)
    _intervals(request.failure)


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
    """Is the key in one of the intervals, as etcd's tree of strings sees it: an empty end is infinity."""
    return any((not end or key < end) and (start < key + b"\0") for start, end in intervals)


def _intervals(ops: Any) -> tuple[set[bytes], list[Interval]]:
    """The keys that ops put and the ranges that they delete; raises Failed if a key would change twice."""
    deletes: list[Interval] = []
    puts: set[bytes] = set()
    for op in ops:
        if op.WhichOneof("request") == "request_delete_range":
            start, end = op.request_delete_range.key, op.request_delete_range.range_end
            deletes.append((start, end or start + b"\0"))
    for op in ops:
        if op.WhichOneof("request") == "request_txn":
            then, then_deletes = _intervals(op.request_txn.success)
            other, other_deletes = _intervals(op.request_txn.failure)
            _refuse_twice(then, puts, deletes)
            puts |= then
            _refuse_twice(other, puts - then, deletes)  # of then and else only one is done
            puts |= other
            deletes += then_deletes + other_deletes
    for op in ops:
        if op.WhichOneof("request") == "request_put":
            _refuse_twice({op.request_put.key}, puts, deletes)
            puts.add(op.request_put.key)
    return puts, deletes


def _refuse_twice(keys: set[bytes], puts: set[bytes], deletes: list[Interval]) -> None:
    if any(key in puts or _overlaps(deletes, key) for key in keys):
        raise _invalid("duplicate key given in txn request")
