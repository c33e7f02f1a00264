"""What each server had under the locks' keys, and for whom: the bars in the servers' lanes of the timeline.

A :class:`Stay` is the time for which one server had a key for one owner. A server knows its owner by a value (a token,
a session, a row); whose value that is, and why the stay ended, are made out from who sent what (where the states say
it: on the simulator) and from what the clients did at that moment (the history).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from harness.history import Call
from harness.history.lock_keys import KeyState
from reports.holds import Hold

Ended = Literal["open", "given back", "ran out", "early", "removed", "no answer", "not recorded"]
ENDS: Final[tuple[Ended, ...]] = ("open", "given back", "ran out", "early", "removed", "no answer", "not recorded")
SLACK: Final = 100_000_000
"""ns by which a look at a real server may be late: it is looked at again and again, not all the time."""
LATEST: Final = 1_000_000_000
"""ns after a grant by which some server's state must have been seen to change."""
NEAR: Final = 16
"""The grants before a moment among which its owner is looked for: more clients than that rarely hold one key."""
EVER: Final = 2**62


@dataclass(slots=True)
class Stay:
    """From ``start`` to ``end`` (ns, None: to the end of what is known) ``host`` had ``key`` for ``owner``.

    ``client`` is whose value that is, empty if nobody can tell. ``until`` is when the server last said that it would
    end by itself. Without an owner it is a time in which the server gave no answer, or of which nothing was recorded.
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
    """How often its own client moved its end."""
    moved: int = 0
    """How often its end moved otherwise: with the server's clock or, where nobody says who sent what, by a renewal."""
    since: int = 0
    """When its client had its value brought: before ``start`` on servers that only follow, or come back with it."""

    @property
    def who(self) -> str:
        """The client or, unknown, its value made short."""
        return self.client or shortened(self.owner or "")


def shortened(value: str) -> str:
    return value if len(value) <= 10 else value[:8] + "…"


@dataclass(slots=True)
class _Wanting:
    """One client's call that may have put its value on servers, and how long the value may have been there."""

    client: str
    asked: int
    done: int
    until: int
    granted: bool
    claimed: str = ""
    """The value that is known to be this call's."""


@dataclass(slots=True)
class _Deeds:
    """What the clients did with one key, in the order of time."""

    wants: list[_Wanting] = field(default_factory=list)
    releases: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    releasing: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def sort(self) -> None:
        self.wants.sort(key=lambda want: want.done)
        for times in self.releasing.values():
            times.sort()
        self.releases = {client: [begun for begun, _ in times] for client, times in self.releasing.items()}

    def owner(self, value: str, moment: int, gone: int) -> str:
        """Whose call brought ``value`` to a server, which had it from ``moment`` to ``gone``.

        The nearest grant in that time that is not known to have brought another; else the only client that was trying.
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
        """The clients that wanted the lock all that time: each may have written its value and taken it back."""
        at = bisect_left(self.wants, gone - SLACK, key=lambda want: want.done)
        wants = (want for want in self.wants[at : at + 2 * NEAR] if not want.granted or want.done >= gone)
        return {want.client for want in wants if want.asked <= begun}

    def gives_back(self, client: str, begun: int, moment: int) -> bool:
        """Whether the client had asked, in that time, for its key to be taken away; of no client: may any have?"""
        if not client:
            releasing = any(self.is_releasing(one, moment, SLACK) for one in self.releasing)
            return releasing or bool(self.trying(begun, moment))
        asked = self.releases.get(client, [])
        if bisect_left(asked, begun) < bisect_right(asked, moment):
            return True
        return any(want.client == client for want in self._failing(moment))

    def is_releasing(self, client: str, moment: int, slack: int = 0) -> bool:
        """Whether a release of the client was under way, or had been in the ``slack`` ns before."""
        at = bisect_right(self.releases.get(client, []), moment)
        return at > 0 and moment <= self.releasing[client][at - 1][1] + slack

    def is_acquiring(self, client: str, moment: int) -> bool:
        """Whether an acquire of the client was under way, or had just been."""
        at = bisect_left(self.wants, moment - SLACK, key=lambda want: want.done)
        return any(want.client == client and want.asked <= moment for want in self.wants[at : at + NEAR])

    def _failing(self, moment: int) -> Iterable[_Wanting]:
        """An acquire that does not succeed takes back what it has written so far, just before it returns."""
        at = bisect_left(self.wants, moment - SLACK, key=lambda want: want.done)
        return (want for want in self.wants[at : at + NEAR] if not want.granted and want.asked <= moment)


def _deeds(calls: Iterable[Call], holds: Iterable[Hold]) -> dict[str, _Deeds]:
    ends = {hold.acquire_index: EVER if hold.end is None else hold.end for hold in holds}
    found: defaultdict[str, _Deeds] = defaultdict(_Deeds)
    for call in calls:
        begun, done, deeds = call.invoke, call.done, found[call.invoke.key or ""]
        client, back = begun.node or f"process {begun.process}", begun.time if done is None else done.time
        end = EVER if call.outcome == "info" else back
        if begun.f == "acquire":
            granted = done is not None and call.outcome == "ok"
            until = ends.get(done.index, end) if done is not None and granted else end
            deeds.wants.append(_Wanting(client, begun.time, back, until, granted))
        elif begun.f == "release":
            deeds.releasing[client].append((begun.time, end))
    for deeds in found.values():
        deeds.sort()
    return found


@dataclass(slots=True)
class _Brought:
    """Who last brought a value, when, and when it was last said to end by itself."""

    client: str
    since: int
    until: int | None = None


@dataclass(slots=True)
class _Finder:
    """Walks over the states once, keeping the stay that is open by (server, key)."""

    deeds: dict[str, _Deeds]
    told: bool
    """Do the states say who sent what?"""
    stays: list[Stay] = field(default_factory=list)
    open: dict[tuple[str, str], Stay] = field(default_factory=dict)
    brought: dict[tuple[str, str], _Brought] = field(default_factory=dict)
    """By (key, value)."""
    lost: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By (server, key, value) when the server had the value last."""

    def step(self, state: KeyState, gone: int) -> None:
        """``gone`` is when the server will have no such owner any more."""
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

    def _whose(self, state: KeyState, value: str, gone: int, back: bool) -> _Brought:
        """Who sent it; who brought this value elsewhere before; else who was getting the lock at that moment.

        Who sends a release may thereby make the next one in a queue the owner: it is not the owner itself. A server
        that was away and is ``back`` has what it had, and nobody brought it anew. Where nobody says who sent what, a
        value that a server has had and lost was brought anew: some locks write the same for all.
        """
        deeds, slot = self.deeds.get(state.key) or _Deeds(), (state.key, value)
        known, client = self.brought.get(slot), state.by
        if known is not None and not (self.told or back) and known.since <= self.lost.get((state.host, *slot), -1):
            known = None
        if known is not None and (back or (client is None and not deeds.is_acquiring(known.client, state.time))):
            return known
        if client is None or deeds.is_releasing(client, state.time):
            client = known.client if known is not None else deeds.owner(value, state.time, gone)
        until = None if known is None or (known.until or 0) < state.time else known.until
        self.brought[slot] = _Brought(client, state.time, until)
        return self.brought[slot]

    def _end(self, stay: Stay, state: KeyState) -> None:
        stay.end = state.time
        if stay.owner is not None:
            self.lost[stay.host, stay.key, stay.owner] = state.time
            stay.ended = self._why(stay, state)
        elif stay.until is not None and stay.until > state.time and state.owner is None:
            stay.ended = "early"  # it came back without what it had

    def _why(self, stay: Stay, state: KeyState) -> Ended:
        if not state.answers:
            return "no answer"
        until = stay.until or self.brought[stay.key, stay.owner or ""].until  # a follower goes by what its leader says
        over = until is not None and state.time >= until - SLACK // 2
        if over and state.by is None:
            return "ran out"  # perhaps because its release never came here
        if self._returned(stay, state):
            return "given back"
        if over:
            return "ran out"
        return "early" if state.by is None or state.owner is not None else "removed"  # who comes after need not be why

    def _returned(self, stay: Stay, state: KeyState) -> bool:
        deeds = self.deeds.get(stay.key) or _Deeds()
        if (state.by is not None and state.by == stay.client) or deeds.gives_back(stay.client, stay.since, state.time):
            return True
        return not self.told and stay.client in deeds.trying(stay.start, state.time)


