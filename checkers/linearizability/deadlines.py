"""Check locks without an owner in O(n log n): the mutex that any client may release, and the semaphore.

Only the number of taken permits matters for these locks. So calls of one function differ only in their windows, and the
return of a known call is its deadline. The rule is Jackson's for jobs that arrive over time, earliest due date first
(J. R. Jackson, "Scheduling a production line to minimize maximum tardiness", UCLA 1955; W. A. Horn, "Some simple
scheduling algorithms", Naval Research Logistics Quarterly 21, 1974). Using it to test a history follows the spirit of
P. B. Gibbons and E. Korach, "Testing shared memories", SIAM Journal on Computing 26, 1997.

**The algorithm.** It appends a call to the order only when it must: at the return of a known call that is not in the
order yet. If the call is an acquire and a permit is free, or a release and a permit is taken, the algorithm appends it.
Otherwise it first appends one call of the other function: of the pending ones (invoked, and not in the order), the one
with the earliest return. Calls of unknown outcome have no deadline and come last. If no such call is pending, there is
no order.

**Why it finds an order if there is one.** Let L be the order so far. Claim: at any time, if the history has an order,
it has one that begins with L. This is true of the empty L. Now let c return without a place in L, and let S be an order
that begins with L, goes on with x1 ... xk, c, and then with the rest. Each xi is pending now, since all known calls
that have returned are in L. So each xi may stand anywhere from here up to its own return. Let c be an acquire (for a
release, exchange the two words and count free permits). If some xi is an acquire, exchange c with the first such xi:
both stay within their windows, and the numbers of permits do not change. So we may assume that x1 ... xk are releases.

- If a permit is free after L, then L, c, x1 ... xk is an order too. c takes the free permit; each number after it is
  one higher than the number that the same xi left before, and no higher than the number right after c. So S may go on
  with c.
- If no permit is free after L, then k > 0, and L, x1, c, x2 ... xk is an order: with p permits, its numbers are p - 1,
  p, p - 1 and so on downwards. The algorithm appends y, whose deadline is not later than that of x1. If y is in S,
  exchange it with x1. Then x1 moves to where y was, which is before the deadline of y, thus before its own. If y is not
  in S, its outcome is unknown, so it has no deadline. Then x1 has no deadline either, its outcome is unknown too, and y
  can replace it. So S may go on with y, c. If no release is pending, there is no x1, hence no S.

At the end every known call is in L, so L is an order. The entry at which the algorithm stops is the first one up to
which the history has no order: the same argument holds for each beginning of the history, in which calls that have not
returned are unknown.

**The part that proves it.** Let q be a moment by which d more known acquires than known releases have returned, where 0
<= d <= p. Of the calls that have returned by q, leave out all but d acquires. If the history has an order S, this part
has one too. Proof: let X be the calls that S places before q and that have not returned by q. At q, S leaves d +
(acquires - releases of X) permits taken, a number between 0 and p. The d acquires fit before their returns, one after
the other. The calls of X fit at q in some order that leads from one number between 0 and p to another: acquire while a
permit is free and an acquire is left, otherwise release. (If no permit is free and an acquire is left, a release is
left too, since the final number is not above p. If no acquire is left, the numbers fall to the final number, which is
not below 0.) Then S goes on as before. So if the part is wrong, the whole history is wrong, whatever calls of unknown
outcome did. Not every q gives a wrong part of a wrong history: a call of unknown outcome that was needed before q can
be used again after q. So we go back, twice as far each time, until the algorithm finds the part wrong too. The
beginning of the history is such a q, with nothing left out.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from harness.checkers.models import ACQUIRE, Mutex, Semaphore
from harness.history.calls import NEVER, Calls, Codes, Ints, Marks
from harness.history.compiled import compilable, fastest

from .problem import ProvedImpossible, QuickResult

TAKE, GIVE, OTHER = 0, 1, -1


def check(calls: Calls, model: Mutex | Semaphore) -> QuickResult:
    """Decide every key of ``calls``.

    The rows of a failure are those of the part that the module docstring describes. Calls in it that return after the
    failure's position count as unknown.
    """
    permits = model.permits if isinstance(model, Semaphore) else 1
    sides = _sides(calls, model)
    first_wrong = fastest(_lost, rows=len(calls))
    lost = first_wrong(calls.key, sides, calls.known, calls.invoked, calls.returned, len(calls.keys), permits)
    wrong = np.flatnonzero(lost != NEVER)
    if not len(wrong):
        return QuickResult()
    order = np.argsort(calls.key, kind="stable")
    ends = np.searchsorted(calls.key[order], wrong, side="right")
    begins = np.searchsorted(calls.key[order], wrong, side="left")
    failures = []
    for key, begin, end in zip(wrong.tolist(), begins.tolist(), ends.tolist(), strict=True):
        rows = order[begin:end]
        rows = rows[(sides[rows] != OTHER) & (calls.invoked[rows] < lost[key])]
        part = _part(calls, rows, sides, permits, int(lost[key]))
        failures.append(ProvedImpossible(key, int(lost[key]), tuple(part.tolist())))
    return QuickResult(tuple(failures))


def _sides(calls: Calls, model: Mutex | Semaphore) -> Marks:
    """Return the kind of each call: TAKE, GIVE or OTHER."""
    table = [TAKE if f in ACQUIRE else GIVE if f in model.fs else OTHER for f in calls.fs]
    sides: Marks = np.array(table or [OTHER], dtype=np.int8)[calls.f]
    return sides


@compilable
def _lost(
    key: Codes, sides: Marks, known: Marks, invoked: Ints, returned: Ints, keys: int, permits: int
) -> Ints:  # pragma: no cover - machine code
    """Return the entry at which the last order of each key is lost, or NEVER.

    ``pending`` has one heap for each key and side: the returns of its known calls that are not in the order yet. The
    call that returns next is at the top of one of the two heaps, and calls are only removed from the top. ``spare``
    counts the pending calls of unknown outcome.
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


