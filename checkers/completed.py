"""Check that enough critical sections ended on their own: the others have not used what the lock protects.

A lock that interrupts its clients, or tells them after each grant that it is lost, loses no update, since nobody makes
one. So a run of a workload whose critical sections read and change the resource (``updates`` of the start entry) has
tested the lock only if at least :data:`ENOUGH` of them ended on their own, those of two clients among them, and one
changed the resource. A critical section ended on its own if its client accessed the resource, each access was answered,
no exception interrupted it, and the client relied on the lock until it released it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from harness.wording import counted, listed

from .accesses import CODES, Access
from .holds import EXPIRED, LOST, RELEASED, Holds
from .sections import CHANGES
from .view import ADD, FAIL, INVOKE, NONE, OK, Bools, Ints, View

ENOUGH: Final = 0.1
"""Faults may end most critical sections early, so this is small."""


def too_few_completed(found: Holds, by_key: Mapping[str, list[Access]]) -> str | None:
    """Return why the critical sections of a run have not tested the lock, or None. ``by_key`` are the accepted
    accesses of each resource."""
    columns = found.view
    if not columns.settings.get("updates") or not len(found):
        return None
    flaws = _flaws(found)
    complete = ~np.logical_or.reduce(list(flaws.values()))
    if complete.sum() < ENOUGH * len(found):
        return _few(complete, flaws)
    clients = np.unique(found.client[complete])
    if len(clients) == 1 < len(np.unique(found.client)):
        return f"only critical sections of {columns.name(int(clients[0]))} ended on their own, so they did not compete"
    if not _changed(columns, by_key):
        return f"none of {counted(len(found), 'critical section')} changed the resource"
    return None


def _flaws(found: Holds) -> dict[str, Bools]:
    """Return which critical sections did not end on their own, by the reason in words, the most telling one first."""
    columns = found.view
    used, unanswered = _accesses(found)
    lost = np.isin(found.ended, (LOST, EXPIRED))
    return {
        "interrupted": np.array([_interrupted(columns, release) for release in found.release.tolist()], dtype=bool),
        "without the lock at their end": lost,
        "without a release": ~lost & (found.ended != RELEASED),
        "without an answer of the resource": unanswered,
        "without an access to the resource": ~used,
    }


def _few(complete: Bools, flaws: Mapping[str, Bools]) -> str:
    left, told = ~complete, []
    for words, has in flaws.items():
        if number := int((left & has).sum()):
            told.append(f"{number:,} {words}")
        left = left & ~has
    ended = f"{int(complete.sum()):,} of {counted(len(complete), 'critical section')} ended on their own"
    return f"{ended}, too few to test what the lock protects: {listed(told)}"


def _interrupted(columns: View, release: int) -> bool:
    return release != NONE and bool((columns.value[release] or {}).get("interrupted"))


def _accesses(found: Holds) -> tuple[Bools, Bools]:
    """Return for each hold whether its client accessed the resource, and whether one of the accesses had no answer."""
    columns = found.view
    rows = np.flatnonzero((columns.type == INVOKE) & np.isin(columns.f, (*CODES, ADD)))
    hold = _hold_of(found, rows)
    rows, hold = rows[hold != NONE], hold[hold != NONE]
    done = columns.done[rows]
    answered = (done != NONE) & np.isin(columns.type[done], (OK, FAIL))
    counts = [np.bincount(hold[some], minlength=len(found)) for some in (answered, ~answered)]
    return counts[0] > 0, counts[1] > 0


def _hold_of(found: Holds, accesses: Ints) -> Ints:
    """Return for each access the row of its client's last hold of the key before it, or NONE. The register ``p0/c1``
    belongs to the key ``p0``."""
    columns = found.view
    numbers = {key: number for number, key in enumerate(columns.keys)}
    key_of = np.array([numbers.get(key.partition("/")[0], NONE) for key in columns.keys], dtype=np.int64)
    width = columns.length + 1
    begun = (found.client * len(columns.keys) + found.key) * width + found.grant
    order = np.argsort(begun, kind="stable")
    key = key_of[columns.key[accesses]]
    wanted = (columns.client[accesses] * len(columns.keys) + key) * width + accesses
    row = order[np.maximum(np.searchsorted(begun[order], wanted) - 1, 0)]
    same = (found.client[row] == columns.client[accesses]) & (found.key[row] == key) & (found.grant[row] < accesses)
    return np.where(same, row, NONE)


def _changed(columns: View, by_key: Mapping[str, list[Access]]) -> bool:
    added = columns.done[columns.rows(ADD, INVOKE)]
    return bool((columns.type[added[added != NONE]] == OK).any()) or any(
        access.f in CHANGES for accepted in by_key.values() for access in accepted
    )
