"""Recording of a history: each entry gets its number, is written to disk at once, and is passed to the listeners."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from harness.errors import HarnessError
from harness.history import NEMESIS, History, Op, OpType

Listener = Callable[[Op], None]


class EntryWriter(Protocol):
    """What a recorder writes to, such as a :class:`harness.history.HistoryWriter`."""

    def write(self, op: Op) -> None: ...

    def close(self) -> None: ...


class Recorder:
    """Appends entries to ``history`` and to the file of ``writer``. ``clock`` returns (monotonic ns, true wall ns).

    It may be used from several threads. While a thread holds ``lock``, the others cannot record."""

    def __init__(self, writer: EntryWriter | None, clock: Callable[[], tuple[int, int]]) -> None:
        self.history = History()
        self.listeners: list[Listener] = []
        self.failure: HarnessError | None = None
        """Why the history could not be written; nothing is recorded after that."""
        self._writer = writer
        self._clock = clock
        self._closed = False
        # Reentrant, because a listener may record too: a fault injected on an event is an entry after that event.
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
        """Append one entry and call the listeners; after ``close`` do nothing."""
        with self.lock:
            self.add(Op(len(self.history), time, wall, process, type_, f, key, value, error, node))

    def add(self, op: Op) -> None:
        """Do the same for an entry that has its number already."""
        with self.lock:
            if self._closed:
                return
            self.history.append(op)
            if self._writer is not None:
                try:
                    self._writer.write(op)
                except HarnessError as failure:
                    # Not raised here: the code of a client would catch it.
                    self.failure, self._closed = failure, True
                    return
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
        """Append an entry that is not a client's, at true time: now, or ``at`` (monotonic ns, wall clock ns)."""
        time, wall = at or self._clock()
        self.record(time=time, wall=wall, process=NEMESIS, type_=type_, f=f, value=value, error=error, node=node)

    def close(self) -> None:
        """End the history. Entries of clients that are being stopped are dropped from now on."""
        with self.lock:
            self._closed = True
            if self._writer is not None:
                self._writer.close()
