"""Find the holds of a history: which client believed that it held which key, and when (see ``docs/histories.md``).

Checkers judge the holds; this module provides them for the drawing in a report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from harness.history import NEMESIS, TYPES, History

SECOND: Final = 1_000_000_000
ACCESSES: Final = frozenset({"read", "write", "cas", "take", "mark", "add"})


@dataclass(slots=True)
class TimelineHold:
    """One client's hold; times are in ns as in the history. ``end`` is None as long as nothing ended it."""

    client: str
    process: int
    key: str
    start: int
    fence: str
    acquire_index: int
    end: int | None = None
    lease_end: int | None = None
    believed_until: int | None = None
    stops: bool = False
    """True if the client stops relying on the hold at ``believed_until``, whatever its discipline."""
    access_from: int | None = None
    access_until: int | None = None
    released: bool = False
    """True if the client released it."""
    shared: bool = False
    """True if the hold is shared."""
    depth: int = 1
    """Number of acquires: each nested acquire needs one more release."""


@dataclass(slots=True)
class _HoldFinder:
    """Walks through a history once, and keeps the open hold of each (client, key).

    A client is identified by its first process: a process that retires after an ``info`` is followed by the next new
    process of its host.
    """

    history: History
    checking: bool
    holds: list[TimelineHold] = field(default_factory=list)
    open: dict[tuple[int, str], TimelineHold] = field(default_factory=dict)
    owner: dict[int, int] = field(default_factory=dict)
    retired: dict[str, list[int]] = field(default_factory=dict)

    def step(self, i: int) -> None:
        history, f = self.history, self.history.f[i]
        if history.process[i] == NEMESIS:
            if f in ("crash", "exit"):
                self._die(i)
            return
        kind, slot = TYPES[history.type[i]], (self._client(i), history.key[i] or "")
        hold = self.open.get(slot)
        if f == "acquire" and kind == "ok":
            self._begin(i, slot, hold)
        elif hold is not None:
            self._during(i, slot, hold, f, kind)
        if kind == "info" and f != "read":
            self.retired.setdefault(_host(history, i), []).append(slot[0])

    def _client(self, i: int) -> int:
        process = self.history.process[i]
        if process not in self.owner:
            retired = self.retired.get(_host(self.history, i))
            self.owner[process] = retired.pop(0) if retired else process
        return self.owner[process]

    def _during(self, i: int, slot: tuple[int, str], hold: TimelineHold, f: str, kind: str) -> None:
        time = self.history.time[i]
        if f == "release" and kind == "invoke":
            hold.depth -= 1
            if hold.depth == 0:
                hold.released = True
                self._end(slot, time)
        elif f in ACCESSES:
            hold.access_from = time if hold.access_from is None else hold.access_from
            hold.access_until = time
        elif f in ("extend", "check") and kind == "ok":
            self._renew_or_lose(i, slot, hold, f)

    def _end(self, slot: tuple[int, str], time: int) -> None:
        hold = self.open.pop(slot)
        early = (self.checking or hold.stops) and hold.believed_until is not None
        hold.end = min(time, hold.believed_until or time) if early else time

    def _renew_or_lose(self, i: int, slot: tuple[int, str], hold: TimelineHold, f: str) -> None:
        time, value = self.history.time[i], _mapping(self.history.value[i])
        if value.get("extended" if f == "extend" else "valid") is False:
            self._end(slot, time)
            return
        if hold.lease_end is not None and hold.believed_until is not None:
            until = max(hold.believed_until, time + _seconds(self.history.value[hold.acquire_index], "valid_for"))
            hold.lease_end = until if f == "extend" else hold.lease_end
            hold.believed_until = hold.believed_until if hold.stops else until
        if value.get("relies_for") is not None:
            hold.believed_until = time + _seconds(value, "relies_for")

    def _begin(self, i: int, slot: tuple[int, str], held: TimelineHold | None) -> None:
        history = self.history
        if held is not None:
            held.depth += 1
            return
        value = _mapping(history.value[i])
        fence = value.get("fence")
        host, process = _host(history, i), history.process[i]
        hold = TimelineHold(host, process, slot[1], history.time[i], "" if fence is None else str(fence), i)
        hold.shared = bool(value.get("shared"))
        if value.get("valid_for") is not None:
            hold.lease_end = hold.believed_until = history.time[i] + _seconds(value, "valid_for")
        if value.get("relies_for") is not None:
            hold.stops, hold.believed_until = True, history.time[i] + _seconds(value, "relies_for")
        self.holds.append(hold)
        self.open[slot] = hold

    def _die(self, i: int) -> None:
        host = _mapping(self.history.value[i]).get("host") or self.history.node[i]
        for slot in [slot for slot, hold in self.open.items() if hold.client == host]:
            self._end(slot, self.history.time[i])

    def finish(self) -> list[TimelineHold]:
        """Return all holds, after ending those of checking clients whose lease ended."""
        last = self.history.time[-1] if len(self.history) else 0
        for hold in self.open.values():
            stops = self.checking or hold.stops
            if stops and hold.believed_until is not None and hold.believed_until < last:
                hold.end = hold.believed_until
        return self.holds


def find_holds(history: History) -> list[TimelineHold]:
    """Return all holds, in the order in which they began."""
    finder = _HoldFinder(history, checking=discipline(history) == "checking")
    for i in range(len(history)):
        finder.step(i)
    return finder.finish()


def discipline(history: History) -> str:
    """Return ``trusting`` or ``checking``, from the first entry."""
    if not len(history) or history.f[0] != "start":
        return "trusting"
    return str(_mapping(history.value[0]).get("discipline", "trusting"))


def _host(history: History, i: int) -> str:
    return history.node[i] or f"process {history.process[i]}"


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _seconds(value: Any, name: str) -> int:
    """Return a duration of an answer in ns."""
    seconds = _mapping(value).get(name)
    return round(seconds * SECOND) if isinstance(seconds, int | float) else 0
