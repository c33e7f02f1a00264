"""Check that every call on the lock is answered in time (``AN``).

A call is *late* if it took longer than its limit plus ``slack`` in a time without excuse:

- the limit of an acquire is its own ``timeout``; an acquire without one has no limit;
- the limit of a release and of an extend is :data:`ALLOWANCE`;
- a call that was never answered lasts until its client crashed, or until the history ends;
- a fault excuses the calls of the clients that it touches for as long as its effects may last (:mod:`.excuses`). After
  that, a call has its limit plus ``slack`` once more, and no further excuse: a call that a fault interrupted must not
  hang for good.

Any answer counts, also a refusal and an error. Whether a granted acquire came too late is judged by the same rule.

If most refused acquires gave up more than ``slack`` before their timeout was over (:mod:`.refusals`), the lock does not
wait, and the property is not tested: the parameter to which the harness passes the timeout may mean something else to a
class of the user's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.history import SECOND, History
from harness.wording import counted, in_seconds

from .base import Json, Verdict, Violation, conclude, no_lock_taken
from .excuses import Excuses, ends
from .fairness import RequestTable
from .faults import FOR_EVER
from .holds import holds
from .refusals import gave_up_early
from .view import ACQUIRE, EXTEND, INVOKE, NONE, RELEASE, Ints, View, view

ALLOWANCE: Final = 2 * SECOND
"""Limit (ns) of a release and of an extend, which state no timeout of their own."""
JUDGED: Final = (ACQUIRE, EXTEND, RELEASE)
MANY: Final = 5
"""Fewer acquires that gave up early never count as most of them."""


@dataclass(frozen=True, slots=True)
class LateCall:
    """A call that was late: ``row`` is the index of its invocation, ``limit`` its limit (ns) without slack.

    It lasted until ``end`` (ns) and was overdue from ``due`` (ns) on. ``excused``: a fault excuses a part of that time.
    """

    row: int
    limit: int
    due: int
    end: int
    excused: bool


class AnswersChecker:
    """Each acquire, release and extend is answered within its limit plus ``slack``, unless a fault excuses it.

    Unknown if most refused acquires gave up although they had time left and the key became free.
    One violation is reported for each client and kind of call: the call that lasted longest.
    """

    name = "answers"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        columns = view(history)
        slack = columns.seconds("slack")
        if slack is None:
            return Verdict(None, "the start entry does not state the slack")
        rows = np.flatnonzero((columns.type == INVOKE) & np.isin(columns.f, JUDGED))
        lasted = ends(columns, rows) - columns.time[rows]
        excuses = Excuses(history)
        late = list(late_calls(columns, excuses, rows, lasted, slack))
        return conclude(
            history,
            list(_violations(columns, late)),
            fine=f"each of {len(rows)} calls was answered in time, or a fault excuses it",
            doubts=(
                None if len(rows) else "no client called the lock",
                _impatient(RequestTable(holds(history), excuses)),
            ),
            stats=_stats(columns, rows, lasted, late),
        )


def late_calls(columns: View, excuses: Excuses, rows: Ints, lasted: Ints, slack: int) -> Iterator[LateCall]:
    """Yield the late calls. Only calls that lasted longer than their limit are compared with the faults."""
    for at in np.flatnonzero(lasted > slack).tolist():
        row, limit = int(rows[at]), _limit(columns, int(rows[at]))
        begin, allowed = int(columns.time[row]), limit + slack
        end = begin + int(lasted[at])
        if end - begin <= allowed:
            continue
        for since, until in excuses.without(int(columns.client[row]), begin, end):
            if until - since > allowed:
                yield LateCall(row, limit, since + allowed, end, excused=since > begin or until < end)
                break


def _limit(columns: View, row: int) -> int:
    """Return the limit (ns) of a call, without slack."""
    if columns.f[row] != ACQUIRE:
        return ALLOWANCE
    timeout = (columns.value[row] or {}).get("timeout")
    return FOR_EVER // 2 if timeout is None else round(min(timeout, 1e8) * SECOND)


def _impatient(waits: RequestTable) -> str | None:
    """Return a doubt if most refused acquires gave up early."""
    early, columns = gave_up_early(waits), waits.columns
    if len(early.failed) < MANY or 2 * len(early.failed) <= early.judged:
        return None
    first = int(early.failed[0])
    begin, end, until = int(waits.begin[first]), int(waits.done[first]), int(waits.limits()[first])
    name, key, at = columns.name(waits.client[first]), columns.keys[waits.key[first]], columns.at(begin)
    return (
        f"{len(early.failed):,} of {counted(early.judged, 'refused acquire')} gave up early although the key became "
        f"free in time: {name} requested {key} at {at} with a timeout of {in_seconds(until - begin)} and "
        f"gave up after {in_seconds(end - begin)}, so waiting was not tested"
    )


def _violations(columns: View, late: list[LateCall]) -> Iterator[Violation]:
    """Yield the longest late call of each client and kind of call."""
    worst: dict[tuple[int, int], LateCall] = {}
    for call in late:
        slot = int(columns.client[call.row]), int(columns.f[call.row])
        longest = worst.get(slot)
        if longest is None or call.end - columns.time[call.row] > longest.end - columns.time[longest.row]:
            worst[slot] = call
    for call in worst.values():
        yield _violation(columns, call)


def _violation(columns: View, call: LateCall) -> Violation:
    row = call.row
    begin, done = int(columns.time[row]), int(columns.done[row])
    key, lasted = columns.keys[columns.key[row]], in_seconds(call.end - begin)
    what = f"{columns.name(columns.client[row])}'s {columns.fs[row]} of {key}"
    answer = f"was not answered for {lasted}" if done == NONE else f"was answered only after {lasted}"
    sentence = f"{what} {answer}; its limit was {call.limit / SECOND:g} s"
    if call.excused:
        sentence += f", and no fault excuses it after {columns.at(call.due)}"
    return Violation("late-answer", key, sentence, call.due, call.end, (columns.call(row),), "service")


def _stats(columns: View, rows: Ints, lasted: Ints, late: list[LateCall]) -> Json:
    names = {ACQUIRE: "acquire", EXTEND: "extend", RELEASE: "release"}
    longest = {
        names[code]: round(int(lasted[columns.f[rows] == code].max()) / SECOND, 6)
        for code in JUDGED
        if (columns.f[rows] == code).any()
    }
    return {"calls": len(rows), "late": len(late), "longest_s": longest}
