"""The holds of a history: who believed to hold which key, from when until when (see ``docs/histories.md``).

The checkers decide what is wrong with them; the report only draws them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from harness.history import NEMESIS, TYPES, History

SECOND: Final = 1_000_000_000
ACCESSES: Final = frozenset({"read", "write", "take"})


@dataclass(slots=True)
class Hold:
    """One client's belief; times in ns as in the history. ``end`` is None while nothing ended it."""

    client: str
    process: int
    key: str
    start: int
    fence: str
    acquire_index: int
    end: int | None = None
    lease_end: int | None = None
    believed_until: int | None = None
    access_from: int | None = None
    access_until: int | None = None


@dataclass(slots=True)
class _Finder:
    """Walks over a history once, keeping the holds that are open by (process, key), innermost last."""

    history: History
    checking: bool
    holds: list[Hold] = field(default_factory=list)
    open: dict[tuple[int, str], list[Hold]] = field(default_factory=dict)

    def step(self, i: int) -> None:
        history, f = self.history, self.history.f[i]
        if history.process[i] == NEMESIS:
            if f == "crash":
                self._crash(i)
            return
        kind = TYPES[history.type[i]]
        if f == "acquire" and kind == "ok":
            self._begin(i)
        elif stack := self.open.get((history.process[i], history.key[i] or "")):
            self._during(i, stack, f, kind)

    def _during(self, i: int, stack: list[Hold], f: str, kind: str) -> None:
        hold, time = stack[-1], self.history.time[i]
        if f == "release" and kind == "invoke":
            _end(stack.pop(), time, self.checking)
        elif f in ACCESSES:
            hold.access_from = time if hold.access_from is None else hold.access_from
            hold.access_until = time
        elif f in ("extend", "check") and kind == "ok":
            self._renew_or_lose(i, stack, f)

    def _renew_or_lose(self, i: int, stack: list[Hold], f: str) -> None:
        time, value = self.history.time[i], _mapping(self.history.value[i])
        if value.get("extended" if f == "extend" else "valid") is False:
            while stack:
                _end(stack.pop(), time, self.checking)
            return
        hold = stack[-1]
        if hold.lease_end is not None and hold.believed_until is not None:
            hold.believed_until = max(hold.believed_until, time + _valid_for(self.history.value[hold.acquire_index]))
            hold.lease_end = hold.believed_until if f == "extend" else hold.lease_end

    def _begin(self, i: int) -> None:
        history = self.history
        value = _mapping(history.value[i])
        process, key = history.process[i], history.key[i] or ""
        fence = value.get("fence")
        hold = Hold(_host(history, i), process, key, history.time[i], "" if fence is None else str(fence), i)
        if value.get("valid_for") is not None:
            hold.lease_end = hold.believed_until = history.time[i] + _valid_for(value)
        self.holds.append(hold)
        self.open.setdefault((process, key), []).append(hold)

    def _crash(self, i: int) -> None:
        host = _mapping(self.history.value[i]).get("host") or self.history.node[i]
        for stack in self.open.values():
            for hold in [hold for hold in stack if hold.client == host]:
                stack.remove(hold)
                _end(hold, self.history.time[i], self.checking)

    def finish(self) -> list[Hold]:
        """The holds nobody ended: checking clients still stop believing when the lease runs out."""
        last = self.history.time[-1] if len(self.history) else 0
        for stack in self.open.values():
            for hold in stack:
                if self.checking and hold.believed_until is not None and hold.believed_until < last:
                    hold.end = hold.believed_until
        return self.holds


def find_holds(history: History) -> list[Hold]:
    """All holds, in the order in which they began."""
    finder = _Finder(history, checking=discipline(history) == "checking")
    for i in range(len(history)):
        finder.step(i)
    return finder.finish()


def discipline(history: History) -> str:
    """``trusting`` or ``checking``, as the first entry says."""
    if not len(history) or history.f[0] != "start":
        return "trusting"
    return str(_mapping(history.value[0]).get("discipline", "trusting"))


def _end(hold: Hold, time: int, checking: bool) -> None:
    early = checking and hold.believed_until is not None
    hold.end = min(time, hold.believed_until or time) if early else time


def _host(history: History, i: int) -> str:
    return history.node[i] or f"process {history.process[i]}"


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _valid_for(value: Any) -> int:
    seconds = _mapping(value).get("valid_for")
    return round(seconds * SECOND) if isinstance(seconds, int | float) else 0
