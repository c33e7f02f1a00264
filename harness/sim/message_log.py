"""Log of what the clients and servers of a simulation send each other: pieces of data with their times, undecoded.

Logging has no effect on a simulation: it draws no random number and schedules nothing. Entries are small tuples of
numbers, texts and bytes, since millions of them may be logged; :mod:`harness.trace` decodes them after the run. A
connection has two streams. The one to the server has an even number, the one to the client the next number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from typing import Any, Final

from greenlet import getcurrent

from .kernel import Kernel, Task
from .places import NOWHERE, PlaceFinder

OPENED: Final = 0
"""Entry ``(OPENED, stream, time, client, server, name)``: a connection, with the name of its stream to the server."""
REQUEST: Final = 1
"""Entry ``(REQUEST, stream, time, data, process, place)``: a client sent data. ``process`` is that of the lock's call
in progress, and ``place`` the number of a :data:`Place`; :data:`NOBODY` if there is none."""
REPLY: Final = 2
"""Entry ``(REPLY, stream, time, data)``: a server sent data."""
ARRIVED: Final = 3
"""Entry ``(ARRIVED, stream, time)``: the first piece of the stream that had not arrived yet arrived."""
FULL: Final = 4
"""Entry ``(FULL, 0, time)``: nothing is logged from now on, because of the size."""
NOBODY: Final = NOWHERE
Entry = tuple[Any, ...]
BATCH: Final = 512
"""Number of entries that are passed on at once."""
FRAMES: Final = 3
"""Number of frames of the simulator that are innermost when a client sends."""
MOST_BYTES: Final = 1 << 27
"""Number of bytes of data after which logging ends."""
LOCK_CALLS: Final = frozenset({"acquire", "extend", "check", "release", "add"})
"""Calls of a history that are calls of a lock."""


class StreamLog:
    """Logs one direction of a connection. Its methods are called for each message, so they call little."""

    __slots__ = ("_log", "_number", "_to_server")

    def __init__(self, log: MessageLog, number: int) -> None:
        self._log = log
        self._number = number
        self._to_server = not number & 1

    def sent(self, data: bytes) -> None:
        log = self._log
        if log.full or not log.has_room(len(data)):
            return
        if self._to_server:
            log.entries.append((REQUEST, self._number, log.kernel.now, data, *log.origin()))
        else:
            log.entries.append((REPLY, self._number, log.kernel.now, data))
        if len(log.entries) >= BATCH:
            log.flush()

    def arrived(self) -> None:
        """Log that the next piece of the stream arrived."""
        log = self._log
        if not log.full:
            log.entries.append((ARRIVED, self._number, log.kernel.now))


class MessageLog:
    """Logs the streams between hosts ``clients`` and ``servers``, and passes entries on in batches, by ``sink``.

    ``places`` finds the lines of the lock's code that send.
    """

    def __init__(
        self,
        kernel: Kernel,
        clients: Collection[str],
        servers: Collection[str],
        places: PlaceFinder,
        sink: Callable[[list[Entry]], None],
    ) -> None:
        self.kernel = kernel
        self._clients = frozenset(clients)
        self._servers = frozenset(servers)
        self.places = places
        self._place = places.find
        self._sink = sink
        self.entries: list[Entry] = []
        """Entries that wait to be passed on."""
        self._streams = 0
        self._bytes_left = MOST_BYTES
        self.full = False
        """True if logging has ended because of the size."""
        self._callers: dict[str, dict[Task, int]] = {client: {} for client in clients}
        """Tasks with a call of the lock in progress, and its process number, by host."""

    def flush(self) -> None:
        """Pass on the entries that wait."""
        entries, self.entries = self.entries, []
        if entries:
            self._sink(entries)

    def streams(self, name: str, source: str, target: str) -> tuple[StreamLog, StreamLog] | None:
        """Return the logs of both directions of a new connection called ``name``; None if it is not logged."""
        if source not in self._clients or target not in self._servers:
            return None
        number = self._streams
        self._streams += 2
        if not self.full:
            self.entries.append((OPENED, number, self.kernel.now, source, target, name))
        return StreamLog(self, number), StreamLog(self, number + 1)

    def note_call(self, client: str, type_: str, f: str, process: int) -> None:
        """Note that the current task begins (``invoke``) or ends a call of the history."""
        task = getcurrent()
        if f not in LOCK_CALLS or not isinstance(task, Task):
            return
        if type_ == "invoke":
            self._callers[client][task] = process
        else:
            self._callers[client].pop(task, None)
            if f == "acquire":
                self.flush()  # a grant may be the violation at which the run stops

    def has_room(self, size: int) -> bool:
        """Return whether so many more bytes are logged; otherwise end the log."""
        self._bytes_left -= size
        if self._bytes_left >= 0:
            return True
        self.entries.append((FULL, 0, self.kernel.now))
        self.full = True
        self.flush()
        return False

    def origin(self) -> tuple[int, int]:
        """Return the process of the call that sends, and the place in the lock's code."""
        task = getcurrent()
        if not isinstance(task, Task):
            return NOBODY, NOBODY
        callers = self._callers[task.host.name]
        place = self._place(sys._getframe(FRAMES))
        process = callers.get(task)
        if process is not None or not callers:
            return (NOBODY if process is None else process), max(place, NOBODY)
        # A thread of the client library or an event loop sends for a call that waits in another thread. A thread that
        # a lock or its connection has started, such as one that renews, sends for itself.
        if len(callers) > 1 or (place != NOBODY and task.running_loop is None):
            return NOBODY, max(place, NOBODY)
        ((caller, process),) = callers.items()
        return process, max(self._place(caller.gr_frame) if place == NOBODY else place, NOBODY)
