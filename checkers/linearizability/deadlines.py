"""Locks without an owner, decided in O(n log n): the mutex that anybody may release, and the semaphore.

Only the number of permits taken matters, so that calls of one function differ in nothing but their windows, and a
known call's return is its deadline. The rule is Jackson's, earliest due date first, for jobs that arrive over time
(J. R. Jackson, "Scheduling a production line to minimize maximum tardiness", UCLA 1955; W. A. Horn, "Some simple
scheduling algorithms", Naval Research Logistics Quarterly 21, 1974); to test a history by it is in the spirit of
P. B. Gibbons and E. Korach, "Testing shared memories", SIAM Journal on Computing 26, 1997.

**The algorithm.** Nothing is put into the order before it must be: at the return of a known call that is not in it
yet. If the call is an acquire and a permit is free, or a release and one is taken, it is appended. Otherwise one call
of the other function is appended before it: of those pending (invoked, and not in the order) the one whose return is
the earliest; calls of unknown outcome, which have no deadline, come last. If none is pending there is no order.

**It loses nothing.** Let L be the order so far. Claim: at any time, if the history has an order, it has one that
begins with L. True of the empty L. Let c return now, without a place in L, and let S be an order that begins with L,
goes on with x1 ... xk, c, and then with the rest. Each xi is pending now, since what has returned is in L: it may
stand anywhere from here on, up to its own return. Say that c is an acquire (for a release exchange the words and count
free permits). If some xi is an acquire, exchange c with the first of them: both move within their windows, and the
numbers of permits stay. So x1 ... xk are releases.

- A permit is free after L. Then L, c, x1 ... xk is an order too: c takes the free one, and every number after it is
  one higher than the same xi had left, and no higher than right after c. So S may go on with c.
- None is free after L. Then k > 0, and L, x1, c, x2 ... xk is an order: its numbers are p - 1, p, p - 1 and so on down
  for p permits. The algorithm appends y, whose deadline is not later than that of x1. If y stands in S, exchange it
  with x1, which moves to where y stood: before y's deadline, so before its own. If y is not in S, its outcome is
  unknown; so it has no deadline, hence x1 has none, is of unknown outcome too, and may be left out in favour of y.
  So S may go on with y, c. If no release is pending, there is no x1, and no S.

At the end every known call is in L, so L is an order. The entry at which the algorithm stops is the first one up to
which the history has none: the argument holds for its beginnings, in which calls that have not returned are unknown.

**The part that shows it.** Let q be a moment at which d more known acquires than known releases have returned, and
0 <= d <= p. Of what has returned by q leave out all but d acquires. If the history has an order S, so has the part.
Let X be the calls that S has before q and that have not returned by then: S leaves d + (acquires - releases of X)
permits taken at q, a number between 0 and p. The d acquires fit before their returns, one after the other. X may stand
at q, in some order: from a number between 0 and p to another one, take when a permit is free and an acquire is left,
else give back (with none free, the end not above p says that a release is left if an acquire is; with no acquire left,
the numbers fall to the end, which is not below 0). Then S goes on as before. So a part that is wrong proves the whole
wrong, whatever calls of unknown outcome did. Not every q gives a wrong part of a wrong history, because calls of
unknown outcome that were needed before q can be used again after it; so we go back, twice as far each time, until the
algorithm finds the part wrong too. The beginning of the history is such a q, with nothing left out.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from checkers.linearizability.problem import Failure, Outcome
from checkers.models import ACQUIRE, Mutex, Semaphore
from harness.compiled import compiled
from harness.history.calls import NEVER, Calls, Codes, Ints, Marks

TAKE, GIVE, OTHER = 0, 1, -1


def check(calls: Calls, model: Mutex | Semaphore) -> Outcome:
    """Every key of ``calls`` decided. The rows of a failure are those of the part described above; calls in it that
    return after its position count as unknown."""
    permits = model.permits if isinstance(model, Semaphore) else 1
    sides = _sides(calls, model)
    lost = _lost(calls.key, sides, calls.known, calls.invoked, calls.returned, len(calls.keys), permits)
    wrong = np.flatnonzero(lost != NEVER)
    if not len(wrong):
        return Outcome()
    order = np.argsort(calls.key, kind="stable")
    ends = np.searchsorted(calls.key[order], wrong, side="right")
    begins = np.searchsorted(calls.key[order], wrong, side="left")
    failures = []
    for key, begin, end in zip(wrong.tolist(), begins.tolist(), ends.tolist(), strict=True):
        rows = order[begin:end]
        rows = rows[(sides[rows] != OTHER) & (calls.invoked[rows] < lost[key])]
        part = _part(calls, rows, sides, permits, int(lost[key]))
        failures.append(Failure(key, int(lost[key]), tuple(part.tolist())))
    return Outcome(tuple(failures))


def _sides(calls: Calls, model: Mutex | Semaphore) -> Marks:
    """What each call is, by row: TAKE, GIVE or OTHER."""
    table = [TAKE if f in ACQUIRE else GIVE if f in model.fs else OTHER for f in calls.fs]
    sides: Marks = np.array(table or [OTHER], dtype=np.int8)[calls.f]
    return sides


@compiled
def _lost(
    key: Codes, sides: Marks, known: Marks, invoked: Ints, returned: Ints, keys: int, permits: int
) -> Ints:  # pragma: no cover - machine code
    """The entry at which the last order of each key is lost, or NEVER.

    ``pending`` has a heap for each key and side: the returns of its known calls that are not in the order yet. The
    one that returns next is at the top of one of the two, and calls leave at the top only. ``spare`` counts those of
    unknown outcome.
    """
    room = np.zeros(2 * keys + 1, dtype=np.int64)
    for row in range(len(key)):
        if known[row] and sides[row] >= 0:
            room[2 * int(key[row]) + int(sides[row]) + 1] += 1
    start = np.cumsum(room)
    pending = np.empty(start[-1], dtype=np.int64)
    size, spare = np.zeros(2 * keys, dtype=np.int64), np.zeros(2 * keys, dtype=np.int64)
    taken, lost = np.zeros(keys, dtype=np.int64), np.full(keys, NEVER, dtype=np.int64)
    for row in range(len(key)):
        this = int(key[row])
        if sides[row] < 0 or lost[this] != NEVER:
            continue
        lost[this] = _advance(this, invoked[row], permits, pending, start, size, spare, taken)
        slot = 2 * this + int(sides[row])
        if known[row]:
            _push(pending, start[slot], size[slot], returned[row])
            size[slot] += 1
        else:
            spare[slot] += 1
    for this in range(keys):
        if lost[this] == NEVER:
            lost[this] = _advance(this, NEVER, permits, pending, start, size, spare, taken)
    return lost


@compiled
def _advance(
    key: int, until: int, permits: int, pending: Ints, start: Ints, size: Ints, spare: Ints, taken: Ints
) -> int:  # pragma: no cover - machine code
    """All returns of ``key`` before ``until``, in order; the one that has no place, or NEVER."""
    take, give = 2 * key, 2 * key + 1
    while True:
        first = pending[start[take]] if size[take] else NEVER
        second = pending[start[give]] if size[give] else NEVER
        now = min(first, second)
        if now >= until:
            return NEVER
        due, other = (take, give) if first < second else (give, take)
        _pop(pending, start[due], size[due])
        size[due] -= 1
        if taken[key] != (permits if due == take else 0):
            taken[key] += 1 if due == take else -1
        elif size[other]:
            _pop(pending, start[other], size[other])
            size[other] -= 1
        elif spare[other]:
            spare[other] -= 1
        else:
            return now


@compiled
def _push(heap: Ints, start: int, size: int, value: int) -> None:  # pragma: no cover - machine code
    """Add to the binary heap of ``size`` numbers that begins at ``start``; the least is on top."""
    at = size
    while at > 0 and heap[start + (at - 1) // 2] > value:
        heap[start + at] = heap[start + (at - 1) // 2]
        at = (at - 1) // 2
    heap[start + at] = value


@compiled
def _pop(heap: Ints, start: int, size: int) -> None:  # pragma: no cover - machine code
    """Take away the top."""
    value, at, size = heap[start + size - 1], 0, size - 1
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap[start + child + 1] < heap[start + child]:
            child += 1
        if heap[start + child] >= value:
            break
        heap[start + at] = heap[start + child]
        at = child
    heap[start + at] = value


def _part(calls: Calls, rows: Ints, sides: Marks, permits: int, position: int) -> Ints:
    """A small part of ``rows`` (all calls of the key invoked before ``position``) that is wrong there."""
    back = 0
    while True:
        part, whole = cut(calls, rows, sides, permits, position, back)
        zeros = np.zeros(len(part), dtype=np.int32)
        columns = sides[part], calls.known[part], calls.invoked[part], calls.returned[part]
        if whole or _lost(zeros, *columns, 1, permits)[0] == position:
            return part
        back = 2 * back + 1


def cut(calls: Calls, rows: Ints, sides: Marks, permits: int, position: int, back: int) -> tuple[Ints, bool]:
    """The part of ``rows`` that begins after the last suitable return that is at least ``back`` returns before
    ``position``, and whether it is all of them."""
    over = rows[calls.returned[rows] < position]
    over = over[np.argsort(calls.returned[over], kind="stable")]  # which is quick, as they almost are in order
    taken = np.concatenate(([0], np.cumsum(1 - 2 * sides[over].astype(np.int64))))
    suitable = np.flatnonzero((taken >= 0) & (taken <= permits))
    chosen = int(suitable[np.searchsorted(suitable, max(0, len(over) - back), side="right") - 1])
    gone = np.zeros(len(calls), dtype=np.bool_)
    gone[over[:chosen]] = True
    gone[_holders(calls, over[:chosen], sides, int(taken[chosen]))] = False
    return rows[~gone[rows]], chosen == 0


def _holders(calls: Calls, over: Ints, sides: Marks, wanted: int) -> list[int]:
    """Acquires that stay: the latest that their own clients have not given back, as far as there are such."""
    kept: list[int] = []
    given: Counter[int] = Counter()
    others: list[int] = []
    for row in over[::-1]:
        if len(kept) == wanted:
            break
        client = calls.client[row]
        if sides[row] == GIVE:
            given[client] += 1
        elif given[client]:
            given[client] -= 1
            others.append(row)
        else:
            kept.append(row)
    return kept + others[: wanted - len(kept)]
