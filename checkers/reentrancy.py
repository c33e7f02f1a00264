"""Check that a holder can re-acquire its lock, and holds it until it has released it as often (``RE``).

The checker judges every nested acquire: one by a client that, by the definite holds, held the key when it requested it.
The acquire is *blocked* if it failed (as busy, or with an error that says that it surely did not happen), or was not
answered within the slack. An acquire with an unknown outcome proves nothing. A nested release is one after which the
hold continues. It *freed* the lock if another client was granted the key after the release was invoked and before the
hold ended, and no client held the key between the beginning of the hold and that grant (if the lock admits every
client, no release is to blame).

Neither counts against the lock if it may have lost the hold for another reason: after its lease had ended, or while a
fault touched its client or the servers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.history import History
from harness.wording import in_seconds

from .base import Verdict, Violation, conclude, not_applicable
from .excuses import Excuses, returned
from .holds import Hold, Holds, holds, nested_calls
from .sweep import grouped_order
from .view import FAIL, INFO, INVOKE, NONE, RELEASE, Ints, View

WORKLOAD = "reentrant"


class ReentrancyChecker:
    """A holder may re-acquire its lock at once, and the first of two releases does not free it.

    Judged where nested acquires were made; the module says when a nested acquire counts as blocked, and which release
    is to blame for a grant to somebody else.
    """

    name = "reentrancy"

    def check(self, history: History) -> Verdict:
        found, excuses = holds(history), Excuses(history)
        nested = nested_calls(found)
        judged = [pair for pair in nested if _known(found.view, pair[1])]
        violations = [*_blocked(found, excuses, judged), *_freed(found, excuses, nested)]
        workload_matches = found.view.settings.get("workload") == WORKLOAD
        stats = {"nested": len(nested), "granted": len(found.nested), "unknown": len(nested) - len(judged)}
        if not nested and not workload_matches:
            return not_applicable(history, "no acquire was nested", stats=stats)
        return conclude(
            history,
            violations,
            fine=f"all {len(judged)} nested acquires were correct",
            doubts=(
                None if nested else "no acquire was nested: no client held the lock",
                "no nested acquire had a known outcome" if nested and not judged else None,
            ),
            stats=stats,
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
        how = (
            f"refused ({columns.error[done]}) after"
            if failed
            else "no answer within"
            if done == NONE
            else "granted after"
        )
        sentence = (
            f"{hold.client} could not re-acquire {hold.key}, which it held since {columns.at(hold.start_ns)}: it "
            f"requested it again at {columns.at(begin)}, {how} {in_seconds(end - begin)}"
        )
        yield Violation("blocked", hold.key, sentence, begin, end, (hold.to_json(), columns.call(index)), "service")


def _freed(found: Holds, excuses: Excuses, nested: list[tuple[int, int]]) -> Iterator[Violation]:
    """Yield the first grant to another client in each hold that lasted beyond a release."""
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
    """Return the first hold of another client that began during this hold and its lease, and may not share it."""
    row = int(order[place])
    until = min(int(found.end[row]), int(found.lease_end[row]))
    for later in order[place + 1 :].tolist():
        if found.key[later] != found.key[row] or found.start[later] >= until:
            return None
        if found.client[later] != found.client[row] and not (found.shared[later] and found.shared[row]):
            return int(later)
    return None


def _inner_release(found: Holds, row: int, other: int) -> int | None:
    """Return the hold's last nested release before the other hold began; a refused release freed nothing."""
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
        f"A nested release freed {hold.key} too early: {hold.client} had acquired it twice and released it once, at "
        f"{columns.at(int(columns.time[release]))}; {next_.client} got it at {columns.at(next_.start_ns)}, and "
        f"{hold.client} held it until {columns.at(hold.end_ns)}"
    )
    until = min(hold.end_ns, next_.end_ns)
    involved = (hold.to_json(), columns.call(release), next_.to_json())
    return Violation("freed-by-nested-release", hold.key, sentence, next_.start_ns, until, involved, "service")
