"""Find two holders of a lock while its history is still recorded, in bounded memory.

The monitor sees the calls of each source (a recording, or a client of a run) in order, but those of different sources
in any order. A hold is certain from the return of its acquire to the invocation of its release, or to the moment up to
which its source is complete, and no longer than its lease. Two certain holds of one key that overlap are a violation
for ``owner-mutex``, ``fenced-mutex`` and ``lease-mutex``, unless a release of unknown outcome may have ended one of
them: see :mod:`harness.checkers.linearizability.definite`, which says the same of a whole history. So are tokens that
do not grow.

What the monitor finds is a violation of the whole history. It leaves to the check of the whole history what unknown
outcomes may explain, a release or extend that was answered wrongly, and a hold that ended so long ago that the monitor
has dropped it. It keeps the holds that last, the last :data:`ENDED` that ended of each key, and each client with a call
of unknown outcome.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import nan
from typing import Any, Final

from harness.history import SECOND
from harness.history.calls import NEVER
from harness.wording import in_seconds

from .base import Violation
from .models import ACQUIRE, RELEASE

ENDED: Final = 256
"""The most ended holds that are kept for each key."""
PAIRS: Final = 1000
"""The most pairs of holds that wait for more entries of their sources."""


@dataclass(slots=True)
class Entry:
    """An entry of a client, with ``time`` in ns. ``error`` is the uncertainty of the time (ns)."""

    source: str
    time: int
    error: int
    process: int
    type: str
    f: str
    key: str
    client: str
    value: Any


@dataclass(slots=True, eq=False)
class _Slot:
    """A client on one key: its hold, its calls that have not returned, and its numbers of unknown acquires and of
    unknown releases that did not end a hold."""

    source: str
    key: str
    client: str
    hold: CertainHold | None = None
    tentative: bool = False
    """True if a release of unknown outcome seems to have ended the last hold."""
    pending: dict[int, tuple[str, CertainHold | None]] = field(default_factory=dict)
    acquires: int = 0
    releases: int = 0

    def idle(self) -> bool:
        return not (self.hold or self.tentative or self.pending or self.acquires or self.releases)


@dataclass(slots=True, eq=False)
class CertainHold:
    """A hold that lasts at least from ``start`` to ``end`` (None: to the moment up to which its source is complete),
    but not beyond ``until``, the end of its lease. ``ending`` is True until the outcome of its release is known."""

    slot: _Slot
    start: int
    until: int
    lease: int
    fence: Any
    token: float
    """The token if it is a number, which has an order, else NaN, which is in no order with any."""
    end: int | None = None
    ending: bool = False

    def to_json(self) -> dict[str, Any]:
        end = self.until if self.end is None else self.end
        return {
            "f": "hold", "client": self.slot.client, "key": self.slot.key, "from_ns": self.start,
            "until_ns": None if end == NEVER else end, "fence": self.fence,
        }  # fmt: skip


@dataclass(slots=True, eq=False)
class _Key:
    lasting: dict[_Slot, CertainHold] = field(default_factory=dict)
    ended: deque[CertainHold] = field(default_factory=lambda: deque(maxlen=ENDED))
    highest: CertainHold | None = None


class HoldMonitor:
    """Takes entries, and says when two holds overlap, or a token is not higher than an earlier one.

    ``leased`` says whether ``valid_for`` ends a hold, and ``fenced`` whether tokens must grow.
    """

    def __init__(self, *, leased: bool, fenced: bool) -> None:
        self._leased, self._fenced = leased, fenced
        self._slots: dict[tuple[str, str], _Slot] = {}
        self._keys: dict[str, _Key] = {}
        self._complete: dict[str, int] = {}
        self._pairs: deque[tuple[CertainHold, CertainHold]] = deque(maxlen=PAIRS)
        self.origin_ns: int | None = None

    def take(self, entry: Entry) -> None:
        """Take the next entry of its source."""
        if self.origin_ns is None:
            self.origin_ns = entry.time
        slot = self._slots.get((entry.client, entry.key))
        if slot is None:
            slot = self._slots[entry.client, entry.key] = _Slot(entry.source, entry.key, entry.client)
        if entry.type == "invoke":
            self._invoked(slot, entry)
        else:
            self._returned(slot, entry)
        if slot.idle():
            del self._slots[entry.client, entry.key]

    def lost(self, source: str, since: int) -> None:
        """Note that calls of ``source`` are missing that began at ``since`` or later. They may be releases."""
        for slot in [slot for slot in self._slots.values() if slot.source == source]:
            slot.releases += 1
            if slot.hold is not None:
                self._end(slot.hold, max(since, slot.hold.start))
        for hold in [hold for key in self._keys.values() for hold in key.ended if hold.slot.source == source]:
            hold.end = min(hold.end or 0, max(since, hold.start))

    def complete(self, source: str, time: int) -> Violation | None:
        """Note that every entry of ``source`` from before ``time`` was taken; return a violation that follows."""
        self._complete[source] = max(time, self._complete.get(source, time))
        return self._decide()

    def complete_all(self, time: int) -> Violation | None:
        """Note the same of all sources that were ever noted."""
        if not self._pairs:  # then nothing follows from it
            return None
        for source, until in self._complete.items():
            self._complete[source] = max(time, until)
        return self._decide()

    def _decide(self) -> Violation | None:
        waiting: list[tuple[CertainHold, CertainHold]] = []
        found = None
        for pair in self._pairs:
            if not self._decidable(pair):
                waiting.append(pair)
            elif found is None:
                found = self._violation(pair)
        self._pairs.clear()
        self._pairs.extend(waiting)
        return found

    def _invoked(self, slot: _Slot, entry: Entry) -> None:
        hold = slot.hold if entry.f in RELEASE else None
        slot.pending[entry.process] = (entry.f, hold)
        if hold is not None:
            hold.ending = True
            self._end(hold, entry.time - entry.error)

    def _returned(self, slot: _Slot, entry: Entry) -> None:
        f, ended = slot.pending.pop(entry.process, ("", None))  # an info without a call is about no call
        if f in ACQUIRE:
            self._acquired(slot, entry)
        elif f in RELEASE:
            self._released(slot, entry, ended)
        elif f == "extend" and self._leased and entry.type == "ok" and slot.hold is not None:
            self._extended(slot, slot.hold, entry)

    def _acquired(self, slot: _Slot, entry: Entry) -> None:
        if entry.type == "info":
            slot.acquires += 1
        if entry.type != "ok":
            return
        if slot.tentative:  # that release was needed, unless the lease had ended by itself
            slot.tentative = False
            slot.releases += self._leased
        value = entry.value if isinstance(entry.value, dict) else {}
        lease, seconds = NEVER, value.get("valid_for")
        if self._leased and seconds is not None:
            lease = int(seconds * SECOND)
        until = NEVER if lease == NEVER else entry.time - entry.error + lease
        fence = value.get("fence")
        token = fence if isinstance(fence, int) else nan
        hold = CertainHold(slot, entry.time + entry.error, until, lease, fence, token)
        if slot.hold is not None and slot.hold.until <= hold.start:
            self._end(slot.hold, slot.hold.until)
        self._begin(slot, hold)

    def _begin(self, slot: _Slot, hold: CertainHold) -> None:
        key = self._keys.setdefault(slot.key, _Key())
        for other in (*key.lasting.values(), *self._late(key.ended, hold)):
            if self._may_conflict(other, hold):
                self._pairs.append((other, hold))
        if key.highest is not None and self._disorder(key.highest, hold):
            self._pairs.append((key.highest, hold))
        slot.hold = key.lasting[slot] = hold

    def _late(self, ended: Iterable[CertainHold], hold: CertainHold) -> list[CertainHold]:
        """Return the ended holds that may conflict with ``hold``. Most do not, and there may be hundreds, so this asks
        without a call for each whether they end after the begin, or have a token that is out of order."""
        start, token = hold.start, hold.token
        if not self._fenced:
            return [one for one in ended if one.ending or one.end is None or one.end > start]
        return [
            one
            for one in ended
            if one.ending
            or one.end is None
            or one.end > start
            or (one.token >= token if one.start < start else token >= one.token)
        ]

    def _may_conflict(self, one: CertainHold, two: CertainHold) -> bool:
        at = max(one.start, two.start)
        return all(hold.end is None or hold.ending or hold.end > at for hold in (one, two)) or self._disorder(one, two)

    def _disorder(self, one: CertainHold, two: CertainHold) -> bool:
        """Return whether the hold that began later has no higher token."""
        if not self._fenced:
            return False
        return (one.token >= two.token) if one.start < two.start else (two.token >= one.token)

    def _end(self, hold: CertainHold, time: int) -> None:
        slot = hold.slot
        hold.end = time
        if slot.hold is hold:
            slot.hold = None
        key = self._keys[slot.key]
        if key.lasting.get(slot) is hold:
            del key.lasting[slot]
            key.ended.append(hold)
        counts = self._fenced and isinstance(hold.fence, int) and time > hold.start
        if counts and (key.highest is None or hold.fence > key.highest.fence):
            key.highest = hold
        self._drop_old(slot.key, key)

    def _drop_old(self, name: str, key: _Key) -> None:
        """Drop the ended holds that no entry can overlap any more, and the key if nothing is left of it."""
        oldest = min(self._complete.values(), default=0)
        while key.ended and not key.ended[0].ending and (key.ended[0].end or 0) <= oldest:
            key.ended.popleft()
        if not (key.ended or key.lasting or key.highest):
            del self._keys[name]

    def _released(self, slot: _Slot, entry: Entry, ended: CertainHold | None) -> None:
        if ended is not None:
            ended.ending = False
        if entry.type == "info":
            slot.tentative = ended is not None
            slot.releases += ended is None
        elif entry.type == "fail" and ended is not None:
            self._go_on(slot, ended)
        elif slot.tentative and ended is None:  # this release ended the hold, so that of unknown outcome did not
            slot.tentative = False
            slot.releases += 1

    def _go_on(self, slot: _Slot, hold: CertainHold) -> None:
        """Note that a release did not end the hold."""
        if slot.hold is None:
            key = self._keys.setdefault(slot.key, _Key())
            hold.end = None
            slot.hold = key.lasting[slot] = hold
            if hold in key.ended:
                key.ended.remove(hold)

    def _extended(self, slot: _Slot, hold: CertainHold, entry: Entry) -> None:
        value = entry.value if isinstance(entry.value, dict) else {}
        if value.get("extended") is False:
            slot.hold = None
        elif value.get("extended") and hold.lease != NEVER and not self._acquiring(slot):
            seconds = value.get("valid_for")
            lease = hold.lease if seconds is None else int(seconds * SECOND)
            hold.until = max(hold.until, entry.time - entry.error + lease)

    @staticmethod
    def _acquiring(slot: _Slot) -> bool:
        """Return whether the client may have acquired the lock again unnoticed."""
        return bool(slot.acquires) or any(f in ACQUIRE for f, _ in slot.pending.values())

    def _decidable(self, pair: tuple[CertainHold, CertainHold]) -> bool:
        """Return whether all entries are there that matter for the moment at which the later hold began."""
        at = max(pair[0].start, pair[1].start)
        return all(
            not hold.ending and (hold.end is not None or self._complete.get(hold.slot.source, 0) > at) for hold in pair
        )

    def _violation(self, pair: tuple[CertainHold, CertainHold]) -> Violation | None:
        one, two = sorted(pair, key=lambda hold: hold.start)
        if any(hold.slot.releases or self._releasing(hold) for hold in pair):
            return None
        last = [hold.until if hold.end is None else min(hold.end, hold.until) for hold in (one, two)]
        if min(last) > two.start:
            return self._report("overlap", one, two, _harm(one.slot, two.slot))
        certain = all(end > hold.start for end, hold in zip(last, (one, two), strict=True))
        if certain and self._disorder(one, two):
            return self._report(
                "token", one, two, f"The token of {one.slot.key} did not grow: {one.fence}, then {two.fence}"
            )
        return None

    @staticmethod
    def _releasing(hold: CertainHold) -> bool:
        """Return whether a release of the client may have ended the hold, although it was made for another one."""
        return any(f in RELEASE and ended is not hold for f, ended in hold.slot.pending.values())

    def _report(self, kind: str, one: CertainHold, two: CertainHold, harm: str) -> Violation:
        origin = self.origin_ns or 0
        since = " and ".join(
            f"{hold.slot.client} from {in_seconds(hold.start - origin)}{_until(hold, origin)}" for hold in (one, two)
        )
        involved = (one.to_json(), two.to_json())
        return Violation(kind, one.slot.key, f"{harm}: {since}", two.start, two.start, involved, harm=harm)


def _harm(one: _Slot, two: _Slot) -> str:
    if one.client == two.client:
        return f"{one.client} acquired {one.key} although it held it"
    return f"Two clients held {one.key} at the same time"


def _until(hold: CertainHold, origin: int) -> str:
    end = hold.until if hold.end is None else min(hold.end, hold.until)
    return "" if end == NEVER else f" to {in_seconds(end - origin)}"
