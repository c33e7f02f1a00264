"""The messages that decide each violation: those that changed a key's owner, were lost, or answered a named call."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness.documents.messages import TracedMessage
from harness.history.lock_keys import KeyState

from .holds import TimelineHold
from .model import EvidenceView, RunView
from .timeline import RunFacts

MOST_GROUPS: Final = 500
"""Violations through which a page steps. Checkers of the harness list at most 20 each, others any number."""
MOST_DECISIVE: Final = 400
"""Decisive messages of one violation."""
MARGIN_NS: Final = 20_000_000
QUICK_NS: Final = 5_000_000
"""A request that a server answers within this time has made the changes of that time."""
LATE_NS: Final = 100_000_000
"""A request or reply that takes longer counts as late."""


@dataclass(frozen=True, slots=True)
class MessageGroup:
    """A violation with the time (ns) that its messages fill, or the whole run if there is no violation."""

    number: int | None
    start: int | None
    end: int | None
    first: int
    last: int
    clients: tuple[str, ...]
    """The clients that the violation names, and those that removed a key of another client meanwhile."""
    holds: tuple[TimelineHold, ...]
    decisive: tuple[int, ...]
    """Positions of messages."""
    evidence: EvidenceView | None = None


def find_groups(run: RunView, facts: RunFacts, messages: Sequence[TracedMessage]) -> list[MessageGroup]:
    """Return a group for each violation, at most :data:`MOST_GROUPS`, or one for a run without violations."""
    if not run.evidence:
        return [_whole(run, messages)]
    finder = _GroupFinder(run, facts, messages)
    return [finder.group(found) for found in run.evidence[:MOST_GROUPS]]


def _whole(run: RunView, messages: Sequence[TracedMessage]) -> MessageGroup:
    first, last = run.history.origin, max(_span(one)[1] for one in messages)
    return MessageGroup(None, None, None, first, last, run.clients, (), ())


class _GroupFinder:
    def __init__(self, run: RunView, facts: RunFacts, messages: Sequence[TracedMessage]) -> None:
        self._run = run
        self._messages = messages
        self._spans = [_span(one) for one in messages]
        self._begun = [first for first, _ in self._spans]
        self._changes = _changes(run.keys)
        self._invoked = {call.done.index: call.invoke.index for call in facts.calls if call.done is not None}
        self._held: dict[str, list[TimelineHold]] = {}
        for hold in facts.holds:  # in the order in which they began
            self._held.setdefault(hold.client, []).append(hold)
        self._longest = max((last - first for first, last in self._spans), default=0)
        removed = [(stay.end, stay.host) for stay in facts.stays if stay.ended == "removed" and stay.end is not None]
        self._removed = sorted(removed)

    def group(self, found: EvidenceView) -> MessageGroup:
        history = self._run.history
        start = found.start if found.start is not None else history.origin
        indices = [index for index in found.indices if 0 <= index < len(history)]
        times = [start, found.end or start, *(history.time[index] for index in indices)]
        clients = list(dict.fromkeys(one.client for one in found.involved))
        holds = self._holds(found)
        first, last = min(times) - MARGIN_NS, max(times) + MARGIN_NS
        granted = min((hold.start for hold in holds), default=first)
        for client, time in self._removers(min(granted, start), last, found.key, clients):
            hold = self._hold_before(client, time)
            if hold is not None and hold not in holds:
                holds.append(hold)
                first = min(first, history.time[hold.acquire_index] - MARGIN_NS)
            clients.append(client)
        named = (*indices, *(one.acquire_index for one in holds))
        calls = {self._invoked.get(index, index) for index in named}
        decisive = self._decisive((first, last), (granted, found.end or start), found.key, set(clients), calls)
        if decisive:
            first = min(first, self._begun[decisive[0]])
        return MessageGroup(
            found.number, found.start, found.end, first, last, tuple(clients), tuple(holds), tuple(decisive), found,
        )  # fmt: skip

    def _holds(self, found: EvidenceView) -> list[TimelineHold]:
        """Return the holds that a violation names, and those during which its calls were made."""
        named = []
        for one in found.involved:
            hold = None if one.start is None else self._hold_before(one.client, one.start, found.key)
            if hold is None or hold in named:
                continue
            if hold.end is None or hold.end >= (one.start or 0):
                named.append(hold)
        return named

    def _hold_before(self, client: str, time: int, key: str = "") -> TimelineHold | None:
        held = self._held.get(client, [])
        earlier = reversed(held[: bisect_right(held, time, key=lambda one: one.start)])
        return next((one for one in earlier if key in ("", one.key)), None)

    def _removers(self, first: int, last: int, key: str, clients: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yield each other client that ended a client's ownership of the key, with the time."""
        seen = set(clients)
        begin, until = (bisect_left(self._removed, (time, "")) for time in (first, last + 1))
        for end, host in self._removed[begin:until]:
            for position in self._within(end - MARGIN_NS, end):
                message = self._messages[position]
                if message.server == host and message.client not in seen and self.change(message, key) is not None:
                    seen.add(message.client)
                    yield message.client, self._begun[position]

    def _within(self, first: int, last: int) -> Iterator[int]:
        """Yield the positions of messages that were under way between two times."""
        begin = bisect_left(self._begun, first - self._longest)
        for position in range(begin, bisect_right(self._begun, last)):
            if self._spans[position][1] >= first:
                yield position

    def change(self, message: TracedMessage, key: str) -> int | None:
        """Return the time (ns) at which a message has changed the owner of a key; None if it has not. An empty key
        stands for any."""
        arrived, executed = message.arrived, message.executed
        moments = self._changes.get((message.server, key))
        if moments is None or (arrived is None and executed is None):
            return None
        since = executed if arrived is None else arrived
        done = arrived if executed is None else executed
        assert since is not None
        assert done is not None
        exact = {since, done}
        for at in range(bisect_left(moments, since), bisect_right(moments, done)):
            if moments[at] in exact or done - since <= QUICK_NS:
                return moments[at]
        return None

    def _decisive(
        self, window: tuple[int, int], violation: tuple[int, int], key: str, clients: set[str], calls: set[int]
    ) -> list[int]:
        """Return the positions of the decisive messages in a window.

        ``violation`` is the time from the first grant to the end of the violation, in which all changes of the key's
        owners count; at other times only those by ``calls`` do, which are the entries that invoked the named calls.
        """
        found: set[int] = set()
        latest: dict[int, int] = {}
        for position in self._within(*window):
            message = self._messages[position]
            named = message.call is not None and message.call in calls
            if named:
                latest[message.call or 0] = position
            if not (named or violation[0] <= self._begun[position] <= violation[1]):
                continue
            known = message.client in clients
            change = self.change(message, key) if known or message.request else None
            if (known and _lost(message)) or (change is not None and (known or change <= violation[1])):
                found.add(position)
        return sorted({*found, *latest.values()})[:MOST_DECISIVE]


