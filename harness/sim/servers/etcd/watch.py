"""Watches of one member: server/mvcc/watchable_store.go and api/v3rpc/watch.go.

A watch that asks for revisions of the past is "unsynced": every 100 ms the member sends such watches what they lack,
and they join the others, which are told of each transaction when the member applies it, all its events in one response.
Abstracted: fragments, victims (watchers too slow to be told), the progress that is told unasked every ten minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from etcd3 import etcdrpc
from etcd3.etcdrpc import kv_pb2

from ...grpc_wire import Call
from ...kernel import MILLISECOND
from ...service import ServiceHost
from .apply import message_of
from .store import EVERYTHING_FROM, KeyValue, Store, covers

SYNC: Final = 100 * MILLISECOND
Header = Callable[[Any, int], None]
"""Fills a response's header, given a revision (0: the present one)."""


@dataclass(slots=True, eq=False)
class Watch:
    call: Call
    id: int
    key: bytes
    end: bytes
    next_revision: int
    """The first that it has not been told of."""
    no_puts: bool
    no_deletes: bool
    prev_kv: bool

    def wants(self, change: KeyValue) -> bool:
        return (
            change.mod >= self.next_revision
            and covers(self.key, self.end, change.key)
            and not (self.no_puts if change.version else self.no_deletes)
        )


class _Stream:
    """The watches of one call, by number."""

    __slots__ = ("next_id", "watches")

    def __init__(self) -> None:
        self.watches: dict[int, Watch] = {}
        self.next_id = 0


class WatchService:
    """Watch calls (:class:`~harness.sim.grpc_wire.Methods`)."""

    def __init__(
        self,
        store: Callable[[], Store],
        header: Header,
        on_message: Callable[[Call], None],
        host: Callable[[], ServiceHost],
    ) -> None:
        self._store = store
        self._header = header
        self._on_message = on_message
        self._host = host
        self._streams: dict[Call, _Stream] = {}
        self._synced: dict[Watch, None] = {}
        self._unsynced: dict[Watch, None] = {}
        self._syncing = False

    def stop(self) -> None:
        self._streams.clear()
        self._synced.clear()
        self._unsynced.clear()
        self._syncing = False

    def message(self, call: Call, data: bytes) -> None:
        stream = self._streams.setdefault(call, _Stream())
        request = etcdrpc.WatchRequest.FromString(data)
        kind = request.WhichOneof("request_union")
        if kind == "create_request":
            self._create(call, stream, request.create_request)
        elif kind == "cancel_request":
            self._cancel(call, stream, request.cancel_request.watch_id)
        self._on_message(call)

    def ended(self, call: Call) -> None:
        """The client asks no more, and is told on: the real one (3.4.23) ends no watch at the end of its requests."""

    def dropped(self, call: Call) -> None:
        stream = self._streams.pop(call, None)
        if stream is not None:
            for watch in stream.watches.values():
                self._forget(watch)

    def _forget(self, watch: Watch) -> None:
        self._synced.pop(watch, None)
        self._unsynced.pop(watch, None)

    def _create(self, call: Call, stream: _Stream, request: Any) -> None:
        key, end = request.key or b"\0", request.range_end
        if end and end != EVERYTHING_FROM and key >= end:
            self._send(call, -1, 0, created=True, canceled=True, cancel_reason="mvcc: watcher range is empty")
            return
        number, stream.next_id = stream.next_id, stream.next_id + 1
        now = self._store().revision
        watch = stream.watches[number] = Watch(
            call, number, key, end, request.start_revision or now + 1,
            etcdrpc.WatchCreateRequest.NOPUT in request.filters,
            etcdrpc.WatchCreateRequest.NODELETE in request.filters, request.prev_kv,
        )  # fmt: skip
        self._send(call, number, now, created=True)
        if watch.next_revision > now:
            self._synced[watch] = None
        else:
            self._unsynced[watch] = None
            self._sync_later()

    def _cancel(self, call: Call, stream: _Stream, number: int) -> None:
        watch = stream.watches.pop(number, None)
        if watch is not None:
            self._forget(watch)
            self._send(call, number, 0, canceled=True)

    def _send(self, call: Call, number: int, revision: int, **fields: Any) -> None:
        response = etcdrpc.WatchResponse(watch_id=number, **fields)
        self._header(response.header, revision)
        call.send(response.SerializeToString())

    # Events.

    def changed(self, changes: list[KeyValue]) -> None:
        """A transaction has been applied."""
        for watch in list(self._synced):
            self._tell(watch, changes)

    def _tell(self, watch: Watch, changes: list[KeyValue]) -> None:
        events = [self._event(watch, change) for change in changes if watch.wants(change)]
        if changes:
            watch.next_revision = max(watch.next_revision, changes[-1].mod + 1)
        if events:
            self._send(watch.call, watch.id, self._store().revision, events=events)

    def _event(self, watch: Watch, change: KeyValue) -> Any:
        event = kv_pb2.Event(type=kv_pb2.Event.PUT if change.version else kv_pb2.Event.DELETE, kv=message_of(change))
        created = change.version == 1
        if watch.prev_kv and not created and change.mod - 1 >= self._store().compact_revision:
            before = self._store().at(change.key, change.mod - 1)
            if before is not None:
                event.prev_kv.CopyFrom(message_of(before))
        return event

    def _sync_later(self) -> None:
        if not self._syncing:
            self._syncing = True
            host = self._host()
            host.call_later(SYNC - host.monotonic_ns() % SYNC, self._sync)

    def _sync(self) -> None:
        self._syncing = False
        watches, self._unsynced = self._unsynced, {}
        for watch in watches:
            if watch.next_revision < self._store().compact_revision:
                self._send(watch.call, watch.id, 0, canceled=True, compact_revision=self._store().compact_revision)
            else:
                self._tell(watch, self._store().since(watch.next_revision))
                self._synced[watch] = None
