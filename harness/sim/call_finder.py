"""Tell for which call of the lock a client sends data, and from which line of the lock's code.

Clients on simulated and on real hosts use it, so it imports no library.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Protocol

from .places import NOWHERE, PlaceFinder

LOCK_CALLS: Final = frozenset({"acquire", "extend", "check", "release", "add"})
"""Calls of a history that are calls of a lock."""


class LoopCall(Protocol):
    """A call that the thread with id ``thread`` makes in an event loop, where ``task`` awaits it."""

    thread: int
    task: asyncio.Task[Any]
    ended: bool


CurrentCall = Callable[[], LoopCall | None]
"""Function that returns the last call that the running task has awaited, or inherited from the task that made it."""


class CallFinder:
    """Finds the call of a client's process that sends. Threads must not use it at the same time.

    ``places`` finds the lines of the lock's code, and ``frame_of`` returns the innermost frame of the thread with an
    id.
    """

    def __init__(
        self, places: PlaceFinder, current_call: CurrentCall, frame_of: Callable[[int], FrameType | None]
    ) -> None:
        self._places = places
        self._current_call = current_call
        self._frame_of = frame_of
        self._callers: dict[int, int] = {}
        """Process numbers of the calls in progress, by thread."""
        self._overlapping: set[int] = set()
        """Threads whose call in progress overlaps another call, which may have ended."""

    def note_call(self, thread: int, type_: str, f: str, process: int) -> None:
        """Note that a call of the history begins (``invoke``) or ends in a thread."""
        if f not in LOCK_CALLS:
            return
        if type_ == "invoke":
            if self._callers:
                self._overlapping.update((thread, *self._callers))
            self._callers[thread] = process
        else:
            self._callers.pop(thread, None)
            self._overlapping.discard(thread)

    def origin(self, thread: int, frame: FrameType | None) -> tuple[int, int]:
        """Return the process of the call for which the current thread sends, and the place in the lock's code; each may
        be :data:`NOWHERE`. ``frame`` is the innermost frame of the thread that matters."""
        call = self._current_call()
        if call is None:
            process, place = self._origin_in_thread(thread, frame)
        elif call.ended or not self._sends_for(call):
            process, place = None, self._places.find(frame)
        else:
            process, place = self._callers.get(call.thread), self._places.find_in_call(frame, call.task)
        return NOWHERE if process is None else process, max(place, NOWHERE)

    def _origin_in_thread(self, thread: int, frame: FrameType | None) -> tuple[int | None, int]:
        place = self._places.find(frame)
        process = self._callers.get(thread)
        if process is None and len(self._callers) == 1 and place == NOWHERE:
            # A thread or an event loop of the library sends for the one call that waits in another thread. A thread
            # that a lock or its connection has started, such as one that renews, sends for itself.
            ((caller, process),) = self._callers.items()
            place = self._places.find(self._frame_of(caller))
        return process, place

    def _sends_for(self, call: LoopCall) -> bool:
        """Return whether what is sent now certainly belongs to the current call, which is in progress.

        What the task that awaits the call sends does. A task or thread that the call has started may be the one that
        writes all data of a connection, so no other call may have been in progress since. A callback of the event loop
        sends what did not fit into the socket before, by any call.
        """
        try:
            task = asyncio.current_task()
        except RuntimeError:  # a thread without an event loop, such as one of asyncio.to_thread
            return call.thread not in self._overlapping
        return task is call.task or (task is not None and call.thread not in self._overlapping)