def _changes(states: Iterable[KeyState]) -> dict[tuple[str, str], list[int]]:
    """Return the times (ns) at which each server had another owner of a key than before, in order; those of any key
    belong to the empty one."""
    owners: dict[tuple[str, str], str | None] = {}
    found: dict[tuple[str, str], list[int]] = {}
    for state in sorted(states, key=lambda state: state.time):
        slot = state.host, state.key
        if state.answers and owners.get(slot) != state.owner:
            found.setdefault(slot, []).append(state.time)
            found.setdefault((state.host, ""), []).append(state.time)
            owners[slot] = state.owner
    return found


def _span(message: TracedMessage) -> tuple[int, int]:
    """Return the earliest and the latest known time of a message, ns."""
    times = known_times(message) or [0]
    return min(times), max(times)


def known_times(message: TracedMessage) -> list[int]:
    """Return the known times of a message, ns, in the order of its steps."""
    times = (message.sent, message.arrived, message.executed, message.replied)
    return [time for time in times if time is not None]


def _lost(message: TracedMessage) -> bool:
    """Return whether the request, or its reply, did not arrive, or arrived late."""
    sent, arrived, executed, replied = message.sent, message.arrived, message.executed, message.replied
    if sent is None:
        return False
    if arrived is None or arrived - sent > LATE_NS:
        return True
    return executed is not None and (replied is None or replied - executed > LATE_NS)
