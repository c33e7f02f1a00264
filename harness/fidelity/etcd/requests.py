"""Random requests to etcd's v3 API whose answers do not depend on the clock.

Revisions in requests and responses are relative to the server's revision at the start, so that a used server gives the
same answers as a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from etcd3 import etcdrpc

KEYS: Final = [b"a", b"a0", b"a1", b"b", b"c", b"c\x00", b"\xff"]
VALUES: Final = [b"", b"x", b"y", b"10", b"9", b"\x00"]
ENDS: Final = [b"", b"", b"", b"b", b"c", b"\0", b"a", b"a1", b"\xff\xff"]
LEASES: Final = [1, 2, 3, 7_000_000_000_000]
LATEST: Final = 1 << 40
MOST_WATCHES: Final = 6
_REVISIONS: Final = {
    "revision", "create_revision", "mod_revision", "min_mod_revision", "max_mod_revision", "min_create_revision",
    "max_create_revision", "start_revision", "compact_revision",
}  # fmt: skip
_NAMES: Final = ("cluster_id", "member_id", "raft_term")
Operation = tuple[str, Any]
"""The method's name and the request."""


class EtcdRequestGenerator:
    """Generates operations for a number of members."""

    def __init__(self, rng: Random, members: int = 1) -> None:
        self.rng = rng
        self._members = members
        self._written = 0
        self._makers: list[Callable[[], Operation]] = [
            self._put, self._put, self._put, self._range, self._range, self._delete, self._txn, self._txn,
            self._grant, self._revoke, self._keep_alive, self._time_to_live, self._leases, self._watch, self._unwatch,
            self._compact,
        ]  # fmt: skip
        self._weights = [6, 6, 6, 10, 10, 6, 10, 10, 4, 2, 3, 4, 1, 2, 2, 1]

    def operation(self) -> Operation:
        return self.rng.choices(self._makers, self._weights)[0]()

    def _maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def _key(self) -> bytes:
        return b"" if self._maybe(0.02) else self.rng.choice(KEYS)

    def _revision(self, chance: float) -> int:
        """Return 0, or with probability ``chance`` a past or a future revision."""
        if not self._maybe(chance):
            return 0
        return LATEST if self._maybe(0.1) else self.rng.randint(max(1, self._written - 20), self._written + 1)

    def _lease(self, chance: float) -> int:
        return self.rng.choice(LEASES) if self._maybe(chance) else 0

    def _put_request(self) -> Any:
        self._written += 1
        request = etcdrpc.PutRequest(
            key=self._key(), value=self.rng.choice(VALUES), lease=self._lease(0.3), prev_kv=self._maybe(0.3)
        )
        if self._maybe(0.1):
            request.ignore_value = True
            request.value = b"" if self._maybe(0.8) else request.value
        if self._maybe(0.1):
            request.ignore_lease = True
            request.lease = 0 if self._maybe(0.8) else request.lease
        return request

    def _range_request(self) -> Any:
        return etcdrpc.RangeRequest(
            key=self._key(),
            range_end=self.rng.choice(ENDS),
            limit=self.rng.choice([0, 0, 0, 1, 2, 5]),
            revision=self._revision(0.3),
            sort_order=self.rng.choice([0, 0, 1, 2]),
            sort_target=self.rng.choice([0, 0, 1, 2, 3, 4]),
            serializable=self._maybe(0.3),
            keys_only=self._maybe(0.2),
            count_only=self._maybe(0.1),
            min_mod_revision=self._revision(0.1),
            max_mod_revision=self._revision(0.1),
            min_create_revision=self._revision(0.1),
            max_create_revision=self._revision(0.1),
        )

    def _delete_request(self) -> Any:
        self._written += 1
        end = self.rng.choice(ENDS) if self._maybe(0.5) else b""
        return etcdrpc.DeleteRangeRequest(key=self._key(), range_end=end, prev_kv=self._maybe(0.3))

    def _compare(self) -> Any:
        target = self.rng.choice(["version", "create_revision", "mod_revision", "value", "lease"])
        value: Any = {
            "version": self.rng.choice([0, 0, 1, 2]),
            "create_revision": self._revision(0.5),
            "mod_revision": self._revision(0.5),
            "value": self.rng.choice(VALUES),
            "lease": self._lease(0.5),
        }[target]
        name = {"create_revision": "CREATE", "mod_revision": "MOD"}.get(target, target.upper())
        return etcdrpc.Compare(
            result=self.rng.randrange(4),
            target=etcdrpc.Compare.CompareTarget.Value(name),
            key=self._key(),
            range_end=self.rng.choice(ENDS) if self._maybe(0.2) else b"",
            **{target: value},
        )

    def _op(self, depth: int) -> Any:
        kind = self.rng.choices(["range", "put", "delete", "txn", "none"], [8, 8, 4, 3 if depth else 0, 0.1])[0]
        if kind == "range":
            return etcdrpc.RequestOp(request_range=self._range_request())
        if kind == "put":
            return etcdrpc.RequestOp(request_put=self._put_request())
        if kind == "delete":
            return etcdrpc.RequestOp(request_delete_range=self._delete_request())
        if kind == "txn":
            return etcdrpc.RequestOp(request_txn=self._txn_request(depth - 1))
        return etcdrpc.RequestOp()

    def _txn_request(self, depth: int) -> Any:
        if self._maybe(0.01):
            return etcdrpc.TxnRequest(success=[self._op(0) for _ in range(130)])
        return etcdrpc.TxnRequest(
            compare=[self._compare() for _ in range(self.rng.choice([0, 1, 1, 2]))],
            success=[self._op(depth) for _ in range(self.rng.choice([0, 1, 1, 2, 3]))],
            failure=[self._op(depth) for _ in range(self.rng.choice([0, 1, 1, 2]))],
        )

    def _put(self) -> Operation:
        return "Put", self._put_request()

    def _range(self) -> Operation:
        return "Range", self._range_request()

    def _delete(self) -> Operation:
        return "DeleteRange", self._delete_request()

    def _txn(self) -> Operation:
        request = self._txn_request(2)
        puts, deletes = _parts(request)
        if deletes:  # 3.4.23 panics when what an ignore_value needs is deleted in the same transaction, and stays down
            for put in puts:
                put.ignore_value = put.ignore_lease = False
        if self._members > 1:  # 3.4.23 applies what one member refuses on the others, and they differ from then on
            for op in [*request.success, *request.failure]:
                if op.HasField("request_range"):
                    op.request_range.revision = 0
        return "Txn", request

    def _grant(self) -> Operation:
        ttl = self.rng.choice([1000, 5000, 9_000_000_000, 9_000_000_001, 2000])
        return "LeaseGrant", etcdrpc.LeaseGrantRequest(TTL=ttl, ID=self.rng.choice(LEASES))

    def _revoke(self) -> Operation:
        return "LeaseRevoke", etcdrpc.LeaseRevokeRequest(ID=self.rng.choice(LEASES))

    def _keep_alive(self) -> Operation:
        return "LeaseKeepAlive", etcdrpc.LeaseKeepAliveRequest(ID=self.rng.choice(LEASES))

    def _time_to_live(self) -> Operation:
        return "LeaseTimeToLive", etcdrpc.LeaseTimeToLiveRequest(ID=self.rng.choice(LEASES), keys=self._maybe(0.7))

    def _leases(self) -> Operation:
        return "LeaseLeases", etcdrpc.LeaseLeasesRequest()

    def _watch(self) -> Operation:
        filters = [kind for kind in (etcdrpc.WatchCreateRequest.NOPUT, etcdrpc.WatchCreateRequest.NODELETE)
                   if self._maybe(0.15)]  # fmt: skip
        create = etcdrpc.WatchCreateRequest(
            key=self._key(), range_end=self.rng.choice(ENDS), start_revision=self._revision(0.3),
            filters=filters, prev_kv=self._maybe(0.5),
        )  # fmt: skip
        return "Watch", etcdrpc.WatchRequest(create_request=create)

    def _unwatch(self) -> Operation:
        cancel = etcdrpc.WatchCancelRequest(watch_id=self.rng.randint(1, MOST_WATCHES))
        return "Watch", etcdrpc.WatchRequest(cancel_request=cancel)

    def _compact(self) -> Operation:
        return "Compact", etcdrpc.CompactionRequest(revision=self._revision(0.9))


def _parts(txn: Any) -> tuple[list[Any], int]:
    """Return the puts and the number of deletes of a transaction, including nested ones."""
    puts, deletes = [], 0
    for op in [*txn.success, *txn.failure]:
        kind = op.WhichOneof("request")
        if kind == "request_put":
            puts.append(op.request_put)
        elif kind == "request_delete_range":
            deletes += 1
        elif kind == "request_txn":
            more, also = _parts(op.request_txn)
            puts, deletes = puts + more, deletes + also
    return puts, deletes


def shift_revisions(message: Any, by: int) -> Any:
    """Return a copy with ``by`` added to every revision other than 0."""
    copy = type(message).FromString(message.SerializeToString())
    _shift(copy, by)
    return copy


def _shift(message: Any, by: int) -> None:
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in value if field.label == field.LABEL_REPEATED else [value]:
                _shift(part, by)
        elif field.name in _REVISIONS:
            setattr(message, field.name, value + by)
        elif field.name in _NAMES:
            message.ClearField(field.name)
