"""The owner of each lock key on each server over time: the bars in the servers' lanes of the timeline.

A :class:`Stay` is a time in which one server had a key for one owner. A server knows its owner by a value (a token, a
session, a row). This module finds the client that wrote the value, and why the stay ended. It uses the senders of
messages (which the states contain on the simulator) and the calls of clients at that moment (the history).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from harness.history import Call
from harness.history.lock_keys import KeyState

from .holds import TimelineHold

Ended = Literal["open", "released", "expired", "early", "removed", "no answer", "not recorded"]
ENDS: Final[tuple[Ended, ...]] = ("open", "released", "expired", "early", "removed", "no answer", "not recorded")
SLACK: Final = 100_000_000
"""The longest delay (ns) of an observation of a real server, which is polled."""
LATEST: Final = 1_000_000_000
"""The longest time (ns) from a grant to an observed change of some server's state."""
NEAR: Final = 16
"""The number of grants before a moment among which its owner is searched: more clients than that rarely hold one
key."""
EVER: Final = 2**62


@dataclass(slots=True)
class Stay:
    """From ``start`` to ``end`` (ns, None: the end of the known time), the server ``host`` had ``key`` for ``owner``.

    ``client`` wrote the owner's value, empty if unknown. ``until`` is the time at which the key would expire, by the
    server's last statement. Without an owner, the stay is a time in which the server did not answer, or was not
    recorded.
    """

    host: str
    key: str
    owner: str | None
    client: str
    start: int
    until: int | None = None
    end: int | None = None
    ended: Ended = "open"
    renewed: int = 0
    """Number of times that its own client moved its expiry."""
    moved: int = 0
    """How often its expiry moved otherwise: with the server's clock or, where senders are unknown, by a renewal."""
    since: int = 0
    """When its client wrote the value: before ``start`` on servers that only replicate, or that restarted with the
    value."""

    @property
    def who(self) -> str:
        """Return the client or, if it is unknown, the value, shortened."""
        return self.client or shortened(self.owner or "")


def shortened(value: str) -> str:
    return value if len(value) <= 10 else value[:8] + "…"


@dataclass(slots=True)
class _AcquireAttempt:
    """A client's call that may have written its value to servers, and how long the value may have existed there."""

    client: str
    asked: int
    done: int
    until: int
    granted: bool
    claimed: str = ""
    """The value that this call is known to have written."""


@dataclass(slots=True)
class _ClientActions:
    """The calls of the clients on one key, in the order of time."""

    wants: list[_AcquireAttempt] = field(default_factory=list)
    releases: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    releasing: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def sort(self) -> None:
        self.wants.sort(key=lambda want: want.done)
        for times in self.releasing.values():
            times.sort()
        self.releases = {client: [begun for begun, _ in times] for client, times in self.releasing.items()}

    def owner(self, value: str, moment: int, gone: int) -> str:
        """Return the client whose call wrote ``value`` to a server that had it from ``moment`` to ``gone``.

        This is the nearest grant in that time that is not known to have written another value; otherwise the only
        client that was trying to acquire the lock.
        """
        at = bisect_left(self.wants, moment, key=lambda want: want.done)
        around = self.wants[max(0, at - NEAR) : at + NEAR]
        fits = (want for want in around if want.granted and want.asked <= moment < want.until and want.done <= gone)
        free = (want for want in fits if want.claimed in ("", value))
        best = min(free, key=lambda want: abs(want.done - moment), default=None)
        if best is not None:
            best.claimed = value
            return best.client
        trying = self.trying(moment, gone)
        return trying.pop() if len(trying) == 1 else ""

    def trying(self, begun: int, gone: int) -> set[str]:
        """Return the clients that requested the lock all that time: each may have written its value and deleted it
        again."""
        at = bisect_left(self.wants, gone - SLACK, key=lambda want: want.done)
        wants = (want for want in self.wants[at : at + 2 * NEAR] if not want.granted or want.done >= gone)
        return {want.client for want in wants if want.asked <= begun}

    def gives_back(self, client: str, begun: int, moment: int) -> bool:
        """Return whether the client requested, in that time, that its key be deleted; without a client: whether any
        client may have."""
        if not client:
            releasing = any(self.is_releasing(one, moment, SLACK) for one in self.releasing)
            return releasing or bool(self.trying(begun, moment))
        asked = self.releases.get(client, [])
        if bisect_left(asked, begun) < bisect_right(asked, moment):
            return True
        return any(want.client == client for want in self._failing(moment))

    def is_releasing(self, client: str, moment: int, slack: int = 0) -> bool:
        """Return whether a release of the client was in progress, or had been in the ``slack`` ns before."""
        at = bisect_right(self.releases.get(client, []), moment)
        return at > 0 and moment <= self.releasing[client][at - 1][1] + slack

    def is_acquiring(self, client: str, moment: int) -> bool:
        """Return whether an acquire of the client was in progress, or had just been."""
        at = bisect_left(self.wants, moment - SLACK, key=lambda want: want.done)
        return any(want.client == client and want.asked <= moment for want in self.wants[at : at + NEAR])

    def _failing(self, moment: int) -> Iterable[_AcquireAttempt]:
        """Yield acquires that fail: such a call deletes what it has written so far, just before it returns."""
        at = bisect_left(self.wants, moment - SLACK, key=lambda want: want.done)
        return (want for want in self.wants[at : at + NEAR] if not want.granted and want.asked <= moment)


