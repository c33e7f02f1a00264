"""Check FIFO locks in O(n log n), on keys whose calls all have a known outcome; the search checks the other keys.

The method follows the spirit of P. B. Gibbons and E. Korach, "Testing shared memories", SIAM Journal on Computing 26,
1997: once the order in which the calls took effect is known, only bounds are left to check.

**The order is known.** The calls of a client follow each other. So each acquire has its release and, if there is one,
its enqueue; every other enqueue has its cancel, or none. We call these groups units. A call that fits into no unit (a
second acquire or enqueue, a release or cancel of nothing) is wrong whatever the other clients did. A client holds the
lock at least from the return of its acquire to the invocation of its release. Holds do not overlap, so they follow each
other in the order in which the acquires returned; number them in that order. Let Gi be the i-th grant, Ri its release
and Ei its enqueue (an acquire without an enqueue has Ei = Gi, since it joins the queue and leaves it at once). An order
then means

    E1 < E2 < ...    and    Ei <= Gi < Ri < G(i+1);

and no client that waits without being granted is in the queue before one that is granted: for each enqueue X that is
cancelled at C (never, if there is no cancel) and each i, Ei < X or C < Gi. These conditions, together with the windows,
are also sufficient.

**As late, and as early, as possible.** A client that waits in vain hinders others least if it waits briefly. So X may
move to just before its return, and C to just after the invocation of the cancel; no condition breaks. Now all other
conditions are lower bounds: on Ei its invocation and E(i-1); on Ri its invocation (Gi is before its own return, which
is earlier); on Gi its invocation, R(i-1), Ei and, where Ei comes after X, C. The bounds are monotonic, so the least
values that satisfy them, found for i = 1, 2, ..., are not later than those of any order. There is an order if and only
if each value is before its return. Bounds are entries of the history and mean "just after". Within such a gap cancels
come first, then E, G and R as above, then the X.

**The entry at which it goes wrong.** If an Ej is too late because some Ei must come before it, this shows at Gi
already: we compare each Ei with the returns of all enqueues that are granted later. So every error shows at the return
of an acquire, from what had been recorded by then: a client that has not been granted, or has not cancelled, by then
gives the same bounds as one that is granted or cancels later.

**The part that proves it.** Units can be left out: the others keep their order. So a wrong part that consists of whole
units proves the history wrong. We take the units that end later than some time before the entry, and double that time
until the part is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from harness.checkers.models import ACQUIRE, RELEASE, FifoLock
from harness.history.calls import NEVER, NONE, Calls, Ints

from .problem import ProvedImpossible, QuickResult

NEAR = 16
"""Entries before the failing one that are tried first as the wrong part."""


def check(calls: Calls, model: FifoLock) -> QuickResult:
    """Decide every key that has known outcomes only.

    Calls in the rows of a failure that return after its position count as unknown.
    """
    rows = np.flatnonzero(calls.named(sorted(model.fs)))
    if not len(rows):
        return QuickResult()
    rows = rows[np.argsort(calls.key[rows], kind="stable")]
    keys, begins = np.unique(calls.key[rows], return_index=True)
    failures, undecided = [], []
    for key, part in zip(keys.tolist(), np.split(rows, begins[1:]), strict=True):
        if not _plain(calls, part):
            undecided.append(key)
            continue
        position = _lost(_units(calls, part))
        if position != NEVER:
            failures.append(ProvedImpossible(key, position, tuple(_part(calls, part, position).tolist())))
    return QuickResult(tuple(failures), tuple(undecided))


def _plain(calls: Calls, rows: Ints) -> bool:
    """Return whether all outcomes are known, and no client makes two calls at a time."""
    mine = rows[np.argsort(calls.client[rows], kind="stable")]
    same = calls.client[mine][1:] == calls.client[mine][:-1]
    apart = calls.invoked[mine][1:] > calls.returned[mine][:-1]
    return bool(calls.known[rows].all() and (apart | ~same).all())


@dataclass(slots=True)
class Unit:
    """The calls of a client for one grant, or for one wait in vain.

    It has invocation and return of each call, NEVER if there is none; ``rows`` are its calls.
    """

    rows: list[int]
    enqueued: tuple[int, int] = (NEVER, NEVER)
    acquired: tuple[int, int] = (NEVER, NEVER)
    ended: tuple[int, int] = (NEVER, NEVER)
    """The release, or the cancel."""


@dataclass(slots=True)
class Units:
    """All units of a key.

    ``misfit`` is the return of the first call that fits into no unit. ``around`` has the rows of that call and of the
    open units of its client.
    """

    found: list[Unit] = field(default_factory=list)
    misfit: int = NEVER
    around: list[int] = field(default_factory=list)


def _units(calls: Calls, rows: Ints) -> Units:
    units = Units()
    waiting: dict[int, Unit] = {}
    holding: dict[int, Unit] = {}
    columns = (column[rows].tolist() for column in (calls.f, calls.client, calls.invoked, calls.returned))
    for row, f, client, *window in zip(rows.tolist(), *columns, strict=True):
        name, at = calls.fs[f], (window[0], window[1])
        mine = holding if name in ACQUIRE or name in RELEASE else waiting
        if (client in mine) == (name in ACQUIRE or name == "enqueue"):
            if at[1] < units.misfit:
                near = [unit for unit in (holding.get(client), waiting.get(client)) if unit]
                units.misfit, units.around = at[1], sorted([row, *(old for unit in near for old in unit.rows)])
            continue
        if name == "enqueue":
            unit = waiting[client] = Unit([], enqueued=at)
            units.found.append(unit)
        elif name in ACQUIRE:
            joined = waiting.pop(client, None)
            unit = holding[client] = joined or Unit([])
            unit.acquired = at
            if joined is None:
                units.found.append(unit)
        else:
            unit = mine.pop(client)
            unit.ended = at
        unit.rows.append(row)
    return units


def _lost(units: Units) -> int:
    """Return the entry at which the last order is lost, or NEVER."""
    grants = sorted((unit for unit in units.found if unit.acquired[1] != NEVER), key=lambda unit: unit.acquired[1])
    vain = sorted((u.enqueued[1], u.ended[0]) for u in units.found if u.acquired[1] == NEVER)
    vain.append((NEVER, NEVER))
    later = list(accumulate((unit.enqueued[1] for unit in reversed(grants)), min, initial=NEVER))[-2::-1]
    joined = free = blocked = NONE
    before = 0
    for unit, rival in zip(grants, later, strict=True):
        begun, back = unit.acquired
        if back > units.misfit:
            break
        direct = unit.enqueued[0] == NEVER
        joined = max(joined, free, begun, blocked) if direct else max(joined, unit.enqueued[0])
        while vain[before][0] < joined:
            blocked = max(blocked, vain[before][1])
            before += 1
            if direct:
                joined = max(joined, blocked)
        if max(joined, free, begun, blocked) >= back or joined >= rival:
            return back
        free = unit.ended[0]
    return units.misfit


def _part(calls: Calls, rows: Ints, position: int) -> Ints:
    """Return a small part of ``rows``, the calls of the key, that is wrong at ``position``."""
    seen = rows[calls.invoked[rows] < position]
    units = _units(calls, seen)
    if units.misfit == position:
        return np.array(units.around)
    near = NEAR
    while True:
        part = [row for unit in units.found if unit.ended[1] > position - near for row in unit.rows]
        chosen = np.array(sorted(part), dtype=np.int64)
        if near > position or _lost(_units(calls, chosen)) == position:
            return chosen
        near *= 2
