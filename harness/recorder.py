"""The one place where entries enter a history: numbered, written to disk at once, and shown to whoever listens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .history import NEMESIS, History, HistoryWriter, Op, OpType

Listener = Callable[[Op], None]


class Recorder:
    """Appends to ``history`` and to the file behind ``writer``. ``clock`` gives (monotonic ns, true wall clock ns).

    Safe to use from several threads; whoever holds ``lock`` keeps the others from recording."""

    def __init__(self, writer: HistoryWriter | None, clock: Callable[[], tuple[int, int]]) -> None:
        self.history = History()
        self.listeners: list[Listener] = []
        self._writer = writer
        self._clock = clock
        self._closed = False
        # A listener may record in its turn: a fault that strikes on an event is an entry after it.
        self.lock = threading.RLock()

    def record(
        self,
        *,
        time: int,
        wall: int,
        process: int,
        type_: OpType,
        f: str,
        key: str | None = None,
        value: Any = None,
        error: str | None = None,
        node: str | None = None,
    ) -> None:
        """Append one entry and tell the listeners."""
        with self.lock:
            if self._closed:
                return
            op = Op(len(self.history), time, wall, process, type_, f, key, value, error, node)
            self.history.append(op)
            if self._writer is not None:
                self._writer.write(op)
            for listen in self.listeners:
                listen(op)

    def nemesis(
        self,
        f: str,
        value: Any,
        *,
        type_: OpType = "info",
        error: str | None = None,
        node: str | None = None,
        at: tuple[int, int] | None = None,
    ) -> None:
        """Append an entry no client made, at true time: now, or ``at`` (monotonic ns, wall clock ns)."""
        time, wall = at or self._clock()
        self.record(time=time, wall=wall, process=NEMESIS, type_=type_, f=f, value=value, error=error, node=node)

    def close(self) -> None:
        """End the history; what clients still say while they are torn down is not part of it."""
        with self.lock:
            self._closed = True
            if self._writer is not None:
                self._writer.close()
