"""The data of the message viewer: the messages around each violation, with lines of source, keys and holders.

Times are microseconds since the first entry. ``reports/templates/js/sequence.js`` reads this; the two must change
together. The data is bounded, so a page has at most some megabytes of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.documents.messages import MessageTrace, TracedMessage
from harness.history import History, HistoryError
from harness.history.lock_keys import KeyState

from . import words
from .holds import TimelineHold, find_holds
from .model import EvidenceView, FaultView, RunView
from .timeline_servers import Stay, find_stays

MOST_GROUPS: Final = 10
"""Violations whose messages the page has."""
MOST_MESSAGES: Final = 150
"""Messages of one violation."""
BEFORE: Final = 100
"""Number of messages shown before the violation if there are more than :data:`MOST_MESSAGES`; the others follow it."""
MARGIN_NS: Final = 20_000_000
AROUND: Final = 6
"""Lines of source before and after the line that sent a request."""
MOST_TEXT: Final = 600
Data = dict[str, Any]


@dataclass(slots=True)
class _Keys:
    """The states of keys by server, to be read at a time."""

    times: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    states: dict[tuple[str, str], list[KeyState]] = field(default_factory=dict)

    def add(self, state: KeyState) -> None:
        slot = state.host, state.key
        self.times.setdefault(slot, []).append(state.time)
        self.states.setdefault(slot, []).append(state)

    def at(self, host: str, time_ns: int) -> str:
        """Return what a server had just after everything that happened at a time."""
        found = []
        for slot in sorted(self.times):
            at = bisect_right(self.times[slot], time_ns)
            if slot[0] == host:
                found.append(f"{slot[1]}: {_state_text(self.states[slot][at - 1], time_ns) if at else 'no owner'}")
        return "; ".join(found)


def _state_text(state: KeyState, time_ns: int) -> str:
    if not state.answers:
        return "no answer"
    if state.owner is None:
        return "no owner"
    left = "" if state.left is None else f", {words.span(max(0, state.time + state.left - time_ns))} left"
    by = f" ({state.by})" if state.by else ""
    return f"{state.owner[:40]}{by}{left}"


def build(run: RunView) -> Data | None:
    """Return the data of the viewer; None if the run has no trace, or none that a page can show."""
    trace = run.trace
    if trace is None or not trace.messages:
        return None
    builder = _Builder(run.history, trace, run.keys)
    groups = [builder.group(found) for found in run.evidence[:MOST_GROUPS]] if run.evidence else [builder.first()]
    return {
        "groups": [group for group in groups if group["messages"]],
        "messages": builder.messages,
        "places": list(builder.places.values()),
        "clients": [name for name in run.clients if name in builder.hosts],
        "servers": sorted(builder.hosts - set(run.clients)),
        "holds": [builder.hold(one) for one in builder.holds if builder.shows(one.start, one.end)],
        "stays": [builder.stay(one) for one in builder.stays if one.owner and builder.shows(one.start, one.end)],
        "faults": [
            builder.fault(one)
            for one in run.faults
            if one.injected is not None and builder.shows(one.injected, one.healed)
        ],
    }  # fmt: skip


class _Builder:
    def __init__(self, history: History, trace: MessageTrace, keys: Sequence[KeyState]) -> None:
        self._history = history
        self._trace = trace
        self._keys = _Keys()
        for state in sorted(keys, key=lambda state: state.time):
            self._keys.add(state)
        try:
            self.holds = find_holds(history)
            self.stays = find_stays(keys, history.calls(), self.holds)
        except HistoryError:  # a damaged history; the page says so elsewhere
            self.holds, self.stays = [], []
        self.messages: dict[int, Data] = {}
        self.places: dict[tuple[str, int], Data] = {}
        self.hosts: set[str] = set()
        self._first = self._last = 0

    def us(self, ns: int | None) -> int | None:
        return None if ns is None else round((ns - self._history.origin) / 1000)

    def group(self, found: EvidenceView) -> Data:
        """Return the messages around one violation."""
        start = found.start if found.start is not None else self._history.origin
        times = [start, found.end or start, *(one.start for one in found.involved if one.start is not None)]
        first, last = min(times) - MARGIN_NS, max(times) + MARGIN_NS
        fitting = [one for one in self._trace.messages if first <= _until(one) and _since(one) <= last]
        middle = sum(_since(one) <= start for one in fitting)
        begin = max(0, min(middle - BEFORE, len(fitting) - MOST_MESSAGES))
        kept = fitting[begin : begin + MOST_MESSAGES]
        return {
            "title": f"Violation {found.number}: {found.sentence}",
            "from": self.us(found.start),
            "until": self.us(found.end),
            "left": len(fitting) - len(kept),
            "messages": [self._add(one) for one in kept],
        }

    def first(self) -> Data:
        """Return the first messages of a run without violations."""
        kept = self._trace.messages[:MOST_MESSAGES]
        numbers = [self._add(one) for one in kept]
        left = self._trace.total - len(kept)
        return {
            "title": "The first messages of the run",
            "from": None,
            "until": None,
            "left": left,
            "messages": numbers,
        }

    def shows(self, start: int, end: int | None) -> bool:
        return start <= self._last and (end is None or end >= self._first)

    def hold(self, hold: TimelineHold) -> Data:
        end = hold.end if hold.end is not None else hold.believed_until
        return {"host": hold.client, "from": self.us(hold.start), "until": self.us(end), "who": hold.client}

    def fault(self, fault: FaultView) -> Data:
        name = f"{fault.fault}: {', '.join(fault.hosts)}"
        return {"name": name, "from": self.us(fault.injected), "until": self.us(fault.healed)}

    def stay(self, stay: Stay) -> Data:
        return {"host": stay.host, "from": self.us(stay.start), "until": self.us(stay.end), "who": stay.who}

    def _add(self, message: TracedMessage) -> int:
        self.hosts |= {message.client, message.server}
        self._first = min(self._first or _since(message), _since(message))
        self._last = max(self._last, _until(message))
        reached = message.arrived if message.arrived is not None else message.executed
        done = message.executed if message.executed is not None else reached
        self.messages[message.number] = {
            "client": message.client,
            "server": message.server,
            "connection": message.connection,
            "name": message.name,
            "request": message.request[:MOST_TEXT],
            "reply": message.reply[:MOST_TEXT],
            "times": [self.us(one) for one in (message.sent, message.arrived, message.executed, message.replied)],
            "call": message.call,
            "callText": self._call(message.call),
            "place": self._place(message),
            "before": "" if reached is None else self._keys.at(message.server, reached - 1),
            "after": "" if done is None else self._keys.at(message.server, done),
        }
        return message.number

    def _call(self, index: int | None) -> str:
        if index is None or not 0 <= index < len(self._history):
            return ""
        op = self._history[index]
        return f"{op.f} {op.key or ''} by {op.node}, began {words.at(op.time, self._history.origin)} (entry {index})"

    def _place(self, message: TracedMessage) -> int | None:
        if not message.file:
            return None
        place = message.file, message.line
        if place not in self.places:
            lines = self._trace.sources.get(message.file, "").splitlines()
            first = max(0, message.line - 1 - AROUND)
            self.places[place] = {
                "number": len(self.places),
                "text": f"{message.file}:{message.line}",
                "function": message.function,
                "line": message.line,
                "first": first + 1,
                "lines": [line[:200] for line in lines[first : message.line + AROUND]],
            }
        return int(self.places[place]["number"])


def _since(message: TracedMessage) -> int:
    times = (message.sent, message.arrived, message.executed, message.replied)
    return next((time for time in times if time is not None), 0)


def _until(message: TracedMessage) -> int:
    times = (message.sent, message.arrived, message.executed, message.replied)
    return max((time for time in times if time is not None), default=0)
