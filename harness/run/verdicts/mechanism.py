"""Comparison of a violation with the mechanism that a scenario states for it (:class:`harness.plan.Mechanism`).

An event is an interval of time, since a history does not say exactly when a fault was healed, or when a server that
was down lost a key. Steps fit if moments in their intervals can be chosen in the order that the mechanism states;
choosing the earliest event for each step finds such moments if there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from harness.checkers.base import Blame, Violation
from harness.checkers.holds import FOREVER, Holds, holds
from harness.checkers.leases import Leases
from harness.checkers.view import INFO, NONE, OK, View
from harness.history import NEMESIS, SECOND, TYPES, History
from harness.history.key_owners import Ownership, ownerships
from harness.history.lock_keys import keys_of
from harness.plan import Mechanism
from harness.plan.mechanism import VIOLATION, Step

HEAL_SEEN_NS: Final = 5 * SECOND
"""A heal is recorded when it was observed, at most so long after the heal itself."""
PUNCTUAL_NS: Final = 5_000_000
"""A key that disappears at most this long before its end has expired: servers count in ms."""


class Event(NamedTuple):
    """Something that happened at some moment from ``from_ns`` to ``until_ns``."""

    from_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class _KeyChange:
    """A key of a client on a server, from ``set_ns`` until ``gone`` (None: to the end); ``how`` names that event."""

    client: str
    host: str
    set_ns: int
    gone: Event | None = None
    how: str = ""


def mismatch(mechanism: Mechanism, violation: Violation, history: History) -> str:
    """Return why the violation does not have this mechanism, in a sentence; empty if it has.

    Events of servers' keys count only where every change was recorded, which is so on the simulator."""
    scene = Scene(history, violation)
    if scene.cause != mechanism.cause:
        return f"the cause is {scene.cause}, expected {mechanism.cause}"
    for expected, client in zip(mechanism.between, [*scene.clients, *["nobody"] * 2], strict=False):
        if expected not in ("any", client):
            got = " and ".join(scene.clients) or "nobody"
            return f"it concerns {got}, expected {' and '.join(mechanism.between)}"
    return scene.disorder(mechanism)


