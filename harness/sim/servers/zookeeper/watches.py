"""Watches of one ZooKeeper server: one-time notifications of changes to a znode or to its children (WatchManager).

Data and exists watches are the same. Watches are kept in the memory of the server that the client is connected to, by
connection. Persistent and recursive watches (``addWatch``) are not simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .tree import CHILDREN, DELETED

SendEvent = Callable[[Any, int, str], None]


class WatchManager:
    """Watches by path and client. ``send(client, kind of event, path)`` is called for each event."""

    def __init__(self, send: SendEvent) -> None:
        self._send = send
        self._data: dict[str, dict[Any, None]] = {}
        self._child: dict[str, dict[Any, None]] = {}

    def watch_data(self, path: str, client: Any) -> None:
        self._data.setdefault(path, {})[client] = None

    def watch_children(self, path: str, client: Any) -> None:
        self._child.setdefault(path, {})[client] = None

    def trigger(self, kind: int, path: str) -> None:
        """Send an event to the clients that watch ``path`` for it, and remove their watches."""
        if kind == CHILDREN:
            watchers = self._child.pop(path, {})
        else:
            watchers = self._data.pop(path, {})
            if kind == DELETED:  # a client with both kinds of watch gets one event
                watchers = watchers | (self._child.pop(path, {}))
        for client in watchers:
            self._send(client, kind, path)

    def remove_client(self, client: Any) -> None:
        """Remove the watches of a closed connection."""
        for watches in (self._data, self._child):
            for path in [path for path, clients in watches.items() if client in clients]:
                del watches[path][client]
                if not watches[path]:
                    del watches[path]
