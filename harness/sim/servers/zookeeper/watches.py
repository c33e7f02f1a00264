"""Watches: who is told once when a znode or the list of its children changes (ZooKeeper's WatchManager).

A data watch and an exists watch are the same thing; both kinds live in one server's memory, by connection. Persistent
and recursive watches (``addWatch``) are not there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .tree import CHILDREN, DELETED

Send = Callable[[Any, int, str], None]


class Watches:
    """``send(client, kind of event, path)`` is called for each event."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._data: dict[str, dict[Any, None]] = {}
        self._child: dict[str, dict[Any, None]] = {}

    def watch_data(self, path: str, client: Any) -> None:
        self._data.setdefault(path, {})[client] = None

    def watch_children(self, path: str, client: Any) -> None:
        self._child.setdefault(path, {})[client] = None

    def trigger(self, kind: int, path: str) -> None:
        """Something happened to ``path``: tell whoever watched for that, and forget them."""
        if kind == CHILDREN:
            told = self._child.pop(path, {})
        else:
            told = self._data.pop(path, {})
            if kind == DELETED:  # a client that watches both hears of it once
                told = told | (self._child.pop(path, {}))
        for client in told:
            self._send(client, kind, path)

    def forget(self, client: Any) -> None:
        """The connection is gone."""
        for table in (self._data, self._child):
            for path in [path for path, clients in table.items() if client in clients]:
                del table[path][client]
                if not table[path]:
                    del table[path]
