"""Check that only the leader acts: no client acts after its successor has acted (``LE``).

In the workload ``leader`` the holder of a key is its leader, and acts by writing ``{"act": number}`` to the resource.
An act belongs to the client's last grant of the key before it. It is an act of a former leader if the resource had
accepted, before it, an act of another client that was granted the key later. An act that a resource refuses by its
token does no harm, and does not count.

To blame is the *service* if the former leader had been told by an ``extend`` that it still held the lock after its
successor had been granted it; otherwise who broke its lease (:mod:`.leases`), or the *client* if it had stopped relying
on the lock before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.history import History
from harness.wording import counted

from .accesses import Access, accesses
from .base import Blame, Verdict, Violation, conclude, no_lock_taken, not_applicable
from .holds import Holds, holds
from .leases import Leases, reason
from .mutual_exclusion import too_few
from .view import EXTEND, INVOKE, NONE, OK


class LeadershipChecker:
    """Acts of a former leader are never accepted after those of its successor."""

    name = "leadership"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        found = holds(history)
        acts = {key: [act for act in accepted if _is_act(act)] for key, accepted in accesses(found.view).items()}
        number = sum(map(len, acts.values()))
        if not number:
            return not_applicable(history, "no client acted as a leader")
        stale = [pair for mine in acts.values() for pair in _stale(found, mine)]
        leases = Leases.of(history) if stale else Leases(())
        return conclude(
            history,
            [_violation(found, leases, *pair) for pair in stale],
            fine=f"each of {counted(number, 'act')} was that of the leader",
            doubts=(too_few(found),),
            stats={"acts": number, "by_former_leaders": sum(len(late) for _, _, late in stale)},
        )


def _is_act(access: Access) -> bool:
    return access.f == "write" and isinstance(access.value, dict) and "act" in access.value


def _stale(found: Holds, acts: list[Access]) -> Iterator[tuple[int, int, list[Access]]]:
    """Yield the hold of each former leader, that of its successor, and the former leader's late acts. Acts are of one
    key, in the order in which the resource accepted them."""
    newest = NONE
    late: dict[tuple[int, int], list[Access]] = {}
    for act in acts:
        row = _hold_of(found, act)
        if row == NONE:
            continue
        if newest == NONE or found.start[row] >= found.start[newest]:
            newest = row
        elif found.client[row] != found.client[newest]:
            late.setdefault((row, newest), []).append(act)
    for (former, successor), found_acts in late.items():
        yield former, successor, found_acts


def _hold_of(found: Holds, act: Access) -> int:
    """Return the row of the client's last grant of the key before its act."""
    columns = found.view
    mine = (found.client == act.client) & (found.key == columns.keys.index(act.key)) & (found.grant < act.invoke)
    rows = np.flatnonzero(mine)
    return int(rows[-1]) if len(rows) else NONE


def _violation(found: Holds, leases: Leases, former: int, successor: int, late: list[Access]) -> Violation:
    columns, at = found.view, found.view.at
    one, two = found[former], found[successor]
    harm = f"{one.client} acted as the leader of {one.key} although {two.client} had taken over"
    blame, why = _cause(found, leases, former, successor, late[0])
    sentence = (
        f"{harm}: {counted(len(late), 'act')} from {at(late[0].done_ns)} on; {two.client} had been granted it at "
        f"{at(two.start_ns)}; {why}"
    )
    involved = (one.to_json(), two.to_json(), columns.call(late[0].invoke))
    return Violation(
        "former-leader", one.key, sentence, late[0].done_ns, late[-1].done_ns, involved, blame, harm=harm, cause=why
    )


def _cause(found: Holds, leases: Leases, former: int, successor: int, act: Access) -> tuple[Blame, str]:
    columns, granted = found.view, int(found.start[successor])
    client = columns.name(int(found.client[former]))
    told = _told_ns(found, former, granted, act)
    if told is not None:
        return "service", f"an extend told {client} at {columns.at(told)} that it still held it"
    lease, ruling = leases.overlap(found, former, successor)
    if found.end[former] <= granted:
        return "client", f"{client} had stopped relying on it at {columns.at(int(found.end[former]))}"
    return ruling.blame, reason(lease, ruling, columns.at)


def _told_ns(found: Holds, former: int, granted: int, act: Access) -> int | None:
    """Return when the former leader was told, by an extend that began after the grant to its successor and before the
    act, that it held the lock; None if it was not."""
    columns = found.view
    rows = columns.rows(EXTEND, INVOKE)
    mine = (columns.client[rows] == found.client[former]) & (columns.key[rows] == found.key[former])
    for row in rows[mine & (columns.time[rows] > granted) & (rows < act.invoke)].tolist():
        done = int(columns.done[row])
        if done != NONE and columns.type[done] == OK and (columns.value[done] or {}).get("extended") is not False:
            return int(columns.time[done])
    return None
