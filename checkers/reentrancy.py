"""Who holds a lock can take it again, and has it until he has given it back as often (``RE`` in the table of
anomalies).

Judged is every nested acquire: one by a client that, by the definite holds, had the key when it asked. It is *blocked*
if it failed (as busy, or with an error that says that it surely did not happen), or was not answered within the slack;
one with an unknown outcome accuses nobody. A nested release is one that a hold survives. It *freed* the lock if
another client was granted the key after it was asked for and before the hold was over, and nobody was between the
hold's begin and then (a lock that lets everybody in has no release to blame).

Neither is held against the lock when it may have lost the hold for another reason: after its lease had run out, or
while a fault touched its client or the servers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.base import Verdict, Violation, conclude
from checkers.excuses import Excuses, returned
from checkers.holds import Hold, Holds, holds, nested_calls
from checkers.sweep import grouped_order
from checkers.view import FAIL, INFO, INVOKE, NONE, RELEASE, Ints, View
from harness.history import SECOND, History

WORKLOAD = "reentrant"


class Reentrancy:
    """Its holder may take a lock again, at once, and the first release of two does not free it.

    Judged where nested acquires were made; the module says when a nested acquire counts as blocked, and which release
    is to blame for a grant to somebody else.
    """

    name = "reentrancy"

    def check(self, history: History) -> Verdict:
        found, excuses = holds(history), Excuses(history)
        nested = nested_calls(found)
        judged = [pair for pair in nested if _known(found.view, pair[1])]
        violations = [*_blocked(found, excuses, judged), *_freed(found, excuses, nested)]
        asked = found.view.settings.get("workload") == WORKLOAD
        return conclude(
            history,
            violations,
            fine=f"all is well with {len(judged)} nested acquires" if nested else "not applicable: nobody nested",
            doubts=(
                "no acquire was nested: nobody held the lock" if asked and not nested else None,
                "no nested acquire had a known outcome" if nested and not judged else None,
            ),
            stats={"nested": len(nested), "granted": len(found.nested), "unknown": len(nested) - len(judged)},
        )


def _known(columns: View, index: int) -> bool:
    done = int(columns.done[index])
    return done == NONE or columns.type[done] != INFO


def _blocked(found: Holds, excuses: Excuses, nested: list[tuple[int, int]]) -> Iterator[Violation]:
    columns = found.view
    slack = columns.seconds("slack", 1.0) or 0
    for row, index in nested:
        begin, end, done = int(columns.time[index]), returned(columns, index), int(columns.done[index])
        failed = done != NONE and columns.type[done] == FAIL
        if not failed and end - begin <= slack:
            continue
        if found.lease_end[row] < (end if failed else begin + slack):
            continue
        if excuses.any(int(found.client[row]), int(found.start[row]), end):
            continue
        hold: Hold = found[row]
        how = f"{columns.error[done]} after" if failed else "not granted within" if done == NONE else "granted after"
        sentence = (
            f"{hold.client} held {hold.key} since {columns.at(hold.start_ns)} and asked for it again at "
            f"{columns.at(begin)}: {how} {(end - begin) / SECOND:.3f} s"
        )
        yield Violation("blocked", hold.key, sentence, begin, end, (hold.to_json(), columns.call(index)), "service")


def _freed(found: Holds, excuses: Excuses, nested: list[tuple[int, int]]) -> Iterator[Violation]:
    """The first grant to another client in each hold that has survived a release."""
    order = grouped_order(found.key, found.start, found.end)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    granted = set(found.nested.tolist())
    twice = {row for row, index in nested if int(found.view.done[index]) in granted}
    for row in sorted(twice):
        other = _intruder(found, order, int(place[row]))
        if other is None or excuses.any(int(found.client[row]), int(found.start[row]), int(found.start[other])):
            continue
        release = _inner_release(found, row, other)
        if release is not None:
            yield _violation(found, row, release, other)


def _intruder(found: Holds, order: Ints, place: int) -> int | None:
    """The first hold of another client that began while this one lasted, and its lease, and that it may not share."""
    row = int(order[place])
    until = min(int(found.end[row]), int(found.lease_end[row]))
    for later in order[place + 1 :].tolist():
        if found.key[later] != found.key[row] or found.start[later] >= until:
            return None
        if found.client[later] != found.client[row] and not (found.shared[later] and found.shared[row]):
            return int(later)
    return None


def _inner_release(found: Holds, row: int, other: int) -> int | None:
    """The last release that the hold had survived when the other one began; one that was refused freed nothing."""
    columns = found.view
    for index in range(int(found.grant[other]), int(found.grant[row]), -1):
        mine = columns.client[index] == found.client[row] and columns.key[index] == found.key[row]
        if mine and columns.f[index] == RELEASE and columns.type[index] == INVOKE:
            done = int(columns.done[index])
            return None if done != NONE and columns.type[done] == FAIL else index
    return None


def _violation(found: Holds, row: int, release: int, other: int) -> Violation:
    columns = found.view
    hold: Hold = found[row]
    next_: Hold = found[other]
    sentence = (
        f"{hold.client} had taken {hold.key} twice, and the nested release at {columns.at(int(columns.time[release]))} "
        f"freed it: {next_.client} was granted it at {columns.at(next_.start_ns)}, while {hold.client} was in its "
        f"outer section until {columns.at(hold.end_ns)}"
    )
    until = min(hold.end_ns, next_.end_ns)
    involved = (hold.to_json(), columns.call(release), next_.to_json())
    return Violation("freed-by-nested-release", hold.key, sentence, next_.start_ns, until, involved, "service")
