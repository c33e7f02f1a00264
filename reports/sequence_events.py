"""What happened beside the messages: faults, clocks, keys that servers lost, leases that ended, and the violations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness.documents.messages import TracedMessage

from . import words
from .holds import TimelineHold
from .model import RunView
from .sequence_groups import LATE_NS, MessageGroup
from .timeline import DEATHS, RunFacts
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
    """``fault``, ``heal``, ``clock``, ``gone``, ``silent``, ``lease``, ``hold``, ``release``, ``late``, ``died``,
    ``violation``, ``over`` or ``story``."""
    text: str
    part_of: int | None = None
    """The entry that granted the hold, or the number of the violation, to which the event belongs."""


def build(
    run: RunView, facts: RunFacts, offsets: dict[str, list[list[int]]], groups: Sequence[MessageGroup],
    messages: Sequence[TracedMessage],
) -> list[Event]:  # fmt: skip
    """Return the events of a run in the order of time."""
    found = [
        *_faults(run), *_clocks(run, offsets), *_keys(facts.stays), *_holds(run, groups), *_late(messages),
        *_deaths(run), *_violations(groups),
    ]  # fmt: skip
    if len(found) > MOST_EVENTS:
        found = sorted(found, key=lambda one: _distance(one.time, groups))[:MOST_EVENTS]
    return sorted(found, key=lambda one: (one.time, one.kind != "hold"))


def _distance(time: int, groups: Sequence[MessageGroup]) -> int:
    return min((max(0, group.first - time, time - group.last) for group in groups), default=0)


def _faults(run: RunView) -> Iterator[Event]:
    for fault in run.faults:
        named = f"{fault.fault} on {', '.join(fault.hosts)}" if fault.hosts else fault.fault
        params = ", ".join(f"{name} {value}" for name, value in fault.params)
        host = fault.hosts[0] if fault.hosts else ""
        if fault.injected is not None:
            unseen = ", not observed" if fault.seen is False else ""
            yield Event(fault.injected, host, "fault", f"{named} begins{f' ({params})' if params else ''}{unseen}")
        if fault.healed is not None and fault.injected is not None:
            yield Event(fault.healed, host, "heal", f"{named} ends")


def _clocks(run: RunView, offsets: dict[str, list[list[int]]]) -> Iterator[Event]:
    for host, steps in offsets.items():
        before = 0
        for at_us, offset in steps:
            if abs(offset - before) >= LEAST_STEP_US:
                time = run.history.origin + at_us * 1000
                yield Event(time, host, "clock", f"{host}'s clock: {_reading(before)} → {_reading(offset)}")
                before = offset


def _reading(offset_us: int) -> str:
    """Return the reading of a clock compared with true time."""
    if offset_us == 0:
        return "correct"
    return f"{words.span(abs(offset_us) * 1000)} {'ahead' if offset_us > 0 else 'behind'}"


def _keys(stays: Iterable[Stay]) -> Iterator[Event]:
    for stay in stays:
        if stay.owner is None and stay.ended != "not recorded":
            yield Event(stay.start, stay.host, "silent", f"{stay.host} does not answer")
        if stay.owner is None or stay.end is None:
            continue
        named = f"{stay.who}'s {stay.key} on {stay.host}"
        if stay.ended == "expired":
            yield Event(stay.end, stay.host, "gone", f"{named} expires")
        elif stay.ended == "removed":
            yield Event(stay.end, stay.host, "gone", f"{named} is removed by another client")
        elif stay.ended == "early":
            left = "" if stay.until is None else f", {words.span(max(0, stay.until - stay.end))} before its expiry"
            yield Event(stay.end, stay.host, "gone", f"{named} is gone{left or ', not released'}")


def _holds(run: RunView, groups: Iterable[MessageGroup]) -> Iterator[Event]:
    """Yield the events of the holds that violations name."""
    seen: set[int] = set()
    for group in groups:
        for hold in group.holds:
            if hold.acquire_index not in seen:
                seen.add(hold.acquire_index)
                yield from _hold(run, hold)


def _hold(run: RunView, hold: TimelineHold) -> Iterator[Event]:
    granted = hold.acquire_index
    named = f"{hold.client}'s hold of {hold.key}"
    lease = "" if hold.lease_end is None else f" (lease {words.span(hold.lease_end - hold.start)})"
    token = f", token {hold.fence}" if hold.fence else ""
    yield Event(hold.start, hold.client, "hold", f"{named} begins{lease}{token}", granted)
    last = run.history.time[-1]
    if hold.lease_end is not None and hold.lease_end <= last and (hold.end is None or hold.end > hold.lease_end):
        text = f"{hold.client}'s lease on {hold.key} ends, its hold goes on"
        yield Event(hold.lease_end, hold.client, "lease", text, granted)
    if hold.end is not None:
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
