"""Whoever asks gets the lock in the end (``LV`` in the table of anomalies), while no fault excuses it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.base import Json, Verdict, Violation, conclude, no_lock_taken
from checkers.deadlock import report, stated
from checkers.faults import STILL, unhealed
from checkers.holds import Hold
from checkers.mutual_exclusion import too_few
from checkers.stuck import Stretches
from checkers.view import ACQUIRE, OK, Ints
from harness.history import SECOND, History


class Liveness:
    """Every key that is asked for and that nobody holds is granted soon.

    Soon is ``slack`` after a clean release with no unknown call about, ttl + slack otherwise: see
    :mod:`checkers.stuck`. Keys that deadlock reports are reported here too: they are not available. Also reported
    is a holder that stays much longer than planned (hold + ttl + slack, not counting disturbing faults nor the
    holder's own pauses) while others ask and nobody gets the key: a renewed lock whose owner hangs.
    """

    name = "liveness"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        if not stated(history):
            return Verdict(None, "the start entry does not state ttl and slack")
        stretches = Stretches(history)
        violations = [report(stretches, found, "stuck") for found in stretches.stuck()]
        violations += list(_overstayed(stretches))
        return conclude(
            history,
            violations,
            fine="every key that was asked for was granted in time",
            doubts=(unhealed(history), too_few(stretches.holds)),
            stats=_stats(stretches),
        )


def _overstayed(stretches: Stretches) -> Iterator[Violation]:
    """Holds that outlast every plan while others ask and nobody else is granted the key."""
    found, columns = stretches.holds, stretches.columns
    planned = columns.seconds("hold")
    if planned is None:
        return
    allowed = planned + stretches.ttl + stretches.slack
    for row in np.flatnonzero(found.end - found.start > allowed).tolist():
        hold: Hold = found[row]
        due = _undisturbed_since(stretches, hold) + allowed
        others = (found.key == found.key[row]) & (found.start > found.start[row]) & (found.start < found.end[row])
        if due < hold.end_ns and not others.any():
            yield from _starved(stretches, row, hold, due)


def _undisturbed_since(stretches: Stretches, hold: Hold) -> int:
    struck = [
        min(fault.until_ns, hold.end_ns)
        for fault in stretches.faults
        if fault.during(hold.start_ns, hold.end_ns)
        and (fault.disturbs or (fault.name in STILL and hold.client in fault.hosts))
    ]
    return max([hold.start_ns, *struck])


def _starved(stretches: Stretches, row: int, hold: Hold, due: int) -> Iterator[Violation]:
    """Reported if requests of others, still waiting after the hold was due to end, went without."""
    columns, found = stretches.columns, stretches.holds
    asking = stretches.asking(int(found.key[row]))
    others = columns.client[asking.invoke] != found.client[row]
    waiting = others & (asking.begin < hold.end_ns) & (asking.end > due)
    if not waiting.any():
        return
    invokes = asking.invoke[waiting][:3].tolist()
    names = sorted({columns.name(columns.client[index]) for index in asking.invoke[waiting]})
    sentence = (
        f"{hold.client} held {hold.key} from {columns.at(hold.start_ns)} to {columns.at(hold.end_ns)}, long after its "
        f"work should have been done ({columns.at(due)} at the latest), while {', '.join(names)} asked for it in vain"
    )
    involved = (hold.to_json(), *(columns.call(index) for index in invokes))
    yield Violation("overstayed", hold.key, sentence, due, hold.end_ns, involved, "client")


def _stats(stretches: Stretches) -> Json:
    """Of the time in which keys were asked for: the fraction served, the longest idle gap; recovery after each heal."""
    gaps = [gap for key in range(len(stretches.columns.keys)) for gap in _unserved(stretches, key)]
    wanted = sum(wish for wish, _, _ in gaps)
    idle = sum(missed for _, missed, _ in gaps)
    longest = max((gap for _, _, gap in gaps), default=0)
    return {
        "availability": 1.0 if not wanted else round(1 - idle / wanted, 6),
        "longest_idle_gap_s": round(longest / SECOND, 6),
        "recovery_s": _recoveries(stretches),
    }


def _unserved(stretches: Stretches, key: int) -> Iterator[tuple[int, int, int]]:
    """Time asked for or held, time asked for and not held, and the longest such gap: one triple, ns."""
    asking, found = stretches.asking(key), stretches.holds
    mine = found.key == key
    wanted = _union(asking.begin, asking.end)
    held = _union(found.start[mine], found.end[mine])
    both = _union(np.concatenate((wanted[0], held[0])), np.concatenate((wanted[1], held[1])))
    total = int((both[1] - both[0]).sum())
    served = int((held[1] - held[0]).sum())
    yield total, total - served, _longest_gap(wanted, held)


def _union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Disjoint intervals that cover the same points, in order."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    if not len(start):
        return start, end
    lasts = np.maximum.accumulate(end)
    fresh = np.concatenate(([True], start[1:] > lasts[:-1]))
    final = np.concatenate((np.flatnonzero(fresh)[1:] - 1, [len(start) - 1]))
    return start[fresh], lasts[final]


def _longest_gap(wanted: tuple[Ints, Ints], held: tuple[Ints, Ints]) -> int:
    """The longest part of a gap between holds in which the key was asked for."""
    longest = 0
    edges = np.concatenate(([np.iinfo(np.int64).min // 2], held[1])), np.concatenate((held[0], [2**62]))
    first = np.searchsorted(wanted[1], edges[0], side="right")
    for gap_start, gap_end, at in zip(edges[0].tolist(), edges[1].tolist(), first.tolist(), strict=True):
        index = at
        while index < len(wanted[0]) and wanted[0][index] < gap_end:
            part = min(gap_end, int(wanted[1][index])) - max(gap_start, int(wanted[0][index]))
            longest, index = max(longest, part), index + 1
    return longest


def _recoveries(stretches: Stretches) -> list[float | None]:
    """For each heal of a disturbing fault, seconds to the next grant of any key; None if there was none."""
    columns = stretches.columns
    grants = np.sort(columns.time[columns.rows(ACQUIRE, OK)])
    found: list[float | None] = []
    for fault in stretches.faults:
        if fault.disturbs and fault.until_ns < columns.end:
            index = int(np.searchsorted(grants, fault.until_ns))
            found.append(round((int(grants[index]) - fault.until_ns) / SECOND, 6) if index < len(grants) else None)
    return found
