"""One stream of watches. Responses are collected by watch, because the order between watches is not defined."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any, Final

from etcd3 import etcdrpc

SENTINEL: Final = b"~end"
"""Key that nobody else writes. Its events come after those of all changes before it."""
STREAM_S: Final = 3600
UNKNOWN_WATCH: Final = 1_000_000


class WatchStream:
    """Watches are numbered from 1 in the order of their creation; ``text`` makes a response comparable."""

    def __init__(self, client: Any, text: Callable[[Any], str]) -> None:
        self._client = client
        self._text = text
        self._requests: queue.Queue[Any] = queue.Queue()
        self._call = client.watcher._watch_stub.Watch(iter(self._requests.get, None), timeout=STREAM_S)
        self._numbers: list[int] = []
        self._active: set[int] = set()
        self._own: set[int] = set()
        self._seen: dict[int, list[str]] = {}
        self._own.add(self._create(etcdrpc.WatchCreateRequest(key=SENTINEL)).watch_id)

    def close(self) -> None:
        self._requests.put(None)
        self._call.cancel()

    def request(self, request: Any) -> str:
        """Create or cancel a watch, and return after that has taken effect."""
        if request.WhichOneof("request_union") == "cancel_request":
            return self._cancel_number(request.cancel_request.watch_id)
        past = request.create_request.start_revision
        written = self._write_sentinel() if past else 0
        created = self._create(request.create_request)
        watch = created.watch_id
        if watch >= 0:
            self._numbers.append(watch)
            if not created.canceled:
                self._active.add(watch)
        if past:
            self._catch_up(written)
        return self._text(created)

    def events(self) -> str:
        """Return the responses of all watches since the last call, except those that confirm a creation."""
        self._read_to_present()
        seen, self._seen = self._seen, {}
        return "\n".join(f"watch {watch}: {responses}" for watch, responses in sorted(seen.items()))

    def _create(self, create: Any) -> Any:
        self._requests.put(etcdrpc.WatchRequest(create_request=create))
        return self._read_until(lambda response: response.created)

    def _cancel_number(self, number: int) -> str:
        if number > len(self._numbers):
            self._requests.put(etcdrpc.WatchRequest(cancel_request=etcdrpc.WatchCancelRequest(watch_id=UNKNOWN_WATCH)))
            return ""
        watch = self._numbers[number - 1]
        if watch not in self._active:
            return ""
        self._cancel(watch)
        self._active.discard(watch)
        return "cancelled"

    def _cancel(self, watch: int) -> None:
        """Cancel a watch. etcd confirms that also for a watch that it has cancelled itself after a compaction."""
        self._requests.put(etcdrpc.WatchRequest(cancel_request=etcdrpc.WatchCancelRequest(watch_id=watch)))
        self._read_until(
            lambda response: response.canceled and response.watch_id == watch and not response.compact_revision
        )

    def _catch_up(self, revision: int) -> None:
        """Wait until watches of past revisions have got their events: another such watch has got its event.

        Nothing may be written meanwhile, because their responses tell the server's revision. ``revision`` is that of
        an event for the other watch.
        """
        probe = self._create(etcdrpc.WatchCreateRequest(key=SENTINEL, start_revision=revision)).watch_id
        self._own.add(probe)
        self._read_until(lambda response: response.watch_id == probe and len(response.events) > 0)
        self._read_to_present()
        self._cancel(probe)

    def _read_to_present(self) -> None:
        revision = self._write_sentinel()
        first = min(self._own)
        self._read_until(
            lambda response: (
                response.watch_id == first and any(event.kv.mod_revision >= revision for event in response.events)
            )
        )

    def _write_sentinel(self) -> int:
        revision: int = self._client.kvstub.Put(etcdrpc.PutRequest(key=SENTINEL)).header.revision
        return revision

    def _read_until(self, wanted: Callable[[Any], bool]) -> Any:
        for response in self._responses():
            if wanted(response):
                return response
        raise AssertionError("the watch stream has ended")

    def _responses(self) -> Iterator[Any]:
        for response in self._call:
            self._keep(response)
            yield response

    def _keep(self, response: Any) -> None:
        """Keep a response without the sentinel's events, which may arrive late; a watch of many keys gets them too."""
        if response.watch_id in self._own or response.created:
            return
        kept = type(response).FromString(response.SerializeToString())
        del kept.events[:]
        kept.events.extend(event for event in response.events if event.kv.key != SENTINEL)
        if kept.events or not response.events:
            self._seen.setdefault(response.watch_id, []).append(self._text(kept))
