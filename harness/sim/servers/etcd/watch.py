"""The Watch gRPC service of a simulated etcd member (server/mvcc/watchable_store.go, api/v3rpc/watch.go).

A "synced" watch is sent the events of each transaction when the member applies it, all in one response. A watch that
starts at a past revision is "unsynced": every 100 ms the member sends such watches all that they have missed, and they
become synced. Abstracted: fragments, victims (watchers that are too slow), the progress notification every ten minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from harness.sim.grpc_wire import ServerCall
from harness.sim.kernel import MILLISECOND
from harness.sim.service import ServiceHost

from . import messages
from .apply import message_of
from .store import NO_END, EtcdStore, KeyValue, covers

SYNC_INTERVAL_NS: Final = 100 * MILLISECOND
FillHeader = Callable[[Any, int], None]
"""Fills in a response's header, given (header, revision); revision 0 means the present one."""


@dataclass(slots=True, eq=False)
class RangeWatch:
    """One watch of a key or a range of keys."""

    call: ServerCall
    id: int
    key: bytes
    end: bytes
    next_revision: int
    """The first revision that has not been sent yet."""
    no_puts: bool
    no_deletes: bool
    prev_kv: bool

    def wants(self, change: KeyValue) -> bool:
        return (
            change.mod >= self.next_revision
            and covers(self.key, self.end, change.key)
            and not (self.no_puts if change.version else self.no_deletes)
        )


class _WatchStream:
    """The watches of one call, by watch id."""

    __slots__ = ("next_id", "watches")

    def __init__(self) -> None:
        self.watches: dict[int, RangeWatch] = {}
        self.next_id = 0


class WatchService:
    """The calls of Watch (:class:`~harness.sim.grpc_wire.MethodHandler`). ``on_message`` is called for each request."""

    def __init__(
        self,
        store: Callable[[], EtcdStore],
        header: FillHeader,
        on_message: Callable[[ServerCall], None],
        host: Callable[[], ServiceHost],
    ) -> None:
        self._store = store
        self._header = header
        self._on_message = on_message
        self._host = host
        self._streams: dict[ServerCall, _WatchStream] = {}
        self._synced: dict[RangeWatch, None] = {}
        self._unsynced: dict[RangeWatch, None] = {}
        self._syncing = False

    def stop(self) -> None:
        self._streams.clear()
        self._synced.clear()
        self._unsynced.clear()
        self._syncing = False

    def message(self, call: ServerCall, data: bytes) -> None:
        stream = self._streams.setdefault(call, _WatchStream())
        request = messages.WatchRequest.FromString(data)
        kind = request.WhichOneof("request_union")
        if kind == "create_request":
            self._create(call, stream, request.create_request)
        elif kind == "cancel_request":
            self._cancel(call, stream, request.cancel_request.watch_id)
        self._on_message(call)

    def ended(self, call: ServerCall) -> None:
        """The client has ended its requests. As in 3.4.23, its watches stay open and events are still sent."""

    def dropped(self, call: ServerCall) -> None:
        stream = self._streams.pop(call, None)
        if stream is not None:
            for watch in stream.watches.values():
                self._remove(watch)

    def _remove(self, watch: RangeWatch) -> None:
        self._synced.pop(watch, None)
        self._unsynced.pop(watch, None)

    def _create(self, call: ServerCall, stream: _WatchStream, request: Any) -> None:
        key, end = request.key or b"\0", request.range_end
        if end and end != NO_END and key >= end:
            self._send(call, -1, 0, created=True, canceled=True, cancel_reason="mvcc: watcher range is empty")
            return
        number, stream.next_id = stream.next_id, stream.next_id + 1
        now = self._store().revision
        watch = stream.watches[number] = RangeWatch(
            call, number, key, end, request.start_revision or now + 1,
            messages.WatchCreateRequest.NOPUT in request.filters,
            messages.WatchCreateRequest.NODELETE in request.filters, request.prev_kv,
        )  # fmt: skip
        self._send(call, number, now, created=True)
        if watch.next_revision > now:
            self._synced[watch] = None
        else:
            self._unsynced[watch] = None
            self._sync_later()

    def _cancel(self, call: ServerCall, stream: _WatchStream, number: int) -> None:
        watch = stream.watches.pop(number, None)
        if watch is not None:
            self._remove(watch)
            self._send(call, number, 0, canceled=True)

    def _send(self, call: ServerCall, number: int, revision: int, **fields: Any) -> None:
        response = messages.WatchResponse(watch_id=number, **fields)
        self._header(response.header, revision)
        if response.compact_revision:
            response.header.revision = 0  # as in 3.4.23
        call.send(response.SerializeToString())

    # Events.

    def changed(self, changes: list[KeyValue]) -> None:
        """Send the changes of an applied transaction to all synced watches."""
        for watch in list(self._synced):
            self._send_events(watch, changes)

    def _send_events(self, watch: RangeWatch, changes: list[KeyValue]) -> None:
        events = [self._event(watch, change) for change in changes if watch.wants(change)]
        if changes:
            watch.next_revision = max(watch.next_revision, changes[-1].mod + 1)
        if events:
            self._send(watch.call, watch.id, self._store().revision, events=events)

    def _event(self, watch: RangeWatch, change: KeyValue) -> Any:
        event = messages.Event(
            type=messages.Event.PUT if change.version else messages.Event.DELETE, kv=message_of(change)
        )
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
            host.call_later(SYNC_INTERVAL_NS - host.monotonic_ns() % SYNC_INTERVAL_NS, self._sync)

    def _sync(self) -> None:
        self._syncing = False
        watches, self._unsynced = self._unsynced, {}
        for watch in watches:
            if watch.next_revision < self._store().compact_revision:
                self._send(watch.call, watch.id, 0, canceled=True, compact_revision=self._store().compact_revision)
            else:
                self._send_events(watch, self._store().since(watch.next_revision))
                self._synced[watch] = None
