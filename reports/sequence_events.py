"""Events beside the messages: faults, clocks, keys that servers lost, leases that ended, and the violations."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.documents.messages import TracedMessage

from . import words
from .holds import TimelineHold
from .model import FaultView, RunView
from .sequence_groups import LATE_NS, MessageGroup
from .timeline import DEATHS, ClockSteps, RunFacts, offset_before
from .timeline_servers import Stay

MOST_EVENTS: Final = 5_000
"""Events that a page has; those nearest to violations are kept."""
_SHORT: Final = re.compile(r": | \(|\. |; ")
LEAST_STEP_US: Final = 1_000
"""Smaller steps of a clock are no event: a clock that runs fast or slow makes many."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event on a host at a time (ns); ``host`` is empty for an event of the whole run."""

    time: int
    host: str
    kind: str
    """``fault``, ``heal``, ``clock``, ``gone``, ``silent``, ``back``, ``lease``, ``hold``, ``release``, ``late``,
    ``died``, ``violation``, ``over`` or ``story``."""
    text: str
    part_of: int | None = None
    """The entry that granted the hold, or the number of the violation, to which the event belongs."""
    key: str = ""
    """The lock whose key on a server changed; empty for other events."""


def build(
    run: RunView, facts: RunFacts, offsets: ClockSteps, groups: Sequence[MessageGroup],
    messages: Sequence[TracedMessage],
) -> list[Event]:  # fmt: skip
    """Return the events of a run in the order of time."""
    found = [
        *_faults(run), *_clocks(run, offsets), *_keys(run, facts), *_holds(run, groups), *_late(messages),
        *_deaths(run), *_violations(groups), *_story(run),
    ]  # fmt: skip
    if len(found) > MOST_EVENTS:
        found = _nearest(found, groups)
    return sorted(found, key=lambda one: (round((one.time - run.history.origin) / 1000), _rank(one.kind)))


def _rank(kind: str) -> int:
    """Return the place of a kind among events of the same microsecond: a story introduces what happens."""
    return {"story": 0, "hold": 1}.get(kind, 2)


def _nearest(events: Sequence[Event], groups: Sequence[MessageGroup]) -> list[Event]:
    """Return :data:`MOST_EVENTS` events, those nearest to the times of groups."""
    firsts, lasts = (np.array([getattr(group, name) for group in groups]) for name in ("first", "last"))
    distances = [int(np.maximum(firsts - one.time, one.time - lasts).min()) for one in events]
    order = sorted(range(len(events)), key=lambda position: max(0, distances[position]))
    return [events[position] for position in order[:MOST_EVENTS]]


def _faults(run: RunView) -> Iterator[Event]:
    for fault in run.faults:
        host = fault.hosts[0] if fault.hosts else ""
        if fault.injected is not None:
            unseen = " (not observed)" if fault.seen is False else ""
            yield Event(fault.injected, host, "fault", f"{_fault_text(fault)}{unseen}")
        if fault.healed is not None and fault.injected is not None:
            yield Event(fault.healed, host, "heal", f"{fault.fault} ends")


def _fault_text(fault: FaultView) -> str:
    """Return the name of a fault, and what it did to its hosts."""
    if not fault.words:
        return f"{fault.fault} on {', '.join(fault.hosts)}" if fault.hosts else f"{fault.fault} begins"
    return fault.words if fault.words.startswith(f"{fault.fault} ") else f"{fault.fault}: {fault.words}"


def _clocks(run: RunView, offsets: ClockSteps) -> Iterator[Event]:
    for host, steps in offsets.items():
        for number, (at_us, offset, *_) in enumerate(steps):
            before = offset_before(steps, number)
            if abs(offset - before) >= LEAST_STEP_US:
                time = run.history.origin + int(at_us) * 1000
                yield Event(time, host, "clock", f"{host}'s clock: {_reading(before)} → {_reading(int(offset))}")


def _reading(offset_us: int) -> str:
    """Return the reading of a clock compared with true time."""
    if offset_us == 0:
        return "correct"
    return f"{words.span(abs(offset_us) * 1000)} {'ahead' if offset_us > 0 else 'behind'}"


def _keys(run: RunView, facts: RunFacts) -> Iterator[Event]:
    writers = {(state.host, state.key, state.time): state.by for state in run.keys if state.by is not None}
    holds: dict[tuple[str, str], list[TimelineHold]] = {}
    for hold in facts.holds:
        holds.setdefault((hold.client, hold.key), []).append(hold)
    for stay in facts.stays:
        if stay.owner is None:
            yield from _silence(stay)
        elif stay.end is not None:
            text = _end_text(stay, writers.get((stay.host, stay.key, stay.end)), holds)
            if text:
                yield Event(stay.end, stay.host, "gone", text, key=stay.key)


