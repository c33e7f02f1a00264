"""Two definite holds of one key never overlap, unless both are shared (the lock-level oracle, ``ME`` in the table of
anomalies)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.base import CAP, Blame, Verdict, Violation, conclude, no_lock_taken
from checkers.holds import Hold, Holds, holds, is_shared, nested_calls
from checkers.leases import BLAMES, Leases, Ruling, lease_of, reason
from checkers.sweep import grouped_order, overlaps
from checkers.view import ACQUIRE, INVOKE, NONE, OK, Bools, Ints, View
from harness.history import History


class MutualExclusion:
    """Two holds of one key never overlap, unless both are shared. A sweep over the holds of each key, log-linear.

    Reports, of each cluster of overlapping holds, the first pair of each blame: the service, a clock or the client, as
    ``checkers.leases`` tells them apart. Limits: the earlier one is the one whose acquire returned earlier, so a reply
    that was on its way for longer than its lease is put down to the service; and a lease is what the lock said it is,
    prolonged by good extends and proved by good checks.
    """

    name = "mutual-exclusion"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        found = holds(history)
        order = grouped_order(found.key, found.start, found.end)
        swept = (found.key[order], found.start[order], found.end[order])
        late = clashes(*swept, found.shared[order])
        leases = Leases(history.nemesis() if late.any() else ())
        groups = clusters(order, overlaps(*swept)) if late.any() else ()
        violations = [v for rows in groups for v in _pairs(found, rows, leases)]
        return conclude(
            history,
            _earliest(violations),
            fine=f"no two of {len(found)} holds of the same key overlap",
            doubts=(too_few(found), None if contended(found) else NO_CONTENTION),
            stats={"holds": len(found), **{blame: _blamed(violations, blame) for blame in BLAMES}},
            count=int(late.sum()),
        )


NO_CONTENTION = "no two clients ever wanted the same key at the same time: nothing was put to the test"


def too_few(found: Holds) -> str | None:
    """A doubt if fewer than two acquires succeeded."""
    grants = len(found) + len(found.nested)
    return None if grants >= 2 else f"{'only one' if grants else 'no'} acquire succeeded: too few to tell"


def contended(found: Holds) -> bool:
    """Whether a client ever asked for a key while another one was asking for it or held it, and not both shared."""
    key, start, end, shared = wanted(found)
    order = grouped_order(key, start, end)
    return bool(clashes(key[order], start[order], end[order], shared[order]).any())


def clashes(group: Ints, start: Ints, end: Ints, shared: Bools) -> Bools:
    """For rows in sweep order: does this row begin while an earlier one of its group lasts, and not both are shared?

    To a shared row only those that are not matter: for it the others last no time.
    """
    late = overlaps(group, start, end)
    if not shared.any():
        return late
    return np.where(shared, overlaps(group, start, np.where(shared, start, end)), late)


def wanted(found: Holds) -> tuple[Ints, Ints, Ints, Bools]:
    """Key, begin and end (ns) of each wish, and whether it was to share: from asking to giving up, or to the end of the
    hold that came of it. Who asks for what he has is no competitor of his own."""
    columns: View = found.view
    asked = columns.rows(ACQUIRE, INVOKE)
    done = columns.done[asked]
    end = np.where(done == NONE, columns.end, columns.time[done])
    nested = np.isin(asked, [index for _, index in nested_calls(found)]) & ~np.isin(done, found.grant)
    held = np.full(columns.length, NONE, dtype=np.int64)
    held[found.grant] = found.end
    granted = (done != NONE) & (columns.type[done] == OK) & ~nested
    end = np.where(granted, np.maximum(held[done], end), end)
    asked, end = asked[~nested], end[~nested]
    shared = np.array([is_shared(columns, index) for index in asked.tolist()], dtype=bool)
    return columns.key[asked], columns.time[asked], end, shared


def clusters(order: Ints, late: Bools) -> Iterator[list[int]]:
    """The groups of rows (in sweep order) that overlap their predecessors; a group begins where nothing else lasts."""
    starts = np.flatnonzero(~late)
    ends = np.append(starts[1:], len(order))
    for begin, end in zip(starts[ends - starts > 1], ends[ends - starts > 1], strict=True):
        yield order[begin:end].tolist()


def _pairs(found: Holds, rows: list[int], leases: Leases) -> Iterator[Violation]:
    """The first overlapping pair of each blame in one cluster."""
    lasting: list[int] = []
    seen: set[Blame] = set()
    for later in rows:
        begin = int(found.start[later])
        lasting = [row for row in lasting if found.end[row] > begin]
        for earlier in lasting:
            if found.shared[earlier] and found.shared[later]:
                continue
            ruling = leases.rule(lease_of(found, earlier), begin)
            if ruling.blame not in seen:
                seen.add(ruling.blame)
                yield _overlap(found, earlier, later, ruling)
        if len(seen) == leases.blames:
            return
        lasting.append(later)


def _overlap(found: Holds, earlier: int, later: int, ruling: Ruling) -> Violation:
    one: Hold = found[earlier]
    two: Hold = found[later]
    at = found.view.at
    why = reason(lease_of(found, earlier), ruling, at)
    sentence = (
        f"{two.client} acquired {two.key}{_mode(two)} at {at(two.start_ns)} "
        f"while {one.client} still held it{_mode(one)} until {at(one.end_ns)}, {why}"
    )
    until = min(one.end_ns, two.end_ns)
    return Violation("overlap", two.key, sentence, two.start_ns, until, (one.to_json(), two.to_json()), ruling.blame)


def _mode(hold: Hold) -> str:
    return " (shared)" if hold.shared else ""


def _earliest(violations: list[Violation]) -> list[Violation]:
    return sorted(violations, key=lambda violation: violation.from_ns)[:CAP]


def _blamed(violations: list[Violation], blame: Blame) -> int:
    return sum(violation.blame == blame for violation in violations)
