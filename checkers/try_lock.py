"""Check that a try-lock answers at once, and grants a free key (``LV`` in the table of anomalies, row
uniq-in-open-tx).

- *slow-try*: the answer to an acquire with a timeout of 0 took longer than the slack, and no fault excuses it.
- *free-refused*: at least :data:`MANY` tries, and more than :data:`SHARE` of those that met a free key and no other
  call on it, were refused (:func:`.refusals.refused_while_free`). One such refusal may have a cause that the history
  does not show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.history import SECOND, History
from harness.wording import in_seconds

from .base import Verdict, Violation, conclude, not_applicable
from .excuses import Excuses, returned
from .fairness import RequestTable
from .holds import holds
from .refusals import refused_while_free
from .view import ACQUIRE, FAIL, INVOKE, NONE, OK, View, view

WORKLOAD = "try-lock"
MANY: Final = 5
SHARE: Final = 0.1


class TryLockChecker:
    """An acquire with a timeout of 0 is answered within the slack, whoever holds the lock, and granted a free key.

    Judged wherever such acquires were made; one during which (or not long before which) a fault struck its client or
    the servers is excused. One that brought neither a yes nor a no (an error, or nothing until the end of the history)
    is excused by any such fault before it: servers that lost their data may never answer again.
    """

    name = "try-lock"

    def check(self, history: History) -> Verdict:
        columns = view(history)
        slack = columns.seconds("slack")
        if slack is None:
            return Verdict(None, "the start entry does not state the slack")
        tries = [i for i in columns.rows(ACQUIRE, INVOKE).tolist() if (columns.value[i] or {}).get("timeout") == 0]
        workload_matches = columns.settings.get("workload") == WORKLOAD
        if not tries and not workload_matches:
            return not_applicable(history, "no client tried", stats={"tries": 0, "slowest_s": 0.0})
        excuses = Excuses(history)
        took = [returned(columns, index) - int(columns.time[index]) for index in tries]
        return conclude(
            history,
            [*_slow(columns, excuses, tries, slack), *_refused(RequestTable(holds(history), excuses))],
            fine=f"each of {len(tries)} tries was answered at once",
            doubts=(None if tries else "no acquire had a timeout of 0",),
            stats={"tries": len(tries), "slowest_s": round(max(took, default=0) / SECOND, 6)},
        )


def _slow(columns: View, excuses: Excuses, tries: list[int], slack: int) -> Iterator[Violation]:
    for index in tries:
        begin, end = int(columns.time[index]), returned(columns, index)
        client = int(columns.client[index])
        since = begin if _is_answered(columns, index) else columns.origin
        if end - begin <= slack or excuses.any(client, since, end):
            continue
        key, answered = columns.keys[columns.key[index]], int(columns.done[index]) != NONE
        sentence = (
            f"{columns.name(client)} tried {key} at {columns.at(begin)} with a timeout of 0, and "
            + (f"the answer came {in_seconds(end - begin)} later" if answered else "no answer ever came")
            + f": a try-lock must not wait (slack {slack / SECOND:g} s)"
        )
        yield Violation("slow-try", key, sentence, begin, end, (columns.call(index),), "service")


def _refused(waits: RequestTable) -> Iterator[Violation]:
    """Yield the first refusal of a free key for each client, if the lock refused too many."""
    found, columns = refused_while_free(waits), waits.columns
    if len(found.failed) < MANY or len(found.failed) <= SHARE * found.judged:
        return
    seen: set[int] = set()
    for at in found.failed.tolist():
        if (client := int(waits.client[at])) in seen:
            continue
        seen.add(client)
        key, row = columns.keys[waits.key[at]], int(waits.row[at])
        begin, end = int(waits.begin[at]), int(waits.done[at])
        harm = f"{columns.name(client)} tried {key} and was refused although the key was free"
        sentence = (
            f"{harm}: from {columns.at(begin)} to {columns.at(end)} ({len(found.failed):,} of "
            f"{found.judged:,} tries of a free key were refused)"
        )
        yield Violation("free-refused", key, sentence, begin, end, (columns.call(row),), "service", harm=harm)


def _is_answered(columns: View, index: int) -> bool:
    """Return whether the lock granted or refused the request."""
    done = int(columns.done[index])
    return done != NONE and (columns.type[done] == OK or (columns.type[done] == FAIL and columns.error[done] == "busy"))
