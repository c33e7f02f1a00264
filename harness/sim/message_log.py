"""Log of what the clients and servers of a simulation send each other: pieces of data with their times, undecoded.

Logging has no effect on a simulation: it draws no random number and schedules nothing. Entries are small tuples of
numbers, texts and bytes, since millions of them may be logged; :mod:`harness.trace` decodes them after the run. A
connection has two streams. The one to the server has an even number, the one to the client the next number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any, Final

from greenlet import getcurrent

from .call_finder import CallFinder, CurrentCall
from .kernel import Kernel, Life, Task
from .places import NOWHERE, PlaceFinder

OPENED: Final = 0
"""Entry ``(OPENED, stream, time, client, server, name)``: a connection, with the name of its stream to the server."""
REQUEST: Final = 1
"""Entry ``(REQUEST, stream, time, data, process, place)``: a client sent data. ``process`` is that of the lock's call
in progress, and ``place`` the number of a :data:`.places.Place`; :data:`NOBODY` if there is none."""
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

    ``places`` finds the lines of the lock's code that send, and ``current_call`` the calls that event loops make.
    """

    def __init__(
        self,
        kernel: Kernel,
        clients: Collection[str],
        servers: Collection[str],
        places: PlaceFinder,
        current_call: CurrentCall,
        sink: Callable[[list[Entry]], None],
    ) -> None:
        self.kernel = kernel
        self._clients = frozenset(clients)
        self._servers = frozenset(servers)
        self.places = places
        self._current_call = current_call
        self._sink = sink
        self.entries: list[Entry] = []
        """Entries that wait to be passed on."""
        self._streams = 0
        self._bytes_left = MOST_BYTES
        self.full = False
        """True if logging has ended because of the size."""
        self._calls: dict[Life, CallFinder] = {}
        """Calls of each process."""
        self._threads: dict[int, Task] = {}
        """Tasks that call the lock, by the ids of the threads that they simulate."""

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

    def note_call(self, type_: str, f: str, process: int) -> None:
        """Note that the current task begins (``invoke``) or ends a call of the history."""
        task = getcurrent()
        if not isinstance(task, Task):
            return
        self._threads[task.ident] = task
        self._calls_of(task).note_call(task.ident, type_, f, process)
        if f == "acquire" and type_ != "invoke":
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
        return self._calls_of(task).origin(task.ident, sys._getframe(FRAMES))

    def _calls_of(self, task: Task) -> CallFinder:
        """Return the calls of the task's process."""
        calls = self._calls.get(task.life)
        if calls is None:
            calls = self._calls[task.life] = CallFinder(self.places, self._current_call, self._frame_of)
        return calls

    def _frame_of(self, thread: int) -> FrameType | None:
        return self._threads[thread].gr_frame