class Scene:
    """A violation in its history. ``clients`` are those of its evidence, in order."""

    def __init__(self, history: History, violation: Violation) -> None:
        self._history = history
        self._violation = violation
        self._columns: View = holds(history).view
        self._found: Holds = holds(history)
        named = (str(one["client"]) for one in violation.involved if one.get("client"))
        self.clients: list[str] = list(dict.fromkeys(named))

    @cached_property
    def cause(self) -> Blame:
        """Return the cause that the checker names, or else the one of the grants whose holders clashed."""
        if self._violation.blame is not None:
            return self._violation.blame
        rows = sorted(row for client in self.clients[:2] if (row := self._hold_of(client)) is not None)
        if len(rows) < 2:
            return "service"
        return Leases.of(self._history).overlap(self._found, rows[0], rows[1])[1].blame

    def moment_before(self, step: Step) -> int | None:
        """Return when the last event of a step before the violation began, ns; None if there is none."""
        until = self._violation.from_ns
        return max((event.from_ns for event in self._events(step) if event.from_ns <= until), default=None)

    def disorder(self, mechanism: Mechanism) -> str:
        """Return which event of the mechanism is absent, out of order or forbidden; empty if none is."""
        now, began, before, used = 0, 0, "the start", set[tuple[str, Event]]()
        for step, text in zip(mechanism.steps(), mechanism.order, strict=True):
            if self._unrecorded(step):
                continue
            kind = text if step.of_fault else f"{step.event} {step.host}"  # two faults may strike at one moment
            possible = [it for it in self._events(step) if it.until_ns >= now and (kind, it) not in used]
            if not possible:
                return f"there is no {text!r} after {before} ({self._columns.at(now or self._columns.origin)})"
            event = min(possible, key=lambda it: (max(now, it.from_ns), it))
            used.add((kind, event))
            now, before = max(now, event.from_ns), repr(text)
            began = began or now
        return self._forbidden(mechanism, began)

    def _forbidden(self, mechanism: Mechanism, began: int) -> str:
        for text, step in zip(mechanism.never, mechanism.forbidden(), strict=True):
            if self._unrecorded(step):
                continue
            for event in self._events(step):
                if began < event.from_ns and event.until_ns < self._violation.from_ns:
                    return f"there is a {text!r} at {self._columns.at(event.from_ns)}, which excludes this mechanism"
        return ""

    def _unrecorded(self, step: Step) -> bool:
        return step.of_keys and keys_of(self._history) is None

    # Events of a step.

    def _events(self, step: Step) -> Iterable[Event]:
        if step.event == VIOLATION:
            return [Event(self._violation.from_ns, self._violation.from_ns)]
        if step.of_fault:
            return self._fault_events(step)
        return [event for client in self._subjects(step.subject) for event in self._events_of(client, step)]

    def _subjects(self, subject: str) -> Sequence[str]:
        if subject == "any":
            return self._columns.names
        place = {"first": 0, "second": 1}.get(subject)
        if place is None:
            return [subject]
        return self.clients[place : place + 1]

    def _events_of(self, client: str, step: Step) -> Iterator[Event]:
        if step.of_keys:
            yield from self._key_events(client, step)
        elif step.event in ("lease-end", "hold-end"):
            yield from self._hold_events(client, step.event)
        else:
            call, _, phase = step.event.partition(":")
            yield from self._entries(client, call, phase)

    def _entries(self, client: str, call: str, phase: str) -> Iterator[Event]:
        """Yield the entries of a client's calls. A granted acquire is the one of the decisive hold or a later one."""
        columns = self._columns
        wanted = TYPES.index(phase) if phase else INFO if call in ("crash", "exit") else OK
        row = self._hold_of(client) if call == "acquire" and not phase else None
        first = NONE if row is None else int(self._found.grant[row])
        for index in np.flatnonzero(columns.type == wanted).tolist():
            if index >= first and columns.fs[index] == call and self._belongs_to(index, client):
                yield Event(int(columns.time[index]), int(columns.time[index]))

    def _belongs_to(self, index: int, client: str) -> bool:
        if self._columns.process[index] == NEMESIS:  # a crash
            return (self._columns.value[index] or {}).get("host") == client
        return self._columns.name(int(self._columns.client[index])) == client

    def _hold_events(self, client: str, event: str) -> Iterator[Event]:
        found, decisive = self._found, self._hold_of(client)
        rows = range(len(found)) if decisive is None else [decisive]
        for row in rows:
            if found.view.name(int(found.client[row])) != client:
                continue
            end, lease = int(found.end[row]), int(found.stated_end[row])
            if event == "hold-end":
                yield Event(end, end)
            elif lease != FOREVER and (found.release[row] == NONE or lease <= found.view.time[found.release[row]]):
                yield Event(lease, lease)

    def _hold_of(self, client: str) -> int | None:
        """Return the row of the client's hold in the evidence, or else of its last hold before its call there."""
        evidence = [one for one in self._violation.involved if one.get("client") == client]
        found, columns = self._found, self._columns
        for one in evidence:
            rows = [row for row in range(len(found)) if columns.name(int(found.client[row])) == client]
            if one.get("f") == "hold":
                return next((row for row in rows if int(found.grant[row]) in one["indices"]), None)
            before = [row for row in rows if found.grant[row] < max(one["indices"])]
            if before:
                return before[-1]
        return None

    def _key_events(self, client: str, step: Step) -> Iterator[Event]:
        for change in self._key_changes:
            if change.client != client or step.host not in ("", change.host):
                continue
            if step.event == "key-set":
                yield Event(change.set_ns, change.set_ns)
            elif change.gone is not None and step.event in ("key-gone", change.how):
                yield change.gone

    @cached_property
    def _key_changes(self) -> list[_KeyChange]:
        key = self._violation.key
        by_host: dict[str, list[Ownership]] = {}
        for state in ownerships(one for one in keys_of(self._history) or () if one.key == key):
            by_host.setdefault(state.host, []).append(state)
        return [change for states in by_host.values() for change in _changes(states)]

    def _fault_events(self, step: Step) -> Iterator[Event]:
        begun: dict[int, int] = {}
        seen: dict[int, int] = {}
        for op in self._history.nemesis("inject", "heal"):
            value = op.value or {}
            if value.get("fault") != step.subject or (step.host and step.host not in value.get("hosts", ())):
                continue
            number = value["id"]
            if op.f == "heal":
                if step.event == "heal":
                    yield Event(max(seen.get(number, 0), op.time - HEAL_SEEN_NS), op.time)
            elif op.type == "invoke":
                begun[number] = op.time
            elif op.type == "ok":
                seen[number] = op.time
                if step.event == "inject":
                    yield Event(begun.get(number, op.time), op.time)


def _changes(states: Iterable[Ownership]) -> Iterator[_KeyChange]:
    """Yield the keys of clients on one server. It may have lost them at any moment in which it did not answer."""
    current: _KeyChange | None = None
    ends: int | None = None
    silent_ns: int | None = None
    for state in states:
        if not state.answers:
            silent_ns = state.time if silent_ns is None else silent_ns
            continue
        if current is not None and state.client != current.client:
            expired = ends is not None and state.time >= ends - PUNCTUAL_NS
            how = "key-expired" if expired else "key-gone" if state.by == current.client else "key-lost"
            gone = Event(state.time if silent_ns is None else silent_ns, state.time)
            yield replace(current, gone=gone, how=how)
            current = None
        if current is None and state.client is not None:
            current = _KeyChange(state.client, state.host, state.time)
        ends, silent_ns = state.ends, None
    if current is not None:
        yield current
