"""Log of what a client on real sockets sends to the lock's servers and receives: times, sizes, calls and lines of
source.

The methods of :class:`socket.socket` are replaced, so libraries written in Python are logged, with and without asyncio.
Libraries in C, such as libpq and gRPC's, use sockets of their own: of their connections nothing is known here.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from harness.history.socket_entries import OPENED, PLACE, RECEIVED, SENT, SOURCE, Entry
from harness.lock_impls.asynchronous import CURRENT_CALL
from harness.sim.call_finder import CallFinder
from harness.sim.places import Place, PlaceFinder, source_name

from .lock_code import code_of

BATCH: Final = 64
"""Number of entries that are passed on at once, if no call of the lock ends before."""
MOST_ENTRIES: Final = 2_000_000
MOST_SOURCE: Final = 100_000
"""Number of characters of a source file."""
_PEEK: Final = int(socket.MSG_PEEK)
"""A member of an enum takes a microsecond for each ``&``."""
_OTHER: Final = -1
"""Number of a connection that is not to one of the servers."""


class SocketLog:
    """Logs connections to ``servers`` (addresses). :meth:`take` returns what was logged since it was called before, and
    ``send`` gets batches that nobody took."""

    def __init__(self, servers: Collection[str], send: Callable[[list[Entry]], None]) -> None:
        self._servers = frozenset(servers)
        self._send = send
        self._entries: list[Entry] = []
        self._left = MOST_ENTRIES
        self._guard = threading.RLock()
        self._installed = contextlib.ExitStack()
        self._connections: WeakKeyDictionary[socket.socket, int] = WeakKeyDictionary()
        self._opened = 0
        self._finder = PlaceFinder(code_of, self._on_place)
        self._sources: dict[str, str] = {}
        """Names of sources by their paths."""
        self._calls = CallFinder(self._finder, CURRENT_CALL.get, lambda thread: sys._current_frames().get(thread))

    def install(self) -> None:
        """Replace the methods of sockets until :meth:`uninstall`."""
        self._installed.enter_context(self._finder.watching_tasks())
        base: Any = socket.socket.__mro__[1]
        for name in ("send", "sendall", "sendmsg"):
            self._replace(name, self._sending(getattr(base, name)))
        for name, flags_at in (("recv", 1), ("recv_into", 2)):
            self._replace(name, self._receiving(getattr(base, name), flags_at))

    def _replace(self, name: str, method: Callable[..., Any]) -> None:
        setattr(socket.socket, name, method)
        self._installed.callback(delattr, socket.socket, name)  # sockets inherit these methods

    def uninstall(self) -> None:
        """Undo :meth:`install`."""
        self._installed.close()

    def take(self) -> list[Entry]:
        """Return the entries that were not passed on yet; they count as passed on."""
        with self._guard:
            entries, self._entries = self._entries, []
        return entries

    def note_call(self, type_: str, f: str, process: int) -> None:
        """Note that a call of the lock in this thread begins (``invoke``) or ends."""
        with self._guard:
            self._calls.note_call(threading.get_ident(), type_, f, process)

    def _sending(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def send(sock: socket.socket, data: Any, *flags: int) -> Any:
            number = self._number(sock)
            if number == _OTHER:
                return original(sock, data, *flags)
            began = time.monotonic_ns()
            with self._guard:  # places have numbers in the order of their entries
                process, place = self._calls.origin(threading.get_ident(), sys._getframe(1))
            sent = original(sock, data, *flags)
            size = sent if sent is not None else memoryview(data).nbytes  # sendall returns nothing
            self._add([SENT, number, began, size, process, place])
            return sent

        return send

    def _receiving(self, original: Callable[..., Any], flags_at: int) -> Callable[..., Any]:
        def receive(sock: socket.socket, *arguments: Any, **named: int) -> Any:
            got = original(sock, *arguments, **named)
            number = self._number(sock)
            if number == _OTHER or not got:
                return got
            flags = named.get("flags", arguments[-1] if len(arguments) > flags_at else 0)
            if not flags & _PEEK:
                size = got if isinstance(got, int) else len(got)
                self._add([RECEIVED, number, time.monotonic_ns(), size])
            return got

        return receive

    def _number(self, sock: socket.socket) -> int:
        """Return the number of a socket's connection."""
        number = self._connections.get(sock)
        if number is None:
            number = self._connections[sock] = self._open(sock)
        return number

    def _open(self, sock: socket.socket) -> int:
        if sock.family != socket.AF_INET or not sock.type & socket.SOCK_STREAM:
            return _OTHER
        try:
            here, there = sock.getsockname(), sock.getpeername()
        except OSError:
            return _OTHER
        if there[0] not in self._servers:
            return _OTHER
        number = self._opened
        self._opened += 1
        self._add([OPENED, number, here[1], *there])
        return number

    def _on_place(self, place: Place) -> None:
        file, line, function = place
        if file not in self._sources:
            name = self._sources[file] = source_name(Path(file), self._sources.values())
            try:
                text = Path(file).read_text(encoding="utf-8", errors="replace")[:MOST_SOURCE]
            except OSError:
                text = ""
            self._add([SOURCE, name, text])
        self._add([PLACE, self._sources[file], line, function])

    def _add(self, entry: Entry) -> None:
        with self._guard:
            self._left -= 1
            if self._left >= 0:
                self._entries.append(entry)
            if len(self._entries) < BATCH:
                return
        self._send(self.take())
