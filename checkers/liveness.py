"""Check that each key that clients request is granted within a limit, unless a fault prevents it.

The limit is the end of the lease plus the plan's slack. Time in which a fault disturbs the servers or the waiting
client does not count. The project's table of anomalies calls violations ``LV``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from harness.history import SECOND, History

from .availability import longest_gap, recoveries, served, share
from .base import Json, Verdict, Violation, conclude, no_lock_taken
from .deadlock import report, stated
from .excuses import Excuses, returned
from .faults import STILL, unhealed
from .holds import Hold, is_shared
from .mutual_exclusion import too_few
from .stuck import Stretches, stretches_in
from .view import ACQUIRE, INFO, INVOKE, NONE

MANY: Final = 5
"""Fewer unknown acquires than this never make a doubt."""
SHARE: Final = 0.25
"""The largest share of acquires that may have an unknown outcome without any fault."""


class LivenessChecker:
    """Every key that is requested and that no client holds is granted soon.

    Soon is ``slack`` after a clean release without a pending unknown call, ttl + slack otherwise: see
    :mod:`.stuck`. Keys that deadlock reports are reported here too, since they are unavailable. Also reported
    is a holder that stays much longer than planned (hold + ttl + slack, not counting disturbing faults and the holder's
    own pauses) while other clients request the key and none gets it: a renewed lock whose owner hangs. A request to
    share a lock that is held shared does not count.
    """

    name = "liveness"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        if not stated(history):
            return Verdict(None, "the start entry does not state ttl and slack")
        stretches = stretches_in(history)
        violations = [report(stretches, found, "stuck") for found in stretches.stuck()]
        violations += list(_overstayed(stretches))
        return conclude(
            history,
            violations,
            fine="every requested key was granted in time",
            doubts=(unhealed(history), too_few(stretches.holds), _unanswered(history, stretches)),
            stats=_stats(stretches),
        )


def _unanswered(history: History, stretches: Stretches) -> str | None:
    """Return a doubt if more than :data:`SHARE` of the acquires had an unknown outcome without any active fault.

    Each of them may have acquired the lock, so none proves a refusal; without this doubt, a lock that raises in each
    second acquire would pass.
    """
    columns = stretches.columns
    acquires = columns.rows(ACQUIRE, INVOKE)
    done = columns.done[acquires]
    lost = acquires[(done != NONE) & (columns.type[done] == INFO)].tolist()
    if len(lost) < MANY or len(lost) <= SHARE * len(acquires):
        return None
    excuses = Excuses(history)
    alone = [
        index for index in lost
        if not excuses.any(int(columns.client[index]), int(columns.time[index]), returned(columns, index))
    ]  # fmt: skip
    if len(alone) < MANY or len(alone) <= SHARE * len(acquires):
        return None
    why = history[int(columns.done[alone[0]])].error
    return (
        f"{len(alone):,} of {len(acquires):,} acquires had an unknown outcome while no fault was active ({why}), so "
        "it is unknown whether the lock was available"
    )


def _overstayed(stretches: Stretches) -> Iterator[Violation]:
    """Yield holds that last longer than any plan while other clients request the key and none is granted it."""
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
    """Yield a violation if requests of other clients still waited after the hold should have ended."""
    columns, found = stretches.columns, stretches.holds
    requests = stretches.requests(int(found.key[row]))
    others = columns.client[requests.invoke] != found.client[row]
    if hold.shared:
        others &= ~np.array([is_shared(columns, index) for index in requests.invoke.tolist()], dtype=bool)
    waiting = others & (requests.begin < hold.end_ns) & (requests.end > due)
    if not waiting.any():
        return
    invokes = requests.invoke[waiting][:3].tolist()
    names = sorted({columns.name(columns.client[index]) for index in requests.invoke[waiting]})
    sentence = (
        f"{hold.client} held {hold.key} too long, from {columns.at(hold.start_ns)} to {columns.at(hold.end_ns)}: its "
        f"work should have ended by {columns.at(due)}, and {', '.join(names)} requested it without success"
    )
    involved = (hold.to_json(), *(columns.call(index) for index in invokes))
    yield Violation("overstayed", hold.key, sentence, due, hold.end_ns, involved, "client")


def _stats(stretches: Stretches) -> Json:
    """Return the share of windows in which the lock was available, the longest time of futile requests (s), and the
    time from each heal of a disturbing fault to the next grant (s; None: no grant): :mod:`.availability`."""
    keys = served(stretches)
    available, gap = share(keys), longest_gap(keys)
    return {
        "availability": None if available is None else round(available, 6),
        "longest_idle_gap_s": 0.0 if gap is None else round((gap[1] - gap[0]) / SECOND, 6),
        "recovery_s": [
            None if one.ns is None else round(one.ns / SECOND, 6) for one in recoveries(stretches) if one.disturbs
        ],
    }