def find_stays(states: Sequence[KeyState], calls: Iterable[Call], holds: Iterable[Hold]) -> list[Stay]:
    """All stays, in the order in which they began; times in ns as in the history."""
    if not states:
        return []
    ordered = sorted(states, key=lambda state: state.time)
    finder = _Finder(_deeds(calls, holds), told=any(state.by is not None for state in states))
    for state, gone in zip(ordered, _gone(ordered), strict=True):
        finder.step(state, gone)
    return finder.stays


def known_until(states: Sequence[KeyState], holds: Sequence[Hold], last: int, whole: bool) -> int:
    """To when (ns) it is known what servers had, of a history that ends at ``last``. Only changes are recorded: of a
    run that was not recorded as a ``whole``, or whose later grants changed nothing anywhere, it is the last one. (To
    whom a key still belonged, a reentrant lock grants it again without a change.)"""
    told = max((state.time for state in states), default=last)
    lasting = {(state.host, state.key): state for state in sorted(states, key=lambda state: state.time)}.values()
    theirs = {(state.key, state.by) for state in lasting if state.owner is not None}
    missed = any(hold.start > told + LATEST and (hold.key, hold.client) not in theirs for hold in holds)
    return min(told, last) if missed or not whole else last


def end_record(stays: list[Stay], known: int, lanes: Iterable[tuple[str, str]]) -> list[Stay]:
    """The same, where nothing was recorded after ``known``: nobody knows what servers had then in their (host, key)."""
    for stay in stays:
        if stay.end is None:
            stay.end = max(known, stay.start)
            stay.ended = "open" if stay.owner is None else "not recorded"
    return stays + [Stay(host, key, None, "", known, ended="not recorded") for host, key in lanes]


def _gone(ordered: Sequence[KeyState]) -> list[int]:
    """For each state, when its server had another owner, or none, or gave no answer."""
    found: list[int] = []
    after: dict[tuple[str, str], tuple[KeyState, int]] = {}
    for state in reversed(ordered):
        later, gone = after.get((state.host, state.key), (None, EVER))
        if later is not None and later.owner != state.owner:
            gone = later.time
        found.append(gone)
        after[state.host, state.key] = state, gone
    return found[::-1]