def _client_actions(calls: Iterable[Call], holds: Iterable[TimelineHold]) -> dict[str, _ClientActions]:
    ends = {hold.acquire_index: EVER if hold.end is None else hold.end for hold in holds}
    found: defaultdict[str, _ClientActions] = defaultdict(_ClientActions)
    for call in calls:
        begun, done, deeds = call.invoke, call.done, found[call.invoke.key or ""]
        client, back = begun.node or f"process {begun.process}", begun.time if done is None else done.time
        end = EVER if call.outcome == "info" else back
        if begun.f == "acquire":
            granted = done is not None and call.outcome == "ok"
            until = ends.get(done.index, end) if done is not None and granted else end
            deeds.wants.append(_AcquireAttempt(client, begun.time, back, until, granted))
        elif begun.f == "release":
            deeds.releasing[client].append((begun.time, end))
    for deeds in found.values():
        deeds.sort()
    return found


@dataclass(slots=True)
class _LastWrite:
    """The client that last wrote a value, when it did, and when the value was last expected to expire."""

    client: str
    since: int
    until: int | None = None


@dataclass(slots=True)
class _StayFinder:
    """Walks through the states once, and keeps the open stay of each (server, key)."""

    deeds: dict[str, _ClientActions]
    told: bool
    """True if the states contain the senders of messages."""
    stays: list[Stay] = field(default_factory=list)
    open: dict[tuple[str, str], Stay] = field(default_factory=dict)
    brought: dict[tuple[str, str], _LastWrite] = field(default_factory=dict)
    """The last write, by (key, value)."""
    lost: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """Last time at which the server had the value, by (server, key, value)."""

    def step(self, state: KeyState, gone: int) -> None:
        """Process a state; ``gone`` is when the server will no longer have this owner."""
        slot = state.host, state.key
        before = self.open.get(slot)
        if before is not None and before.owner == state.owner and (state.owner is not None or not state.answers):
            self._renew(before, state)
            return
        if before is not None:
            self._end(before, state)
            del self.open[slot]
        if state.owner is not None or not state.answers:
            self.open[slot] = self._begin(state, before, gone)
            self.stays.append(self.open[slot])

    def _renew(self, stay: Stay, state: KeyState) -> None:
        if state.owner is not None:
            until = self._until(state, state.owner)
            own = state.by is not None and state.by == stay.client
            stay.renewed += own and until != stay.until
            stay.moved += not own and until != stay.until
            stay.until = until

    def _until(self, state: KeyState, value: str) -> int | None:
        if state.left is None:
            return None
        self.brought[state.key, value].until = state.time + state.left
        return state.time + state.left

    def _begin(self, state: KeyState, before: Stay | None, gone: int) -> Stay:
        if state.owner is None:
            lost = before or Stay(state.host, state.key, None, "", state.time)
            return Stay(state.host, state.key, None, lost.client, state.time, lost.until)
        came = self._whose(state, state.owner, gone, back=before is not None and before.owner is None)
        until = self._until(state, state.owner)
        return Stay(state.host, state.key, state.owner, came.client, state.time, until, since=came.since)

    def _whose(self, state: KeyState, value: str, gone: int, back: bool) -> _LastWrite:
        """Return the last write of the value.

        The writer is the sender; otherwise the client that wrote this value elsewhere before; otherwise the client that
        was acquiring the lock at that moment. A client that sends a release may make the next client in a queue the
        owner, and is then not the owner itself. A server that is ``back`` after a failure still has its old value, so
        no client wrote it again. If senders are unknown, a value that a server has had and lost counts as written
        again: some locks write the same value for all clients.
        """
        deeds, slot = self.deeds.get(state.key) or _ClientActions(), (state.key, value)
        known, client = self.brought.get(slot), state.by
        if known is not None and not (self.told or back) and known.since <= self.lost.get((state.host, *slot), -1):
            known = None
        if known is not None and (back or (client is None and not deeds.is_acquiring(known.client, state.time))):
            return known
        if client is None or deeds.is_releasing(client, state.time):
            client = known.client if known is not None else deeds.owner(value, state.time, gone)
        until = None if known is None or (known.until or 0) < state.time else known.until
        self.brought[slot] = _LastWrite(client, state.time, until)
        return self.brought[slot]

    def _end(self, stay: Stay, state: KeyState) -> None:
        stay.end = state.time
        if stay.owner is not None:
            self.lost[stay.host, stay.key, stay.owner] = state.time
            stay.ended = self._why(stay, state)
        elif stay.until is not None and stay.until > state.time and state.owner is None:
            stay.ended = "early"  # the server restarted without its data

    def _why(self, stay: Stay, state: KeyState) -> Ended:
        if not state.answers:
            return "no answer"
        until = stay.until or self.brought[stay.key, stay.owner or ""].until  # a replica uses its leader's expiry
        over = until is not None and state.time >= until - SLACK // 2
        if over and state.by is None:
            return "expired"  # perhaps because its release never arrived here
        if self._returned(stay, state):
            return "released"
        if over:
            return "expired"
        return "early" if state.by is None or state.owner is not None else "removed"  # or its successor

    def _returned(self, stay: Stay, state: KeyState) -> bool:
        deeds = self.deeds.get(stay.key) or _ClientActions()
        if (state.by is not None and state.by == stay.client) or deeds.gives_back(stay.client, stay.since, state.time):
            return True
        return not self.told and stay.client in deeds.trying(stay.start, state.time)


