"""Check that no client's release ends another client's hold (``NO`` in the table of anomalies).

A history contains no server state, so the checker argues from the observations of clients. It blames a release by A
under these conditions. The hold of A began before the hold of B. The release was in progress after the grant to B had
returned (it may have been invoked before, for example if A pauses between looking at the key and deleting it).
Afterwards C was granted the key, although

- B had not released, and the lease of B had not ended in true time, with a margin for replies in transit (``slack``, at
  most a tenth of the lease): so B did not simply overrun its lease;
- the grant to B was not wrong itself: the lease of A had ended when B was granted the lock; or A had no lease, and C
  had requested the lock in vain before the release of A, so the lock did exclude (a lock that grants to every client
  has no release to blame);
- no other client was granted the lock between the grant to B and the release of A, so the lock of B existed until then;
  and the release of A is the first release of an older hold to be in progress in that time, so no other release is the
  cause;
- no fault that touched a server or the host of B was active between the request of B and the grant to C: a clock jump,
  a restart, an eviction or a failover may have removed the lock of B, and would explain C as well;
- the release of A did not ``fail``, which would mean that it changed nothing. A release with an unknown outcome may
  have changed something.

The lease of a hold is what the grant says, else what the lock states in the ``start`` entry (``lease``), counted from
the return of the acquire; a hold that was prolonged without saying until when has no known end.

Limits: cases under a server fault stay undecided (``stats["undecided"]``), and mutual-exclusion reports them anyway. If
servers lose a lock without any injected fault, just when the release of a stale owner succeeds, the checker blames the
release. It does not look for renewals by a non-owner. A delayed release that ends the same client's next hold does not
count, since the hold is not another client's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from harness.history import History

from .base import Verdict, Violation, conclude, no_lock_taken
from .excuses import returned
from .faults import RunFault, faults
from .holds import FOREVER, Hold, Holds, holds
from .mutual_exclusion import too_few
from .sweep import grouped_order, overlaps
from .view import ACQUIRE, FAIL, INVOKE, NONE, View


class OwnershipChecker:
    """A client's release never ends another client's hold.

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
    """Yield every A, B, C whose times fit; only keys with overlapping holds have any."""
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
    """Return whether the client still relied on the hold at ``time``, and its lease had not ended, however long replies
    took."""
    lease = int(found.stated_end[row])
    slack = found.view.seconds("slack", 1.0) or 0
    margin = min(slack, (lease - int(found.start[row])) // 10)
    return time < found.end[row] and time + margin < lease


def _between(found: Holds, releases: list[tuple[int, int]], b_row: int, c_row: int) -> Iterator[Trio]:
    """Yield the first release of another client's older hold that may have ended B's, if no other cause is possible."""
    begin, end = int(found.start[b_row]), int(found.start[c_row])
    for time, a_row in releases:
        if time >= end:
            return
        older = found.start[a_row] < begin and found.client[a_row] != found.client[b_row]
        if not older or _refused(found.view, int(found.release[a_row])):
            continue
        if time > begin:
            if _excluded(found, a_row, b_row, time):
                yield _trio(found, a_row, b_row, c_row)
            return
        if begin < returned(found.view, int(found.release[a_row])):
            if found.stated_end[a_row] <= begin:
                yield _trio(found, a_row, b_row, c_row)
            return


def _trio(found: Holds, *rows: int) -> Trio:
    """Return the holds of these rows, with the lease that the lock states if the grants do not say it."""
    ends = (int(found.stated_end[row]) for row in rows)
    a, b, c = (
        replace(found[row], lease_end_ns=None if end == FOREVER else end) for row, end in zip(rows, ends, strict=True)
    )
    return a, b, c


def _refused(columns: View, release: int) -> bool:
    done = int(columns.done[release])
    return done != NONE and int(columns.type[done]) == FAIL


def _excluded(found: Holds, a_row: int, b_row: int, release: int) -> bool:
    """Return whether the grant to B was correct: after the lease of A, or (without one) while another client waited in
    vain."""
    begin, lease = int(found.start[b_row]), int(found.stated_end[a_row])
    if lease != FOREVER:
        return lease <= begin
    columns = found.view
    acquires = columns.rows(ACQUIRE, INVOKE)
    done = columns.done[acquires]
    until = np.where(done == NONE, columns.end, columns.time[done])
    same = (columns.key[acquires] == found.key[b_row]) & (columns.client[acquires] != found.client[b_row])
    early = columns.time[acquires] < release
    failed = (done != NONE) & (columns.type[done] == FAIL) & (until > begin)
    waited = until > release
    return bool((same & early & (failed | waited)).any())


def _excused(columns: View, struck: list[RunFault], trio: Trio) -> bool:
    """Return whether a fault of a server, or of the host of B, may have removed the lock of B."""
    _, victim, third = trio
    clients = set(columns.settings.get("clients") or columns.names) - {victim.client}
    begin = int(columns.time[victim.acquire])
    return any(fault.during(begin, third.start_ns) and not (fault.hosts and fault.hosts <= clients) for fault in struck)


def _violation(columns: View, trio: Trio) -> Violation:
    owner, victim, third = trio
    at, released = columns.at, int(columns.time[owner.release])
    lease = "without a lease" if victim.lease_end_ns is None else f"leased until {at(victim.lease_end_ns)}"
    sentence = (
        f"{owner.client}'s release ended {victim.client}'s hold of {owner.key}: {owner.client} released it at "
        f"{at(released)}, while {victim.client} held it (since {at(victim.start_ns)}, {lease}), and {third.client} "
        f"acquired it at {at(third.start_ns)}"
    )
    involved = (owner.to_json(), victim.to_json(), third.to_json(), columns.call(owner.release))
    return Violation("foreign-release", owner.key, sentence, released, third.start_ns, involved, "service")