@compilable
def _advance(
    key: int, until: int, permits: int, pending: Ints, start: Ints, size: Ints, spare: Ints, taken: Ints
) -> int:  # pragma: no cover - machine code
    """Process all returns of ``key`` before ``until``, in order; return the first without a place, or NEVER."""
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


@compilable
def _push(heap: Ints, start: int, size: int, value: int) -> None:  # pragma: no cover - machine code
    """Add a number to the binary heap of ``size`` numbers that begins at ``start``; the smallest is at the top."""
    at = size
    while at > 0 and heap[start + (at - 1) // 2] > value:
        heap[start + at] = heap[start + (at - 1) // 2]
        at = (at - 1) // 2
    heap[start + at] = value


@compilable
def _pop(heap: Ints, start: int, size: int) -> None:  # pragma: no cover - machine code
    """Remove the number at the top."""
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
    """Return a small part of ``rows`` (all calls of the key invoked before ``position``) that is wrong at
    ``position``."""
    back = 0
    while True:
        part, whole = cut(calls, rows, sides, permits, position, back)
        zeros = np.zeros(len(part), dtype=np.int32)
        columns = sides[part], calls.known[part], calls.invoked[part], calls.returned[part]
        first_wrong = fastest(_lost, rows=len(part))
        if whole or first_wrong(zeros, *columns, 1, permits)[0] == position:
            return part
        back = 2 * back + 1


def cut(calls: Calls, rows: Ints, sides: Marks, permits: int, position: int, back: int) -> tuple[Ints, bool]:
    """Return the part of ``rows`` after the last suitable return that is at least ``back`` returns before ``position``.

    The second value says whether the part is all of them.
    """
    over = rows[calls.returned[rows] < position]
    over = over[np.argsort(calls.returned[over], kind="stable")]  # fast, since they are almost in order
    taken = np.concatenate(([0], np.cumsum(1 - 2 * sides[over].astype(np.int64))))
    suitable = np.flatnonzero((taken >= 0) & (taken <= permits))
    chosen = int(suitable[np.searchsorted(suitable, max(0, len(over) - back), side="right") - 1])
    gone = np.zeros(len(calls), dtype=np.bool_)
    gone[over[:chosen]] = True
    gone[_holders(calls, over[:chosen], sides, int(taken[chosen]))] = False
    return rows[~gone[rows]], chosen == 0


def _holders(calls: Calls, over: Ints, sides: Marks, wanted: int) -> list[int]:
    """Return the acquires that stay: the latest ones that their own clients have not released, as far as there are
    such."""
    rows_left: list[int] = []
    given: Counter[int] = Counter()
    others: list[int] = []
    for row in over[::-1]:
        if len(rows_left) == wanted:
            break
        client = calls.client[row]
        if sides[row] == GIVE:
            given[client] += 1
        elif given[client]:
            given[client] -= 1
            others.append(row)
        else:
            rows_left.append(row)
    return rows_left + others[: wanted - len(rows_left)]
