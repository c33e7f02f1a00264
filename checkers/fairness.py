"""Check that a queue serves clients in the order of their requests, and that no client starves (``FA``).

B *overtook* A if A requested the key at least half a second (:data:`MARGIN`) before B did, was still waiting when B was
granted it, and was granted it later or gave up in time. A request takes less than half a second to reach an undisturbed
service, so A was in the queue before B. Two clients that share the lock do not overtake each other. These requests do
not count as waiting:

- a request of A from the moment at which a fault strikes A, the servers or all hosts, and for a while after
  (:mod:`.excuses`): the session of A may have ended, and its place in the queue with it;
- a request of A after its own timeout, and any request that ended in an error or unknown: it may have lost its place;
- a request of A or B if the client's last call on the key did not succeed (or if there was none): A may still be
  connecting, and B may have kept an older place from a request with an unknown outcome.

A client *starves* if it keeps requesting a key (pauses of up to ``slack`` between two requests do not count) while
other clients are granted it 20 times as often as there are clients that request it (:data:`STARVED`). If each grant
were a draw among them, this would have a probability of 2e-9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from harness.history import SECOND, History

from .base import CAP, Json, Verdict, Violation, conclude, no_lock_taken, not_applicable
from .excuses import Excuses
from .holds import Hold, Holds, holds, is_shared, nested_calls
from .mutual_exclusion import too_few
from .view import ACQUIRE, FAIL, INVOKE, NONE, OK, RELEASE, Bools, Ints, View

WORKLOAD: Final = "queue"
MARGIN: Final = SECOND // 2
STARVED: Final = 20
BUSY: Final = "busy"


class FairnessChecker:
    """A lock that promises a queue (or any lock, under workload queue) serves its waiters in order; none starves.

    Judged if the start entry says ``queue``, or under the workload of that name; the module has the rules.
    """

    name = "fairness"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        waits = RequestTable(holds(history), Excuses(history))
        overtaken, behind = waits.overtakings(), waits.behind()
        stats = _stats(waits, len(overtaken), behind)
        workload_matches = waits.columns.settings.get("workload") == WORKLOAD
        if not (workload_matches or waits.columns.settings.get("queue")):
            return not_applicable(history, "the lock promises no queue", stats=stats)
        starved = list(_starved(waits))
        shown = [_out_of_order(waits, first, second) for first, second in overtaken[:CAP]]
        fine = f"no client overtook another one, in {behind} requests that came while another client waited"
        doubt = (
            None
            if behind or not workload_matches
            else "no client waited behind another one while no fault was active, so there was no queue to judge"
        )
        return conclude(
            history,
            [*shown, *starved],
            fine=fine,
            doubts=(too_few(waits.found), doubt),
            stats=stats,
            count=len(overtaken) + len(starved),
        )


class RequestTable:
    """The requests for keys, in the order of their invocations; ``row`` is the index of the invocation.

    ``until`` is the end of the time (ns) in which a request surely had its place: ``begin`` if it never surely had one.
    """

    def __init__(self, found: Holds, excuses: Excuses) -> None:
        self.found = found
        self.columns: View = found.view
        self.excuses = excuses
        columns = self.columns
        acquires = columns.rows(ACQUIRE, INVOKE)
        inner = [index for _, index in nested_calls(found)]
        self.row: Ints = acquires[~np.isin(acquires, inner)]
        self.key, self.client = columns.key[self.row], columns.client[self.row]
        self.begin: Ints = columns.time[self.row]
        done = columns.done[self.row]
        self.done: Ints = np.where(done == NONE, columns.end, columns.time[done])
        self.shared: Bools = np.array([is_shared(columns, index) for index in self.row.tolist()], dtype=bool)
        self.granted: Bools = (done != NONE) & (columns.type[done] == OK)
        self.failed: Bools = (done != NONE) & (columns.type[done] == FAIL)
        self.busy: Bools = self.failed & _errors(columns, done)
        self.pending: Bools = done == NONE
        self.clean = _clean(columns)[self.row]
        surely = (self.granted | self.busy) & self.clean
        self.until: Ints = np.where(surely, np.minimum(self.done, self.limits()), self.begin)
        self.until = excuses.clip(self.client, self.begin, self.until)

    def limits(self) -> Ints:
        """Return when each request ended by its own timeout."""
        limits = [(self.columns.value[int(row)] or {}).get("timeout") for row in self.row]
        spans = [self.columns.end if limit is None else round(min(limit, 1e8) * SECOND) for limit in limits]
        return self.begin + np.array(spans, dtype=np.int64)

    def overtakings(self) -> list[tuple[int, int]]:
        """Return the overtaken and the overtaking request, as positions, for each grant that came too early."""
        pairs = [pair for key in range(len(self.columns.keys)) for pair in self._pairs(key, self.done)]
        return sorted(pairs, key=lambda pair: int(self.done[pair[1]]))

    def behind(self) -> int:
        """Count granted requests that were made while another client's request had waited for longer than the
        margin."""
        return sum(len(self._pairs(key, self.begin)) for key in range(len(self.columns.keys)))

    def _pairs(self, key: int, moment: Ints) -> list[tuple[int, int]]:
        """Return, for each granted request, one made earlier by the margin that was waiting at its ``moment`` (ns)."""
        mine = self.key == key
        later = mine & self.granted & self.clean
        alone = self._behind(np.flatnonzero(mine), np.flatnonzero(later & ~self.shared), moment)
        return alone + self._behind(np.flatnonzero(mine & ~self.shared), np.flatnonzero(later & self.shared), moment)

    def _behind(self, mine: Ints, later: Ints, moment: Ints) -> list[tuple[int, int]]:
        """Return, for each of ``later``, one of ``mine`` that was made earlier by the margin and was waiting at its
        moment."""
        if not len(mine) or not len(later):
            return []
        begin, until = self.begin[mine], self.until[mine]
        longest = np.maximum.accumulate(until)
        fresh = np.concatenate(([True], until[1:] > longest[:-1]))
        lasting = np.maximum.accumulate(np.where(fresh, np.arange(len(mine)), 0))  # the request that waits longest
        ahead = np.searchsorted(begin, self.begin[later] - MARGIN, side="right")
        later, ahead = later[ahead > 0], ahead[ahead > 0]
        waiting = longest[ahead - 1] > moment[later]
        first = lasting[ahead[waiting] - 1]
        return list(zip(mine[first].tolist(), later[waiting].tolist(), strict=True))


def _errors(columns: View, done: Ints) -> Bools:
    return np.array([index != NONE and columns.error[index] == BUSY for index in done.tolist()], dtype=bool)


def _clean(columns: View) -> Bools:
    """Return, for each invocation, whether the client's last call on the lock of the key had succeeded.

    If so, the client has a connection, and none of its earlier requests may still be queued.
    """
    calls = np.flatnonzero((columns.type == INVOKE) & (columns.f <= RELEASE))
    slots = columns.client[calls] * max(1, len(columns.keys)) + columns.key[calls]
    order = np.argsort(slots, kind="stable")
    calls, slots = calls[order], slots[order]
    done = columns.done[calls]
    busy = (columns.f[calls] == ACQUIRE) & (columns.type[done] == FAIL) & _errors(columns, done)
    well = (done != NONE) & ((columns.type[done] == OK) | busy)
    clean = np.zeros(columns.length, dtype=bool)
    clean[calls[1:]] = well[:-1] & (slots[1:] == slots[:-1])
    return clean


def _out_of_order(waits: RequestTable, first: int, second: int) -> Violation:
    columns, found = waits.columns, waits.found
    row, later = int(waits.row[first]), int(waits.row[second])
    key, at = columns.keys[columns.key[row]], columns.at
    granted = int(waits.done[second])
    one, two = columns.name(columns.client[row]), columns.name(columns.client[later])
    sentence = (
        f"{two} got {key} at {at(granted)} before {one}, which had requested it first: {one} at "
        f"{at(int(waits.begin[first]))} (it waited until {at(int(waits.done[first]))}), {two} at "
        f"{at(int(waits.begin[second]))}"
    )
    held = np.flatnonzero(found.acquire == later)
    got: list[Hold] = [found[int(held[0])]] if len(held) else []
    involved = (columns.call(row), *(hold.to_json() for hold in got))
    return Violation("out-of-order", key, sentence, granted, int(waits.done[first]), involved, "service")


def _starved(waits: RequestTable) -> Iterator[Violation]:
    """Yield clients that kept requesting a key while the others together got many times their share."""
    columns = waits.columns
    slack = columns.seconds("slack", 1.0) or 0
    for key in range(len(columns.keys)):
        mine = np.flatnonzero(waits.key == key)
        grants = np.sort(waits.done[mine][waits.granted[mine]])
        clients = np.unique(waits.client[mine])
        for client in clients.tolist():
            for begin, end, last in _stretches(waits, mine[waits.client[mine] == client], slack):
                passed = int(np.searchsorted(grants, end) - np.searchsorted(grants, begin))
                if passed >= STARVED * len(clients) and not waits.excuses.any(client, begin, end):
                    yield _passed_by(columns, int(waits.row[last]), begin, end, passed, len(clients))


def _stretches(waits: RequestTable, mine: Ints, slack: int) -> Iterator[tuple[int, int, int]]:
    """Yield the times (ns) in which a client requested in vain, up to its next grant, and the last request in each."""
    since = last = NONE
    for at in mine.tolist():
        if last != NONE and waits.begin[at] - waits.done[last] > slack:
            yield since, int(waits.done[last]), last
            since = last = NONE
        if waits.granted[at] or waits.busy[at] or waits.pending[at]:
            since, last = (int(waits.begin[at]) if last == NONE else since), at
        if last != NONE and not waits.busy[at]:
            yield since, int(waits.done[last]), last
            since = last = NONE
    if last != NONE:
        yield since, int(waits.done[last]), last


def _passed_by(columns: View, row: int, begin: int, end: int, passed: int, clients: int) -> Violation:
    key = columns.keys[columns.key[row]]
    sentence = (
        f"{columns.name(columns.client[row])} starved: it requested {key} from {columns.at(begin)} to "
        f"{columns.at(end)} without getting it, while others got it {passed} times ({clients} clients requested it)"
    )
    return Violation("starvation", key, sentence, begin, end, (columns.call(row),), "service")


def _stats(waits: RequestTable, overtakings: int, behind: int) -> Json:
    granted = waits.granted
    longest = int((waits.done - waits.begin)[granted].max()) if granted.any() else 0
    grants = Counter(waits.columns.name(client) for client in waits.client[granted].tolist())
    return {
        "longest_wait_s": round(longest / SECOND, 6),
        "overtakings": overtakings,
        "asked_behind_others": behind,
        "grants": dict(sorted(grants.items())),
    }
