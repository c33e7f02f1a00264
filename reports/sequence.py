"""The data of the message viewer: all messages that a run has kept, the owners of keys on the servers, what else
happened, and the decisive messages of each violation.

Times are microseconds since the first entry. ``reports/templates/js/sequence_data.js`` reads this; the two must change
together. Holds, calls, faults, clocks and the sentences of violations are in the data of the timeline, which the viewer
reads, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.documents.messages import MessageTrace, TracedMessage
from harness.history.lock_keys import KeyState

from . import sequence_events
from .columns import NONE, Column, TextNumbers, columns
from .model import RunView
from .sequence_groups import MessageGroup, find_groups, known_times
from .timeline import ClockSteps, Data, RunFacts

AROUND: Final = 6
"""Lines of source before and after the line that sent a request."""
MOST_TEXT: Final = 600
MOST_WIDTH: Final = 200
"""Characters of a line of source."""


def build(run: RunView, facts: RunFacts, offsets: ClockSteps) -> Data | None:
    """Return the data of the viewer; None if the run has no messages that a page can show.

    ``offsets`` are the steps of the hosts' clocks, as in the data of the timeline.
    """
    trace = run.trace
    if trace is None or not trace.messages:
        return None
    builder = _Builder(run, trace)
    groups = find_groups(run, facts, trace.messages)
    events = sequence_events.build(run, facts, offsets, groups, trace.messages)
    messages, states = builder.tables()
    return {
        "messages": messages,
        "states": states,
        "texts": builder.texts.texts,
        "hosts": builder.hosts.texts,
        "clients": [name for name in run.clients if name in builder.hosts.codes],
        "keys": builder.keys.texts,
        "places": builder.places,
        "events": [[builder.us(one.time), one.host, one.kind, one.text, one.part_of, one.key] for one in events],
        "groups": [builder.group(one) for one in groups],
        "wall": run.history.wall[0] // 1_000_000 if len(run.history) else 0,
        "dropped": trace.dropped,
    }  # fmt: skip


_MESSAGE_COLUMNS: Final = (
    "number", "since", "client", "server", "connection", "name", "request", "reply", "sent", "arrived", "executed",
    "replied", "call", "place",
)  # fmt: skip
_STATE_COLUMNS: Final = ("time", "slot", "owner", "left", "by", "answers")


@dataclass(slots=True)
class _Builder:
    run: RunView
    trace: MessageTrace
    hosts: TextNumbers = field(default_factory=TextNumbers)
    keys: TextNumbers = field(default_factory=TextNumbers)
    texts: TextNumbers = field(default_factory=TextNumbers)
    places: list[Data] = field(default_factory=list)
    _placed: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named = {name for one in self.trace.messages for name in (one.client, one.server)}
        for name in (*self.run.clients, *sorted(named)):
            if name in named:
                self.hosts.code(name)

    def us(self, ns: int) -> int:
        return round((ns - self.run.history.origin) / 1000)

    def tables(self) -> tuple[dict[str, Column], dict[str, Column]]:
        """Return the messages and the states of keys.

        Their texts get numbers in the order of time: a token is near its other occurrences, so it compresses well.
        """
        messages: list[tuple[int, ...]] = []
        states: list[tuple[int, ...]] = []
        for one in self._in_order():
            if isinstance(one, KeyState):
                states.append(self._state(one))
            else:
                messages.append(self._message(one))
        return (
            columns(_MESSAGE_COLUMNS, messages, rising=("number", "since")),
            columns(_STATE_COLUMNS, states, rising=("time",)),
        )

    def _in_order(self) -> Iterator[TracedMessage | KeyState]:
        states = list(self._states())
        at = 0
        for message in self.trace.messages:
            while at < len(states) and states[at].time <= since(message):
                yield states[at]
                at += 1
            yield message
        yield from states[at:]

    def _states(self) -> Iterator[KeyState]:
        """Yield the states on servers of the messages until the last message, in the order of time."""
        last = max(until(one) for one in self.trace.messages)
        ordered = sorted(self.run.keys, key=lambda state: state.time)
        kept = ordered[: bisect_right(ordered, last, key=lambda state: state.time)]
        for state in kept:
            self.keys.code(state.key)
        return (state for state in kept if state.host in self.hosts.codes)

    def _state(self, state: KeyState) -> tuple[int, ...]:
        return (
            self.us(state.time),
            self.hosts.codes[state.host] * len(self.keys.texts) + self.keys.codes[state.key],
            NONE if state.owner is None else self.texts.code(state.owner[:MOST_TEXT] or "(empty)"),
            NONE if state.left is None else max(0, round(state.left / 1000)),
            self.texts.code(state.by),
            int(state.answers),
        )

    def _message(self, one: TracedMessage) -> tuple[int, ...]:
        begun = self.us(since(one))

        def after(ns: int | None) -> int:
            return NONE if ns is None else max(0, self.us(ns) - begun)

        code = self.texts.code
        return (
            one.number, begun, self.hosts.codes[one.client], self.hosts.codes[one.server], code(one.connection),
            code(one.name), code(one.request[:MOST_TEXT]), code(one.reply[:MOST_TEXT]),
            after(one.sent), after(one.arrived), after(one.executed), after(one.replied),
            NONE if one.call is None else one.call, self._place(one),
        )  # fmt: skip

    def _place(self, message: TracedMessage) -> int:
        if not message.file:
            return NONE
        place = message.file, message.line
        if place not in self._placed:
            self._placed[place] = len(self.places)
            lines = self.trace.sources.get(message.file, "").splitlines()
            first = max(0, message.line - 1 - AROUND)
            self.places.append(
                {
                    "text": f"{message.file}:{message.line}",
                    "function": message.function,
                    "line": message.line,
                    "first": first + 1,
                    "lines": [line[:MOST_WIDTH] for line in lines[first : message.line + AROUND]],
                }
            )
        return self._placed[place]

    def group(self, group: MessageGroup) -> dict[str, Any]:
        """Return a group with its decisive messages as positions in the table."""
        return {
            "number": group.number,
            "kind": "" if group.evidence is None else group.evidence.kind,
            "key": "" if group.evidence is None else group.evidence.key,
            "from": None if group.start is None else self.us(group.start),
            "until": None if group.end is None else self.us(group.end),
            "first": self.us(group.first),
            "last": self.us(group.last),
            "clients": list(group.clients),
            "holds": [hold.acquire_index for hold in group.holds],
            "decisive": _indices(group.decisive),
        }


def _indices(found: Sequence[int]) -> Column:
    return columns(("index",), ((one,) for one in found), rising=("index",))["index"]


def since(message: TracedMessage) -> int:
    """Return the first known time of a message, ns."""
    return next(iter(known_times(message)), 0)


def until(message: TracedMessage) -> int:
    """Return the last known time of a message, ns."""
    return max(known_times(message), default=0)