def _silence(stay: Stay) -> Iterator[Event]:
    if stay.ended == "not recorded":
        return
    yield Event(stay.start, stay.host, "silent", f"{stay.host} does not answer")
    if stay.end is not None:
        without = f", without {stay.key}" if stay.ended == "early" else ""
        yield Event(stay.end, stay.host, "back", f"{stay.host} answers again{without}")


def _end_text(stay: Stay, remover: str | None, holds: dict[tuple[str, str], list[TimelineHold]]) -> str:
    """Return how a server lost a client's key; empty if the client released it."""
    named = f"{stay.who}'s {stay.key} on {stay.host}"
    if stay.ended == "expired":
        return f"{named} expires"
    if stay.ended == "removed":
        return f"{remover or 'another client'} removes {named}"
    if stay.ended == "early":
        return f"{named} is gone" + ("" if stay.until is None else f", {_span(stay.until - (stay.end or 0))} too early")
    if stay.ended == "released" and _held_at(holds.get((stay.client, stay.key), ()), stay.end or 0):
        return f"{named} is gone, its hold goes on"
    return ""


def _held_at(holds: Sequence[TimelineHold], time: int) -> bool:
    """Return whether one of a client's holds was under way at a time."""
    at = bisect_right(holds, time, key=lambda hold: hold.start)
    return at > 0 and (holds[at - 1].end is None or time < (holds[at - 1].end or 0))


def _span(ns: int) -> str:
    return words.span(max(0, ns))


def _holds(run: RunView, groups: Iterable[MessageGroup]) -> Iterator[Event]:
    """Yield the events of the holds that violations name."""
    seen: set[int] = set()
    deaths = {(event.host, event.time) for event in _deaths(run)}
    for group in groups:
        for hold in group.holds:
            if hold.acquire_index not in seen:
                seen.add(hold.acquire_index)
                yield from _hold(run, hold, dies=(hold.client, hold.end) in deaths)


def _hold(run: RunView, hold: TimelineHold, *, dies: bool) -> Iterator[Event]:
    """Yield the events of a hold; if its client ``dies`` at its end, the event of that stands for the end."""
    granted = hold.acquire_index
    lease = "" if hold.lease_end is None else f", lease {words.span(hold.lease_end - hold.start)}"
    token = f", token {hold.fence}" if hold.fence else ""
    yield Event(hold.start, hold.client, "hold", f"{hold.client} holds {hold.key}{lease}{token}", granted)
    last = run.history.time[-1]
    if hold.lease_end is not None and hold.lease_end <= last and (hold.end is None or hold.end > hold.lease_end):
        text = f"{hold.client}'s lease ends, its hold goes on"
        yield Event(hold.lease_end, hold.client, "lease", text, granted)
    if hold.end is not None and not dies:
        how = "releases" if hold.released else "no longer relies on"
        yield Event(hold.end, hold.client, "release", f"{hold.client} {how} {hold.key}", granted)


def _late(messages: Iterable[TracedMessage]) -> Iterator[Event]:
    for one in messages:
        if one.sent is not None and one.arrived is not None and one.arrived - one.sent > LATE_NS:
            took = words.span(one.arrived - one.sent)
            yield Event(one.arrived, one.server, "late", f"{one.client}'s {one.name} arrives, {took} under way")
        if one.executed is not None and one.replied is not None and one.replied - one.executed > LATE_NS:
            took = words.span(one.replied - one.executed)
            yield Event(
                one.replied, one.client, "late", f"the reply to {one.client}'s {one.name} arrives, {took} later"
            )


def _deaths(run: RunView) -> Iterator[Event]:
    for f, word in DEATHS.items():
        for op in run.history.nemesis(f):
            if op.node:
                yield Event(op.time, op.node, "died", f"{op.node} {word}")


def _violations(groups: Iterable[MessageGroup]) -> Iterator[Event]:
    for group in groups:
        found = group.evidence
        if found is None or group.start is None:
            continue
        text = f"Violation {group.number}: {_SHORT.split(found.sentence)[0]}"
        if found.kind == "overlap":
            text = f"Violation {group.number}: {' and '.join(group.clients[:2])} both hold {found.key}"
        yield Event(group.start, "", "violation", text, group.number)
        if group.end is not None and group.end > group.start:
            yield Event(group.end, "", "over", f"End of violation {group.number}", group.number)


def _story(run: RunView) -> Iterator[Event]:
    for number, (time, (_, text)) in enumerate(zip(run.moments, run.steps, strict=True), 1):
        if time is not None:
            yield Event(time, "", "story", f"Story {number}: {text}")
