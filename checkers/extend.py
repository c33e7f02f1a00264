"""Check that an extend is confirmed only to the client that still holds the lock (``EX`` in the golden stories).

- *lost-extend*: an extend returned ok, and another client had been granted the key since the last grant of its caller
  and before the extend was invoked. The caller is told that it has held the lock all the time, and it has not. There
  are two proofs:

  - the other client held the key during the whole extend, and its lease was not over;
  - the lease of the caller had ended when the other client was granted the key.

  A grant whose answer may have been late, because a fault struck while its client requested it, proves nothing: it may
  be older than the grant of the caller. The same is true of a caller with an acquire of unknown outcome in between.
- *failed-extend*: extends of live holds that returned false, were refused or raised. Only an extend by a client that
  relies on its hold counts, before the end of the lease (without a stated one, the ttl), if no fault counts for the
  client since its acquire (:mod:`.excuses`). One may have a cause that the history does not show, so the lock is broken
  if at least :data:`FEW` of them failed and these are more than half of all extends of live holds.

Limits: a lock that says ok and prolongs nothing is found by :mod:`.mutual_exclusion`, if its holder goes on. An extend
of a lease that has ended, without any grant to another client, may be confirmed: the client has lost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from harness.history import SECOND, History
from harness.wording import counted

from .base import Blame, Verdict, Violation, conclude, not_applicable
from .excuses import Excuses
from .holds import FOREVER, LOST, Hold, Holds, holds
from .leases import Lease, Leases
from .view import ACQUIRE, EXTEND, FAIL, INVOKE, NONE, OK, Ints, View

FEW: Final = 2


class ExtendChecker:
    """An extend of a lost lock says so, and an extend of a live hold succeeds.

    The module has the rules."""

    name = "extend"

    def check(self, history: History) -> Verdict:
        found = holds(history)
        extends = found.view.rows(EXTEND, INVOKE)
        if not len(extends):
            return not_applicable(history, "no client extended a lock")
        excuses, leases, held = Excuses(history), Leases(history.nemesis()), _last_holds(found, extends)
        live = _live(found, held, excuses)
        failed = [extend for extend in live if not _confirmed(found.view, extend)]
        violations = [*_lost(found, held, excuses, leases), *_failures(found, live, failed)]
        confirmed = sum(_confirmed(found.view, extend) for extend in extends.tolist())
        return conclude(
            history,
            sorted(violations, key=lambda violation: violation.from_ns),
            fine=f"{confirmed} of {counted(len(extends), 'extend')} were confirmed, none of a lost lock",
            doubts=(None if confirmed else f"none of {counted(len(extends), 'extend')} was confirmed",),
            stats={"extends": len(extends), "confirmed": confirmed, "live": len(live), "failed": len(failed)},
        )


def _confirmed(columns: View, extend: int) -> bool:
    done = int(columns.done[extend])
    if done == NONE or columns.type[done] != OK:
        return False
    return (columns.value[done] or {}).get("extended") is not False


def _last_holds(found: Holds, extends: Ints) -> list[tuple[int, int]]:
    """Return each extend whose caller had been granted the key before, with the row of its last hold."""
    if not len(found):
        return []
    columns = found.view
    keys, width = max(1, len(columns.keys)), columns.length + 1
    granted = (found.client * keys + found.key) * width + found.grant
    slot = (columns.client[extends] * keys + columns.key[extends]) * width
    order = np.argsort(granted, kind="stable")
    at = np.searchsorted(granted[order], slot + extends) - 1
    rows = order[np.maximum(at, 0)]
    known = (at >= 0) & (granted[rows] >= slot)
    return list(zip(extends[known].tolist(), rows[known].tolist(), strict=True))


def _lost(found: Holds, extends: list[tuple[int, int]], excuses: Excuses, leases: Leases) -> Iterator[Violation]:
    """Yield each extend that was confirmed although another client had been granted the key."""
    columns = found.view
    renewed: dict[int, int] = {}
    for extend, mine in extends:
        if not _confirmed(columns, extend):
            continue
        over = _end_of_last_lease(found, mine, renewed.get(mine, int(found.grant[mine])))
        renewed[mine] = int(columns.done[extend])
        if _unknown_acquire(columns, extend, int(found.grant[mine])):
            continue
        for other in range(mine + 1, int(np.searchsorted(found.grant, extend))):
            if found.key[other] != found.key[mine] or found.client[other] == found.client[mine]:
                continue
            blame = _proof(found, mine, other, extend, over, leases)
            if blame is not None and not _may_be_older(found, other, excuses):
                yield _lost_extend(found, extend, mine, other, blame)
                break


def _end_of_last_lease(found: Holds, row: int, basis: int) -> int:
    """Return when the lease ended (ns) that the entry ``basis`` gave to the hold of a row: its grant or an extend."""
    columns = found.view
    seconds = (columns.value[found.grant[row]] or {}).get("valid_for")
    lease = columns.seconds("lease") if seconds is None else round(seconds * SECOND)
    return FOREVER if lease is None or found.nests[row] else int(columns.time[basis]) + lease


def _may_be_older(found: Holds, row: int, excuses: Excuses) -> bool:
    """Return whether the answer to the acquire of a hold may have been late because of a fault."""
    return excuses.any(int(found.client[row]), int(found.view.time[found.acquire[row]]), int(found.start[row]))


def _unknown_acquire(columns: View, extend: int, grant: int) -> bool:
    """Return whether the caller of an extend had an acquire of unknown outcome since its grant."""
    between = np.arange(grant + 1, extend)
    acquires = between[(columns.f[between] == ACQUIRE) & (columns.type[between] == INVOKE)]
    acquires = acquires[columns.client[acquires] == columns.client[extend]]
    done = columns.done[acquires]
    return bool(((done == NONE) | ~np.isin(columns.type[done], (OK, FAIL))).any())


def _proof(found: Holds, mine: int, other: int, extend: int, over: int, leases: Leases) -> Blame | None:
    """Return the cause if the grant of the row ``other`` proves that the lock of the row ``mine`` was lost, whose lease
    before the extend ended at ``over`` (ns)."""
    columns = found.view
    if found.shared[mine] and found.shared[other]:
        return None
    begin, end = int(columns.time[extend]), int(columns.time[columns.done[extend]])
    if found.start[other] <= begin and found.end[other] >= end:
        blame = leases.rule(_lease(found, other), end).blame
        if blame != "client":
            return blame
    return "service" if over <= found.start[other] else None


def _lease(found: Holds, row: int) -> Lease:
    """Return the lease of a hold; without a stated one, as long as the ttl."""
    client, given = found.view.name(int(found.client[row])), int(found.given[row])
    return Lease(client, int(found.requested_ns[row]), given, _lease_end(found, row))


def _lease_end(found: Holds, row: int) -> int:
    stated = int(found.stated_end[row])
    return int(found.given[row]) + (found.view.seconds("ttl") or 0) if stated == FOREVER else stated


def _lost_extend(found: Holds, extend: int, mine: int, other: int, blame: Blame) -> Violation:
    columns, at = found.view, found.view.at
    call = columns.call(extend)
    hold: Hold = found[mine]
    next_: Hold = found[other]
    harm = f"An extend was confirmed although the lock was lost: {hold.client} was told that it still held {hold.key}"
    why = f"{next_.client} had been granted {hold.key} at {at(next_.start_ns)}"
    sentence = f"{harm}: it was granted it at {at(hold.start_ns)}, and told so at {at(call['until_ns'])}; {why}"
    involved = (hold.to_json(), next_.to_json(), call)
    return Violation(
        "lost-extend", hold.key, sentence, call["from_ns"], call["until_ns"], involved, blame, harm=harm, cause=why
    )


def _live(found: Holds, extends: list[tuple[int, int]], excuses: Excuses) -> list[int]:
    """Return the extends of live holds that no fault excuses."""
    columns = found.view
    live = []
    for extend, row in extends:
        done = int(columns.done[extend])
        if done == NONE:
            continue
        returned = int(columns.time[done])
        told = found.ended[row] == LOST and found.end[row] == returned
        held = (told or found.end[row] > returned) and returned < _lease_end(found, row)
        if held and not excuses.any(int(found.client[row]), int(columns.time[found.acquire[row]]), returned):
            live.append(extend)
    return live


def _failures(found: Holds, live: list[int], failed: list[int]) -> Iterator[Violation]:
    """Yield the first failed extend of each client if most extends of live holds failed."""
    if len(failed) < FEW or 2 * len(failed) <= len(live):
        return
    columns = found.view
    seen: set[str] = set()
    for extend in failed:
        client = columns.name(int(columns.client[extend]))
        if client in seen:
            continue
        seen.add(client)
        call, done = columns.call(extend), int(columns.done[extend])
        key = columns.keys[columns.key[extend]]
        how = "it returned false" if columns.type[done] == OK else f"it raised: {columns.error[done]}"
        harm = f"{client} could not extend {key} although it held it"
        sentence = (
            f"{harm}: at {columns.at(call['from_ns'])} {how} "
            f"({len(failed)} of {counted(len(live), 'extend')} of live holds failed)"
        )
        yield Violation(
            "failed-extend", key, sentence, call["from_ns"], call["until_ns"], (call,), "service", harm=harm, cause=how
        )