def find_stays(states: Sequence[KeyState], calls: Iterable[Call], holds: Iterable[TimelineHold]) -> list[Stay]:
    """Return all stays, in the order in which they began; times are in ns as in the history."""
    if not states:
        return []
    ordered = sorted(states, key=lambda state: state.time)
    finder = _StayFinder(_client_actions(calls, holds), told=any(state.by is not None for state in states))
    for state, gone in zip(ordered, _gone(ordered), strict=True):
        finder.step(state, gone)
    return finder.stays


def known_until(states: Sequence[KeyState], holds: Sequence[TimelineHold], last: int, whole: bool) -> int:
    """Return until when (ns) the servers' states are known, for a history that ends at ``last``.

    Only changes are recorded. If the run was not recorded as a ``whole``, or if its later grants changed nothing on any
    server, the states are known until the last change. (A reentrant lock grants a key again to its owner without a
    change.)
    """
    told = max((state.time for state in states), default=last)
    lasting = {(state.host, state.key): state for state in sorted(states, key=lambda state: state.time)}.values()
    theirs = {(state.key, state.by) for state in lasting if state.owner is not None}
    missed = any(hold.start > told + LATEST and (hold.key, hold.client) not in theirs for hold in holds)
    return min(told, last) if missed or not whole else last


def end_record(stays: list[Stay], known: int, lanes: Iterable[tuple[str, str]]) -> list[Stay]:
    """End the open stays at ``known``, and add a stay "not recorded" after it for each (host, key) of ``lanes``."""
    for stay in stays:
        if stay.end is None:
            stay.end = max(known, stay.start)
            stay.ended = "open" if stay.owner is None else "not recorded"
    return stays + [Stay(host, key, None, "", known, ended="not recorded") for host, key in lanes]


def _gone(ordered: Sequence[KeyState]) -> list[int]:
    """Return, for each state, when its server had another owner, or none, or did not answer."""
    found: list[int] = []
    after: dict[tuple[str, str], tuple[KeyState, int]] = {}
    for state in reversed(ordered):
        later, gone = after.get((state.host, state.key), (None, EVER))
        if later is not None and later.owner != state.owner:
            gone = later.time
        found.append(gone)
        after[state.host, state.key] = state, gone
    return found[::-1]
