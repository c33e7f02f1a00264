"""A client's release ended somebody else's hold (``NO`` in the table of anomalies).

A history shows no server state, so this is an argument from what clients saw. Blamed is a release by A, with A's hold
begun before B's and the release under way after B's grant had come back (it may have been invoked before, as when A
pauses between looking at the key and deleting it), if afterwards C was granted the key though

- B had not released, and B's lease had not run out in true time, by a margin for replies under way (``slack``, at
  most a tenth of the lease): so it was no plain overrun by B;
- B's grant was not itself the fault: A's lease had ended when B was granted; or A had none, and C had asked in vain
  before A's release, so that the lock did exclude (a lock that grants to everybody has no release to blame);
- nobody else was granted between B's grant and A's release, so that B's lock was alive until then; and A's is the first
  release of an older hold to be under way in that time, so that no other one is to blame;
- no fault that touched a server, nor one that touched B's host, was active between B's request and C's grant: a clock
  that jumped, a restart, an eviction or a failover may have taken B's lock away, and explains C as well;
- A's release did not ``fail``: the lock says that it changed nothing. One with an unknown outcome may have.

Limits: what happens under a server fault is left undecided (``stats["undecided"]``), mutual-exclusion reports it
anyway; servers losing a lock with no fault injected at all, just when a stale owner's release reports success,
would be put down to the release; renewals by a non-owner are not looked for; a delayed release that hits the same
client's next hold is not "somebody else's".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from checkers.base import Verdict, Violation, conclude, no_lock_taken
from checkers.faults import Fault, faults
from checkers.holds import FOREVER, Hold, Holds, holds
from checkers.mutual_exclusion import too_few
from checkers.sweep import grouped_order, overlaps
from checkers.view import ACQUIRE, FAIL, INVOKE, NONE, View
from harness.history import History


class Ownership:
    """A client's release never ends somebody else's hold.

    The module has the argument and its limits."""

    name = "ownership"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        found, struck = holds(history), faults(history)
        suspects = list(_suspects(found))
        violations = [_violation(found.view, trio) for trio in suspects if not _excused(found.view, struck, trio)]
        return conclude(
            history,
            violations,
            fine=f"no release ended the hold of another client, in {len(found)} holds",
            doubts=(too_few(found),),
            stats={"releases": int((found.release != NONE).sum()), "undecided": len(suspects) - len(violations)},
        )


Trio = tuple[Hold, Hold, Hold]


def _suspects(found: Holds) -> Iterator[Trio]:
    """Every A, B, C whose times fit; only keys on which holds overlap can have any."""
    order = grouped_order(found.key, found.start, found.end)
    late = overlaps(found.key[order], found.start[order], found.end[order])
    for key in np.unique(found.key[order][late]).tolist():
        rows = order[found.key[order] == key].tolist()
        given_back = [row for row in rows if found.release[row] != NONE]
        releases = sorted((int(found.view.time[found.release[row]]), row) for row in given_back)
        for b_row, c_row in pairwise(rows):
            if found.client[b_row] == found.client[c_row] or (found.shared[b_row] and found.shared[c_row]):
                continue
            if _alive(found, b_row, int(found.start[c_row])):
                yield from _between(found, releases, b_row, c_row)


def _alive(found: Holds, row: int, time: int) -> bool:
    """Whether the hold's client believed at ``time``, and its lease had not run out whatever the replies took."""
    lease = int(found.lease_end[row])
    slack = found.view.seconds("slack", 1.0) or 0
    margin = min(slack, (lease - int(found.start[row])) // 10)
    return time < found.end[row] and time + margin < lease


def _between(found: Holds, releases: list[tuple[int, int]], b_row: int, c_row: int) -> Iterator[Trio]:
    """The first release by another client's older hold that may have met B's, if that is certain to be to blame."""
    begin, end = int(found.start[b_row]), int(found.start[c_row])
    for time, a_row in releases:
        if time >= end:
            return
        older = found.start[a_row] < begin and found.client[a_row] != found.client[b_row]
        if not older or _refused(found.view, int(found.release[a_row])):
            continue
        if time > begin:
            if _excluded(found, a_row, b_row, time):
                yield found[a_row], found[b_row], found[c_row]
            return
        if begin < _returned(found.view, int(found.release[a_row])):
            if found.lease_end[a_row] <= begin:
                yield found[a_row], found[b_row], found[c_row]
            return


def _returned(columns: View, invoke: int) -> int:
    done = int(columns.done[invoke])
    return columns.end if done == NONE else int(columns.time[done])


def _refused(columns: View, release: int) -> bool:
    done = int(columns.done[release])
    return done != NONE and int(columns.type[done]) == FAIL


def _excluded(found: Holds, a_row: int, b_row: int, release: int) -> bool:
    """Whether B's grant was in order: after A's lease, or (without one) somebody else asked in vain meanwhile."""
    begin, lease = int(found.start[b_row]), int(found.lease_end[a_row])
    if lease != FOREVER:
        return lease <= begin
    columns = found.view
    asked = columns.rows(ACQUIRE, INVOKE)
    done = columns.done[asked]
    until = np.where(done == NONE, columns.end, columns.time[done])
    same = (columns.key[asked] == found.key[b_row]) & (columns.client[asked] != found.client[b_row])
    early = columns.time[asked] < release
    failed = (done != NONE) & (columns.type[done] == FAIL) & (until > begin)
    waited = until > release
    return bool((same & early & (failed | waited)).any())


def _excused(columns: View, struck: list[Fault], trio: Trio) -> bool:
    """Whether a fault of a server, or of B's host, may have taken B's lock away."""
    _, victim, third = trio
    clients = set(columns.settings.get("clients") or columns.names) - {victim.client}
    begin = int(columns.time[victim.acquire])
    return any(fault.during(begin, third.start_ns) and not (fault.hosts and fault.hosts <= clients) for fault in struck)


def _violation(columns: View, trio: Trio) -> Violation:
    owner, victim, third = trio
    at, released = columns.at, int(columns.time[owner.release])
    lease = "which has no lease to end" if victim.lease_end_ns is None else f"leased until {at(victim.lease_end_ns)}"
    sentence = (
        f"{owner.client} released {owner.key} at {at(released)}, when {victim.client} held it (since "
        f"{at(victim.start_ns)}, {lease}), and {third.client} acquired it at {at(third.start_ns)}"
    )
    involved = (owner.to_json(), victim.to_json(), third.to_json(), columns.call(owner.release))
    return Violation("foreign-release", owner.key, sentence, released, third.start_ns, involved, "service")
