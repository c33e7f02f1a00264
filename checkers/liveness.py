"""Whoever asks gets the lock in the end (``LV`` in the table of anomalies), while no fault excuses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from checkers.availability import longest_gap, recoveries, served, share
from checkers.base import Json, Verdict, Violation, conclude, no_lock_taken
from checkers.deadlock import report, stated
from checkers.excuses import Excuses, returned
from checkers.faults import STILL, unhealed
from checkers.holds import Hold, is_shared
from checkers.mutual_exclusion import too_few
from checkers.stuck import Stretches
from checkers.view import ACQUIRE, INFO, INVOKE, NONE
from harness.history import SECOND, History

MANY: Final = 5
"""Unknown acquires of which one can say that they are most."""


class Liveness:
    """Every key that is asked for and that nobody holds is granted soon.

    Soon is ``slack`` after a clean release with no unknown call about, ttl + slack otherwise: see
    :mod:`checkers.stuck`. Keys that deadlock reports are reported here too: they are not available. Also reported
    is a holder that stays much longer than planned (hold + ttl + slack, not counting disturbing faults nor the
    holder's own pauses) while others ask and nobody gets the key: a renewed lock whose owner hangs. Who only wants to
    share what is shared is no such other.
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
            doubts=(unhealed(history), too_few(stretches.holds), _unanswered(history, stretches)),
            stats=_stats(stretches),
        )


def _unanswered(history: History, stretches: Stretches) -> str | None:
    """A doubt if most acquires ended unknown, and no fault was at work. Each may have got the lock, so that nobody is
    accused of keeping it from others; and of a lock that only raises nothing at all would be said."""
    columns = stretches.columns
    asked = columns.rows(ACQUIRE, INVOKE)
    done = columns.done[asked]
    lost = asked[(done != NONE) & (columns.type[done] == INFO)].tolist()
    if len(lost) < MANY or 2 * len(lost) <= len(asked):
        return None
    excuses = Excuses(history)
    alone = [
        index for index in lost
        if not excuses.any(int(columns.client[index]), int(columns.time[index]), returned(columns, index))
    ]  # fmt: skip
    if 2 * len(alone) <= len(asked):
        return None
    why = history[int(columns.done[alone[0]])].error
    return (
        f"{len(alone):,} of {len(asked):,} acquires ended unknown while no fault was at work ({why}): nobody can tell "
        "whether the lock was to be had"
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
        others &= ~(found.shared & found.shared[row])
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
    if hold.shared:
        others &= ~np.array([is_shared(columns, index) for index in asking.invoke.tolist()], dtype=bool)
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
    """The share of windows in which the lock was to be had, the longest time it was asked for in vain, s, and the time
    from each heal of a disturbing fault to the next grant, s (None: there was none): :mod:`checkers.availability`."""
    keys = served(stretches)
    available, gap = share(keys), longest_gap(keys)
    return {
        "availability": None if available is None else round(available, 6),
        "longest_idle_gap_s": 0.0 if gap is None else round((gap[1] - gap[0]) / SECOND, 6),
        "recovery_s": [
            None if one.ns is None else round(one.ns / SECOND, 6) for one in recoveries(stretches) if one.disturbs
        ],
    }
