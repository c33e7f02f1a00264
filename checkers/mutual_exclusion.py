"""Check that no two clients hold the same key at the same time (``ME`` in the table of anomalies).

Shared holds may overlap each other. This checker judges the lock itself; :mod:`.resource` judges the effects on what
the lock protects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from harness.history import SECOND, History
from harness.wording import counted

from .base import CAP, Blame, Verdict, Violation, conclude, no_lock_taken
from .holds import EXPIRED, Hold, Holds, holds, is_shared, nested_calls
from .leases import BLAMES, Lease, Leases, Ruling, reason
from .sweep import grouped_order, overlaps
from .view import ACQUIRE, INVOKE, NONE, OK, Bools, Ints, View


class MutualExclusionChecker:
    """Two holds of one key never overlap, unless both are shared. A sweep over the holds of each key takes O(n log n).

    Of each cluster of overlapping holds, the first pair of each cause is reported: service, clock or client, as
    :mod:`.leases` tells them apart. A lease is what the lock stated, extended by successful ``extend`` calls and
    confirmed by successful ``check`` calls.
    """

    name = "mutual-exclusion"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        found = holds(history)
        order = grouped_order(found.key, found.start, found.end)
        swept = (found.key[order], found.start[order], found.end[order])
        late = clashes(*swept, found.shared[order])
        leases = Leases.of(history) if late.any() else Leases(())
        groups = clusters(order, overlaps(*swept)) if late.any() else ()
        violations = [v for rows in groups for v in _pairs(found, rows, leases)]
        return conclude(
            history,
            _earliest(violations),
            fine=f"no two of {len(found)} holds of the same key overlap",
            doubts=(too_few(found), _over_at_once(found), None if contended(found) else NO_CONTENTION),
            stats={"holds": len(found), **{blame: _blamed(violations, blame) for blame in BLAMES}},
            count=int(late.sum()),
        )


NO_CONTENTION = "no two clients wanted the same key at the same time, so mutual exclusion was not tested"
AT_ONCE: Final = SECOND // 1000
"""A client can do nothing under a lease of this length (ns)."""


def too_few(found: Holds) -> str | None:
    """Return a doubt if fewer than two acquires succeeded."""
    grants = len(found) + len(found.nested)
    return None if grants >= 2 else f"{'only one' if grants else 'no'} acquire succeeded: too few to tell"


def _over_at_once(found: Holds) -> str | None:
    """Return a doubt if most holds ended as soon as they began, by their own lease: such holds overlap with nothing,
    whatever the lock does."""
    over = int(((found.ended == EXPIRED) & (found.end - found.start <= AT_ONCE)).sum())
    if 2 * over <= len(found):
        return None
    return f"{over} of {counted(len(found), 'lease')} were over when they were granted, so nobody could hold a key"


def contended(found: Holds) -> bool:
    """Return whether a client requested a key while another client requested or held it, and not both of them
    shared."""
    key, start, end, shared = request_times(found)
    order = grouped_order(key, start, end)
    return bool(clashes(key[order], start[order], end[order], shared[order]).any())


def clashes(group: Ints, start: Ints, end: Ints, shared: Bools) -> Bools:
    """Return, for rows in sweep order, whether this row begins while an earlier row of its group lasts, and not both
    are shared.

    A shared row conflicts with exclusive rows only, so other shared rows get length zero for it.
    """
    late = overlaps(group, start, end)
    if not shared.any():
        return late
    return np.where(shared, overlaps(group, start, np.where(shared, start, end)), late)


def request_times(found: Holds) -> tuple[Ints, Ints, Ints, Bools]:
    """Return key, begin and end (ns) of each request, and whether it is shared.

    A request lasts until the client gives up, or until the end of the hold that results. A client that re-acquires a
    key it already holds does not count as contention.
    """
    columns: View = found.view
    acquires = columns.rows(ACQUIRE, INVOKE)
    done = columns.done[acquires]
    end = np.where(done == NONE, columns.end, columns.time[done])
    nested = np.isin(acquires, [index for _, index in nested_calls(found)]) & ~np.isin(done, found.grant)
    held = np.full(columns.length, NONE, dtype=np.int64)
    held[found.grant] = found.end
    granted = (done != NONE) & (columns.type[done] == OK) & ~nested
    end = np.where(granted, np.maximum(held[done], end), end)
    acquires, end = acquires[~nested], end[~nested]
    shared = np.array([is_shared(columns, index) for index in acquires.tolist()], dtype=bool)
    return columns.key[acquires], columns.time[acquires], end, shared


def clusters(order: Ints, late: Bools) -> Iterator[list[int]]:
    """Yield the groups of overlapping rows (in sweep order); a group begins where no earlier row lasts."""
    starts = np.flatnonzero(~late)
    ends = np.append(starts[1:], len(order))
    for begin, end in zip(starts[ends - starts > 1], ends[ends - starts > 1], strict=True):
        yield order[begin:end].tolist()


def _pairs(found: Holds, rows: list[int], leases: Leases) -> Iterator[Violation]:
    """Yield the first overlapping pair of each cause in one cluster."""
    lasting: list[int] = []
    seen: set[Blame] = set()
    for later in rows:
        begin = int(found.start[later])
        lasting = [row for row in lasting if found.end[row] > begin]
        for earlier in lasting:
            if found.shared[earlier] and found.shared[later]:
                continue
            lease, ruling = leases.overlap(found, earlier, later)
            if ruling.blame not in seen:
                seen.add(ruling.blame)
                yield _overlap(found, earlier, later, lease, ruling)
        if len(seen) == leases.blames:
            return
        lasting.append(later)


def _overlap(found: Holds, earlier: int, later: int, lease: Lease, ruling: Ruling) -> Violation:
    one: Hold = found[earlier]
    two: Hold = found[later]
    at = found.view.at
    why = reason(lease, ruling, at)
    until = min(one.end_ns, two.end_ns)
    who = f"Two threads of {two.client}" if one.client == two.client else "Two clients"
    harm = f"{who} held {two.key} at the same time"
    if (without := _without_lock(found, one, two)) is not None:
        harm = (
            f"The body of `with` ran although the lock was not acquired: {without} was in {two.key} beside its holder"
        )
        why = f"{without}'s __enter__ returned although the acquire in it had failed"
    harm = f"{harm} for {found.view.span(until - two.start_ns)}"
    who = f"{one.client} until {at(one.end_ns)}{_mode(one)}, and {two.client} from {at(two.start_ns)}{_mode(two)}"
    involved = (one.to_json(), two.to_json())
    return Violation(
        "overlap", two.key, f"{harm}: {who}; {why}", two.start_ns, until, involved, ruling.blame, harm=harm, cause=why
    )


def _without_lock(found: Holds, *overlapping: Hold) -> str | None:
    """Return the client whose body of ``with`` ran although the lock's own acquire had failed, or None."""
    values = ((hold, found.view.value[hold.grant] or {}) for hold in overlapping)
    return next((hold.client for hold, value in values if value.get("acquired") is False), None)


def _mode(hold: Hold) -> str:
    return " (shared)" if hold.shared else ""


def _earliest(violations: list[Violation]) -> list[Violation]:
    return sorted(violations, key=lambda violation: violation.from_ns)[:CAP]


def _blamed(violations: list[Violation], blame: Blame) -> int:
    return sum(violation.blame == blame for violation in violations)
