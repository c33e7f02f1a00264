"""The end of a history that is still recorded: the last entries, and the earlier ones that they depend on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from . import NEMESIS, History, Op
from .ongoing import lost

MOST: Final = 6_000
"""The most entries that are kept, however short the time in which they came."""


class Tail:
    """The entries of the last ``window_ns``, and the earlier ones that are needed to understand them.

    Needed are the start of the run, invocations of calls that returned later, grants of holds that lasted longer,
    faults that were active, and the last clock readings.
    """

    def __init__(self, window_ns: int, most: int = MOST) -> None:
        self.cut = False
        """True if entries have been left out."""
        self._window = window_ns
        self._most = most
        self._recent: deque[Op] = deque()
        self._start: Op | None = None
        self._clocks: Op | None = None
        self._invoked: dict[int, Op] = {}
        self._granted: dict[tuple[str | None, str | None], tuple[Op, ...]] = {}
        self._injected: dict[int, list[Op]] = {}

    def add(self, op: Op) -> None:
        """Add the next entry, and drop entries that are now too old."""
        self._recent.append(op)
        while len(self._recent) > self._most or self._recent[0].time < op.time - self._window:
            self.cut = True
            self._leave(self._recent.popleft())

    def history(self) -> tuple[History, list[int]]:
        """Return the entries as a history, in the order of time and numbered from 0, and their numbers in the file."""
        ops = sorted([*self._kept(), *self._recent], key=lambda op: (op.time, op.index))
        return History(msgspec.structs.replace(op, index=i) for i, op in enumerate(ops)), [op.index for op in ops]

    def _kept(self) -> Iterator[Op]:
        """Yield the old entries that are still needed."""
        grants = [op for pair in self._granted.values() for op in pair]
        once: dict[int, Op] = {op.index: op for op in self._single()}
        once.update((op.index, op) for op in (*grants, *self._invoked.values()))
        yield from once.values()

    def _single(self) -> Iterable[Op]:
        yield from (op for op in (self._start, self._clocks) if op is not None)
        for ops in self._injected.values():
            yield from ops

    def _leave(self, op: Op) -> None:
        """Handle an entry that is too old: keep it if it is needed, and drop the entries that were kept only for it."""
        if op.process == NEMESIS:
            self._leave_nemesis(op)
        elif op.type == "invoke":
            self._invoked[op.process] = op
        else:
            self._leave_call(op, self._invoked.pop(op.process, None))

    def _leave_call(self, done: Op, invoked: Op | None) -> None:
        slot = (done.key, done.node)
        if done.f == "acquire" and done.type == "ok" and invoked is not None:
            self._granted[slot] = (invoked, done)
        elif done.f == "release" or lost(done):
            self._granted.pop(slot, None)

    def _leave_nemesis(self, op: Op) -> None:
        if op.f == "start":
            self._start = op
        elif op.f == "clocks":
            self._clocks = op
        elif op.f == "inject":
            self._injected.setdefault(op.value["id"], []).append(op)
        elif op.f == "heal" and op.type == "ok":
            self._injected.pop(op.value["id"], None)
        elif op.f == "crash":
            gone = op.value["host"]
            self._granted = {slot: pair for slot, pair in self._granted.items() if slot[1] != gone}
