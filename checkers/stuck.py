"""Find times in which a lock should have been granted and was not, for the checkers deadlock and liveness.

A key is *idle* while no client definitely holds it. Within an idle stretch that no excusing fault disturbs, the key is
*due* at the latest of these moments:

- ``slack`` after the last hold was cleanly released (its release returned ok), or its release was refused: a refusal
  means that, by the lock itself, the holder had lost it, so no client holds it;
- ``ttl`` + ``slack`` after a hold that ended in any other way (crash, lost, expired, release unknown). Where no lease
  is stated, a client that has stopped relying on its lock keeps it until it releases it: the library may renew it;
- ``ttl`` + ``slack`` after the last heal of a disturbing fault, or ``answer_timeout`` + ``slack`` if that is longer:
  for so long the lock's client waits for an answer that was lost, before it asks again. While the after-effects of a
  fault last, also ``ttl`` + ``slack`` after a hold ended in any way: TCP's doubling time-outs may deliver a request
  from a cut network as long after the heal as the fault lasted, and the request may take a lease that no client knows
  of (row late-acquire);
- ``ttl`` + ``slack`` after the last call on the key with an unknown outcome returned (or should have), and after the
  crash of a client that was requesting it. Such a request may be queued, so the time also counts from the moment at
  which the key became idle (but doubts older than ttl + slack by then do not count);
- the return of an acquire whose client was stopped meanwhile, ``slack`` after the client goes on, or ``ttl`` +
  ``slack`` after the stop, whichever comes first: the key may be that client's, which does not know it.

The key is *stuck* if clients kept requesting it until after that moment, and for at least that long. A client that is
stopped or dead makes no request, and pauses between requests of up to ``slack`` do not count as giving up. A call that
hangs beyond its own timeout is a request for as long as it hangs, unless a fault excuses it (:mod:`.excuses`).

If the lock claims to survive the loss of a minority of the servers, such a loss disturbs it only until clients and
servers have had time to notice (:func:`.faults.without_tolerated`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from harness.history import SECOND, History

from .clocks import clocks
from .excuses import Excuses, ends
from .faults import DEADLY, FOR_EVER, SILENT, STILL, RunFault, faults, without_tolerated
from .holds import DIED, ENDINGS, EXPIRED, FOREVER, RELEASED, Holds, holds
from .sweep import covered_until, grouped_order
from .view import ACQUIRE, FAIL, INFO, INVOKE, NONE, OK, RELEASE, Bools, Ints, View

ENDED: Final = frozenset({"clean", "refused"})
"""Endings of a hold that the service knows of."""
UNCLEAN: Final = frozenset({"crashed", "exited", "unknown", "refused", "lost", "expired"})


@dataclass(frozen=True, slots=True)
class StuckKey:
    """A stuck key: no client was granted ``key``, though it was due at ``due_ns`` and requested until ``until_ns``.

    ``cause`` says how the last hold (row ``hold``, -1: none) ended: clean, crashed, unknown, refused, lost, expired,
    heal or start. ``hanging``: after ``due_ns`` clients made no new request, but waited in calls beyond their timeouts.
    """

    key: int
    idle_ns: int
    due_ns: int
    until_ns: int
    cause: str
    hold: int
    invokes: tuple[int, ...]
    hanging: bool


@dataclass(frozen=True, slots=True)
class KeyRequests:
    """The requests for one key: ``begin`` and ``end`` (ns) of the time in which the client waited, and of the call."""

    invoke: Ints
    begin: Ints
    end: Ints

    def without(self, fault: RunFault, struck: Bools) -> KeyRequests:
        """Return the same without the time in which a fault stopped the clients of the rows ``struck``; a fault
        that is deadly ends their calls."""
        hit = struck & (self.begin < fault.until_ns) & (self.end > fault.from_ns)
        if not hit.any():
            return self
        end = np.where(hit, np.maximum(self.begin, fault.from_ns), self.end)
        before = KeyRequests(self.invoke, self.begin, end)
        goes_on = hit & (self.end > fault.until_ns) & (fault.name not in DEADLY)
        after = [(int(self.invoke[at]), fault.until_ns, int(self.end[at])) for at in np.flatnonzero(goes_on).tolist()]
        return before.with_(after)

    def with_(self, rows: list[tuple[int, int, int]]) -> KeyRequests:
        """Return the same with further rows: invocation, begin and end (ns)."""
        if not rows:
            return self
        columns = zip((self.invoke, self.begin, self.end), np.array(rows, dtype=np.int64).T, strict=True)
        invoke, begin, end = (np.concatenate(pair) for pair in columns)
        order = np.argsort(begin, kind="stable")
        return KeyRequests(invoke[order], begin[order], end[order])


class Stretches:
    """The idle stretches of a history. Raises ValueError if the start entry does not state ttl and slack."""

    def __init__(self, history: History) -> None:
        self.holds: Holds = holds(history)
        self.columns: View = self.holds.view
        self.faults = faults(history)
        self._disturbing = [fault for fault in self.faults if fault.disturbs]
        if self.columns.settings.get("no_single_point"):
            self._disturbing = without_tolerated(self.faults, self.columns.settings.get("servers") or ())
        ttl, slack = self.columns.seconds("ttl"), self.columns.seconds("slack")
        if ttl is None or slack is None:
            raise ValueError("the start entry does not state ttl and slack")
        self.ttl, self.slack = ttl, slack
        self._acquires = self.columns.rows(ACQUIRE, INVOKE)
        self._unknown = self._unknown_calls()
        self._stopped = list(self._stopped_acquires())
        self._excuses = Excuses(history)
        self._clocks = clocks(history.nemesis())
        self._requests: dict[int, KeyRequests] = {}
        self._stuck: list[StuckKey] | None = None

    def set_back(self, found: StuckKey) -> tuple[str, int] | None:
        """Return the server whose clock was set back so far (ns) that the key, which was to end with a lease, may have
        lasted until the end of the stretch by that clock; None if there is none."""
        if found.cause not in UNCLEAN or found.hold == NONE:
            return None
        since = int(self.holds.requested_ns[found.hold])
        servers = self.columns.settings.get("servers") or ()
        fell = {host: clock.fell(since, found.until_ns) for host, clock in self._clocks.items() if host in servers}
        host = max(fell, key=fell.__getitem__, default=None)
        if host is None or not fell[host] or found.due_ns + fell[host] < found.until_ns:
            return None
        return host, fell[host]

    def stuck(self) -> list[StuckKey]:
        """Return the stuck keys, found once."""
        if self._stuck is None:
            self._stuck = list(self._stuck_keys())
        return self._stuck

    def _stuck_keys(self) -> Iterator[StuckKey]:
        for key, begin, end, row in self._idle():
            for since, until in self.quiet(begin, end):
                found = self._judge(key, begin, since, until, row)
                if found is not None:
                    yield found

    def requests(self, key: int) -> KeyRequests:
        """Return the requests for a key, in the order of their beginnings.

        Each ends with its answer or with the life of its client. A client that is stopped makes no request meanwhile. A
        call that hangs beyond its own timeout still requests the key, except while a fault excuses its client. So a
        call has one row for each time in which it requested the key."""
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = self._requests_of(key)
        return found

    def _requests_of(self, key: int) -> KeyRequests:
        columns = self.columns
        invoke = self._acquires[columns.key[self._acquires] == key]
        end = ends(columns, invoke)
        limit = np.array([self._limit(int(index)) for index in invoke], dtype=np.int64)
        rows = KeyRequests(invoke, columns.time[invoke], np.minimum(end, limit))
        for fault in (one for one in self.faults if one.name in SILENT):
            struck = [number for number, name in enumerate(columns.names) if name in fault.hosts]
            rows = rows.without(fault, np.isin(columns.client[rows.invoke], struck))
        hanging = [
            (int(invoke[at]), *part)
            for at in np.flatnonzero(end > limit).tolist()
            for part in self._excuses.without(int(columns.client[invoke[at]]), int(limit[at]), int(end[at]))
        ]
        return rows.with_(hanging)

    def quiet(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of a stretch without a disturbing fault."""
        parts, since = [], begin
        for fault in sorted(self._disturbing, key=lambda fault: fault.from_ns):
            if fault.until_ns <= since or fault.from_ns >= end:
                continue
            if fault.from_ns > since:
                parts.append((since, fault.from_ns))
            since = fault.until_ns
        return [*parts, (since, end)] if since < end else parts

    def _limit(self, invoke: int) -> int:
        """Return when the request should end by its own timeout."""
        timeout = (self.columns.value[invoke] or {}).get("timeout")
        return FOR_EVER if timeout is None else int(self.columns.time[invoke]) + int(timeout * SECOND) + self.slack

    def _idle(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield key, begin, end (ns) and the row of the hold before (-1) of each idle stretch longer than ``slack``."""
        found, columns = self.holds, self.columns
        order = grouped_order(found.key, found.start, found.end)
        key, start = found.key[order], found.start[order]
        until = covered_until(key, start, found.end[order])
        fresh = np.ones(len(key), dtype=bool)
        fresh[1:] = key[1:] != key[:-1]
        long = np.flatnonzero(~fresh & (start - until > self.slack))
        for i in long.tolist():
            yield int(key[i]), int(until[i]), int(start[i]), self._ending(int(key[i]), int(until[i]))
        for number in range(len(columns.keys)):
            mine = found.key == number
            first = int(found.start[mine].min()) if mine.any() else columns.end
            yield number, columns.origin, first, NONE
            if mine.any():
                last = int(found.end[mine].max())
                yield number, last, columns.end, self._ending(number, last)

    def _ending(self, key: int, time: int) -> int:
        return int(np.flatnonzero((self.holds.key == key) & (self.holds.end == time))[0])

    def _judge(self, key: int, idle: int, since: int, until: int, row: int) -> StuckKey | None:
        """Return whether and how the key was stuck in the quiet part [since, until] of the stretch that began at
        ``idle``."""
        if until - since <= self.slack:
            return None
        due, cause = self._due(key, idle, since, until, row)
        wait = self.slack if cause in ENDED else self.ttl + self.slack
        for begin, end, invokes in self._runs(key, since, until):
            deadline = max(due, begin + wait)
            if end > deadline:
                return StuckKey(key, idle, deadline, end, cause, row, invokes, self._all_hang(key, deadline, end))
        return None

    def _all_hang(self, key: int, since: int, until: int) -> bool:
        """Return whether every request in [since, until] is a call that hangs beyond its own timeout."""
        requests = self.requests(key)
        inside = np.flatnonzero((requests.begin < until) & (requests.end > since)).tolist()
        return all(requests.begin[at] >= self._limit(int(requests.invoke[at])) for at in inside)

    def _due(self, key: int, idle: int, since: int, until: int, row: int) -> tuple[int, str]:
        """Return when the key must be available again (ns), and the cause of the wait."""
        patience = self.ttl + self.slack
        ended, cause = self._end_of(row) if row != NONE else (idle, "start")
        due = ended + (self.slack if cause in ENDED else patience)
        heals = [f.until_ns for f in self._disturbing if f.until_ns <= since]
        if heals and max(heals) + self.columns.wake() > due:
            due, cause = max(heals) + self.columns.wake(), "heal" if cause in ENDED | {"start"} else cause
        if cause in ENDED and any(f.until_ns <= idle < self._wake(f) for f in self._disturbing):
            due, cause = max(due, ended + patience), "heal"
        doubts = [time for number, time in self._unknown if number == key and idle - patience < time < until]
        if doubts:
            due = max(due, max(doubts) + patience, idle + patience)
            cause = "unknown" if cause in ENDED | {"start", "heal"} else cause
        taken = [over for number, begin, over in self._stopped if number == key and begin < until and over > idle]
        if taken and max(taken) > due:
            due, cause = max(taken), "unknown"
        return due, cause

    def _wake(self, fault: RunFault) -> int:
        """Return until when requests sent during a fault may still take effect on a lease."""
        return fault.until_ns + (fault.until_ns - fault.from_ns) + self.columns.wake()

    def _end_of(self, row: int) -> tuple[int, str]:
        """Return when the service learned, or should have learned, that the hold was over, and how it ended."""
        found, columns = self.holds, self.columns
        time, how = int(found.end[row]), int(found.ended[row])
        release = int(found.release[row])
        if how == EXPIRED and found.stated_end[row] == FOREVER:
            release = self._release_after(row, time)
        elif how != RELEASED:
            return time, ENDINGS[how]
        done = NONE if release == NONE else int(columns.done[release])
        if done == NONE:
            crashed = self._crash_after(columns.names[found.client[row]], time)
            return (FOR_EVER, "unknown") if crashed is None else (crashed, "crashed")
        return int(columns.time[done]), {OK: "clean", FAIL: "refused"}.get(int(columns.type[done]), "unknown")

    def _release_after(self, row: int, time: int) -> int:
        """Return the index of the client's first release of the key from ``time`` on; NONE without one."""
        columns, found = self.columns, self.holds
        releases = columns.rows(RELEASE, INVOKE)
        own = (columns.client[releases] == found.client[row]) & (columns.key[releases] == found.key[row])
        later = releases[own & (columns.time[releases] >= time)]
        return int(later[0]) if len(later) else NONE

    def _crash_after(self, host: str, time: int) -> int | None:
        columns = self.columns
        crashes = (i for i in columns.deaths() if (columns.value[i] or {}).get("host") == host)
        return next((int(columns.time[i]) for i in crashes if columns.time[i] >= time), None)

    def _unknown_calls(self) -> list[tuple[int, int]]:
        """Return key and end time of each call that may still affect the key."""
        columns = self.columns
        calls = np.flatnonzero((columns.type == INVOKE) & (columns.f <= RELEASE))
        done = columns.done[calls]
        pending, unknown = done == NONE, (done != NONE) & (columns.type[done] == INFO)
        found = [(int(columns.key[i]), int(columns.time[columns.done[i]])) for i in calls[unknown]]
        found += [(int(columns.key[i]), self._given_up(int(i))) for i in calls[pending]]
        late = calls[~pending & (columns.f[calls] == ACQUIRE)]
        late = late[columns.time[columns.done[late]] - columns.time[late] > self.slack]
        found += [
            (int(columns.key[i]), int(columns.time[columns.done[i]]))
            for i in late
            if columns.time[columns.done[i]] > self._limit(int(i)) and columns.type[columns.done[i]] != OK
        ]
        return found + [(int(found_key), int(end)) for found_key, end in self._crashed_holds()]

    def _stopped_acquires(self) -> Iterator[tuple[int, int, int]]:
        """Yield the key, the begin and the end of each time in which a client was stopped during an acquire: the key
        may be the client's without its knowledge, until the lease ends or the client goes on."""
        columns = self.columns
        begin, end = columns.time[self._acquires], ends(columns, self._acquires)
        for fault in (one for one in self.faults if one.name in STILL):
            struck = [number for number, name in enumerate(columns.names) if name in fault.hosts]
            hit = (begin <= fault.from_ns) & (fault.from_ns <= end) & np.isin(columns.client[self._acquires], struck)
            for key, returned in zip(columns.key[self._acquires[hit]].tolist(), end[hit].tolist(), strict=True):
                learns = min(returned, fault.until_ns + self.slack)
                yield key, fault.from_ns, min(learns, fault.from_ns + self.ttl + self.slack)

    def _crashed_holds(self) -> Iterator[tuple[int, int]]:
        mask = np.isin(self.holds.ended, DIED)
        yield from zip(self.holds.key[mask].tolist(), self.holds.end[mask].tolist(), strict=True)

    def _given_up(self, invoke: int) -> int:
        """Return the latest time at which a call that never returned can have taken effect: its timeout or a crash."""
        columns = self.columns
        crashed = self._crash_after(columns.names[columns.client[invoke]], int(columns.time[invoke]))
        return min(self._limit(invoke), FOR_EVER if crashed is None else crashed, columns.end)

    def _runs(self, key: int, since: int, until: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield the times in [since, until] in which some client always requested the key, with some of the
        requests."""
        requests = self.requests(key)
        inside = (requests.begin < until) & (requests.end > since)
        begin, end, invokes = requests.begin[inside], requests.end[inside], requests.invoke[inside]
        if not len(begin):
            return
        lasts = np.maximum.accumulate(end)
        breaks = np.flatnonzero(begin[1:] > lasts[:-1] + self.slack) + 1
        for part in np.split(np.arange(len(begin)), breaks):
            run = (max(since, int(begin[part[0]])), min(until, int(lasts[part[-1]])))
            yield *run, tuple(dict.fromkeys(invokes[part].tolist()))[-3:]


_stretches: WeakKeyDictionary[History, Stretches] = WeakKeyDictionary()


def stretches_in(history: History) -> Stretches:
    """Return the stretches of ``history``, computed once as long as it does not grow."""
    found = _stretches.get(history)
    if found is None or found.columns.length != len(history):
        found = _stretches[history] = Stretches(history)
    return found
