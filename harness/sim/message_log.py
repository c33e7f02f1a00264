"""Log of what the clients and servers of a simulation send each other: pieces of data with their times, undecoded.

Logging has no effect on a simulation: it draws no random number and schedules nothing. Entries are small tuples of
numbers, texts and bytes, since millions of them may be logged; :mod:`harness.trace` decodes them after the run. A
connection has two streams. The one to the server has an even number, the one to the client the next number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any, Final, Literal

from greenlet import getcurrent

from .kernel import Kernel, Task

OPENED: Final = 0
"""Entry ``(OPENED, stream, time, client, server, name)``: a connection, with the name of its stream to the server."""
REQUEST: Final = 1
"""Entry ``(REQUEST, stream, time, data, process, place)``: a client sent data. ``process`` is that of the lock's call
in progress, :data:`NOBODY` if there is none; ``place`` the number of a :data:`PLACE`."""
REPLY: Final = 2
"""Entry ``(REPLY, stream, time, data)``: a server sent data."""
ARRIVED: Final = 3
"""Entry ``(ARRIVED, stream, time)``: the first piece of the stream that had not arrived yet arrived."""
PLACE: Final = 4
"""Entry ``(PLACE, number, file, line, function)``: a line of the lock's code that sent data, before its first use."""
FULL: Final = 5
"""Entry ``(FULL, 0, time)``: nothing is logged from now on, because of the size."""
NOBODY: Final = -1
_SUPPORT_ONLY: Final = -2
Code = Literal["lock", "support", "other"]
"""Code of the lock under test, of what connects locks to servers, or any other code."""
Entry = tuple[Any, ...]
BATCH: Final = 512
"""Number of entries that are passed on at once."""
MOST_BYTES: Final = 1 << 27
"""Number of bytes of data after which logging ends."""
LOCK_CALLS: Final = frozenset({"acquire", "extend", "check", "release", "add"})
"""Calls of a history that are calls of a lock."""


class StreamLog:
    """Logs one direction of a connection."""

    __slots__ = ("_log", "_number", "_sends")

    def __init__(self, log: MessageLog, number: int) -> None:
        self._log = log
        self._number = number
        self._sends = log.reply if number & 1 else log.request

    def sent(self, data: bytes) -> None:
        self._sends(self._number, data)

    def arrived(self) -> None:
        """Log that the next piece of the stream arrived."""
        self._log.add((ARRIVED, self._number, self._log.kernel.now))


class MessageLog:
    """Logs the streams between hosts ``clients`` and ``servers``, and passes entries on in batches, by ``sink``.

    ``code_of`` says whose code a source file is.
    """

    def __init__(
        self,
        kernel: Kernel,
        clients: Collection[str],
        servers: Collection[str],
        code_of: Callable[[str], Code],
        sink: Callable[[list[Entry]], None],
    ) -> None:
        self.kernel = kernel
        self._clients = frozenset(clients)
        self._servers = frozenset(servers)
        self._code_of = code_of
        self._sink = sink
        self._entries: list[Entry] = []
        self._streams = 0
        self._bytes_left = MOST_BYTES
        self._full = False
        self._known: dict[str, Code] = {}
        self._places: dict[tuple[str, int], int] = {}
        self._callers: dict[str, dict[Task, int]] = {client: {} for client in clients}
        """Tasks with a call of the lock in progress, and its process number, by host."""

    def add(self, entry: Entry) -> None:
        if self._full:
            return
        self._entries.append(entry)
        if len(self._entries) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Pass on the entries that wait."""
        entries, self._entries = self._entries, []
        if entries:
            self._sink(entries)

    def streams(self, name: str, source: str, target: str) -> tuple[StreamLog, StreamLog] | None:
        """Return the logs of both directions of a new connection called ``name``; None if it is not logged."""
        if source not in self._clients or target not in self._servers:
            return None
        number = self._streams
        self._streams += 2
        self.add((OPENED, number, self.kernel.now, source, target, name))
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

    def request(self, stream: int, data: bytes) -> None:
        if self._has_room(data):
            process, place = self._origin()
            self.add((REQUEST, stream, self.kernel.now, data, process, place))

    def reply(self, stream: int, data: bytes) -> None:
        if self._has_room(data):
            self.add((REPLY, stream, self.kernel.now, data))

    def _has_room(self, data: bytes) -> bool:
        self._bytes_left -= len(data)
        if self._bytes_left < 0 and not self._full:
            self.add((FULL, 0, self.kernel.now))
            self._full = True
            self.flush()
        return not self._full

    def _origin(self) -> tuple[int, int]:
        """Return the process of the call that sends, and the place in the lock's code."""
        task = getcurrent()
        if not isinstance(task, Task):
            return NOBODY, NOBODY
        callers = self._callers[task.host.name]
        place = self._place(sys._getframe(4))
        process = callers.get(task)
        if process is not None or not callers:
            return (NOBODY if process is None else process), max(place, NOBODY)
        # A thread of the client library or an event loop sends for a call that waits in another thread. A thread that
        # a lock or its connection has started, such as one that renews, sends for itself.
        if len(callers) > 1 or (place != NOBODY and task.running_loop is None):
            return NOBODY, max(place, NOBODY)
        ((caller, process),) = callers.items()
        return process, max(self._place(caller.gr_frame) if place == NOBODY else place, NOBODY)

    def _place(self, frame: FrameType | None) -> int:
        """Return the number of the innermost place in the lock's code in a stack.

        It is :data:`_SUPPORT_ONLY` if the stack has code that connects locks, and none of a lock.
        """
        known, nowhere = self._known, NOBODY
        while frame is not None:
            file = frame.f_code.co_filename
            found = known.get(file)
            if found is None:
                found = known[file] = self._code_of(file)
            if found == "lock":
                return self._number_of(frame)
            if found == "support":
                nowhere = _SUPPORT_ONLY
            frame = frame.f_back
        return nowhere

    def _number_of(self, frame: FrameType) -> int:
        place = frame.f_code.co_filename, frame.f_lineno
        number = self._places.get(place)
        if number is None:
            number = self._places[place] = len(self._places)
            self.add((PLACE, number, *place, frame.f_code.co_qualname))
        return number
