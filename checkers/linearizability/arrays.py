"""The arrays of the general search, and the code that fills them before it begins.

Calls, operations and states are numbers.

``reg``     int64: the numbers that are named below.
``fixed``   int32, (FIXED, calls + 1): data that does not change. By call: its operation, kind and bit, and the call
            that precedes it in the list of pending calls when it is invoked. By return: the call that returns, and the
            number of calls invoked by then. By group of MAY calls of one operation: the operation, and where the group
            begins. Finally the calls of all groups.
``live``    int32, (LIVE, calls + 1): the list of pending calls, by return (linked both ways; its head is at the number
            of calls); which calls are linearized; the order, with the state and the number of returns at each place;
            the longest order so far, with its states; the number of linearized calls in each group; and the stack of
            configurations, each with its place in the order, its returns, its state, its current move, and whether it
            is barred from CONSTANT operations.
``words``   int64: which pending calls are linearized, one bit each. First come MUST calls, by slot; then, in words of
            their own, the bit that says whether the configuration is barred (if there are CONSTANT operations), and MAY
            and LOOSE calls.
``marks``   int64, by operation: when it was last seen among the pending calls (see ``_candidate``).
``nature``  int8, by operation: STILL if it is known never to change the state, CONSTANT if it is known to lead from
            every state to the same one.
``cells``   int32: the table, state by state, if it is whole. Otherwise ``keys`` and ``cells`` are an open-addressing
            hash table of the cells computed so far.
``slots``, ``entries``, ``chain``: the configurations seen: a hash table with chains. An entry has the returns and the
            state in one number, then the words.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from harness.history.calls import Codes, Ints
from harness.history.compiled import compilable

from .problem import LOOSE, MAY, MUST

CALLS, RETURNS, OPERATIONS, GROUPS, FIRM, WHOLE = range(6)
"""Places in ``reg``: numbers of calls, returns, operations and groups; ``FIRM``: the number of words for MUST calls;
``WHOLE``: whether the table is whole."""
PHASE, DEPTH, LENGTH, LEVEL, STATE, STAMP, BEST_LEVEL, BEST_LENGTH, SAME, FRESH = range(6, 16)
"""Places in ``reg``: what the loop does next; the height of the stack; the length of the order; the number of returns
passed; the state; a counter of scans; the most returns passed, and the length of the order that passed them; how many
places of that longest order still begin the current order; and whether the longest order has yet to be copied."""
STORED, TRIED, FULL, ASKED, ABOUT, BARRED, BARS, MOST = range(16, 24)
"""Places in ``reg``: the numbers of configurations stored and tried; whether no more can be stored; the state and the
operation whose cell is missing in the table; whether this configuration is barred; whether any configuration may be;
and the number of configurations that may be tried."""
REG: Final = 24

OPERATION, KIND, BIT, BEFORE, RETURNING, INVOKED, GROUP, GROUP_AT, GROUPED = range(9)
FIXED: Final = 9
NEXT, PREVIOUS, DONE, ORDER, STATES, LEVELS, BEST, BEST_STATES, USED = range(9)
AT_LENGTH, AT_LEVEL, AT_STATE, AT_MOVE, AT_BARRED = range(9, 14)
LIVE: Final = 14

STILL, CONSTANT = 1, 2


@compilable
def prepare(invoked: Ints, returned: Ints, by_return: Ints, reg: Ints, fixed: Codes, live: Codes) -> int:
    """Fill in the data that does not change, and list the calls that are pending at the first return.

    Returns the number of words that say which calls are linearized.
    """
    n, returns = len(invoked), len(by_return)
    reg[CALLS], reg[RETURNS] = n, returns
    _levels(invoked, returned, by_return, fixed)
    width = _slots(n, returns, reg, fixed)
    _list_order(n, returns, fixed, live)
    _groups(n, reg, fixed)
    live[NEXT, n] = live[PREVIOUS, n] = n
    for call in range(fixed[INVOKED, 0] if returns else 0):
        enter(call, fixed, live)
    return width


@compilable
def _levels(invoked: Ints, returned: Ints, by_return: Ints, fixed: Codes) -> None:
    n, seen = len(invoked), 0
    for level, call in enumerate(by_return):
        while seen < n and invoked[seen] < returned[call]:
            seen += 1
        fixed[RETURNING, level], fixed[INVOKED, level] = call, seen
    fixed[INVOKED, len(by_return)] = n


@compilable
def _slots(n: int, returns: int, reg: Ints, fixed: Codes) -> int:
    """Assign a slot to each MUST and each LOOSE call.

    A call takes a free slot at its invocation and gives it back at its return. The slots of LOOSE calls begin after the
    bits of the MAY calls; each MAY call has a bit of its own for ever.
    """
    free = np.empty((2, n + 1), np.int32)
    count, width = np.zeros(2, np.int64), np.zeros(2, np.int64)
    may = 0
    for call in range(n):
        may += fixed[KIND, call] == MAY
    width[1], nth, seen = may + reg[BARS], reg[BARS], 0
    for level in range(returns + 1):
        for call in range(seen, fixed[INVOKED, level]):
            kind = fixed[KIND, call]
            if kind == MAY:
                fixed[BIT, call] = nth
                nth += 1
                continue
            of = 1 if kind == LOOSE else 0
            if count[of]:
                count[of] -= 1
                fixed[BIT, call] = free[of, count[of]]
            else:
                fixed[BIT, call] = width[of]
                width[of] += 1
        seen = fixed[INVOKED, level]
        if level < returns:
            call = fixed[RETURNING, level]
            of = 1 if fixed[KIND, call] == LOOSE else 0
            free[of, count[of]] = fixed[BIT, call]
            count[of] += 1
    reg[FIRM] = (width[0] + 63) >> 6
    for call in range(n):
        if fixed[KIND, call] != MUST:
            fixed[BIT, call] += reg[FIRM] << 6
    return int(reg[FIRM] + ((width[1] + 63) >> 6))


@compilable
def _list_order(n: int, returns: int, fixed: Codes, live: Codes) -> None:
    """Find the call that precedes each call in the list of pending calls when it is invoked.

    The list is sorted by return. Going backwards in time, a call enters at its return, as the first of the list, and
    leaves at its invocation.
    """
    after, before = live[NEXT], live[PREVIOUS]
    after[n] = before[n] = n
    last = n
    for level in range(returns, -1, -1):
        first = fixed[INVOKED, level - 1] if level else 0
        if level < returns:
            call = fixed[RETURNING, level]
            after[call], before[call] = after[n], n
            before[after[n]] = call
            after[n] = call
        for call in range(last - 1, first - 1, -1):
            if fixed[KIND, call] != MAY:
                fixed[BEFORE, call] = before[call]
                after[before[call]], before[after[call]] = after[call], before[call]
        last = first


@compilable
def _groups(n: int, reg: Ints, fixed: Codes) -> None:
    """Group the MAY calls by operation, each group in the order of invocation."""
    count = np.zeros(reg[OPERATIONS] + 1, np.int32)
    for call in range(n):
        count[fixed[OPERATION, call]] += fixed[KIND, call] == MAY
    groups = at = 0
    for operation in range(reg[OPERATIONS]):
        if count[operation]:
            fixed[GROUP, groups], fixed[GROUP_AT, groups] = operation, at
            at += count[operation]
            count[operation] = fixed[GROUP_AT, groups]
            groups += 1
    fixed[GROUP_AT, groups] = at
    for call in range(n):
        if fixed[KIND, call] == MAY:
            operation = fixed[OPERATION, call]
            fixed[GROUPED, count[operation]] = call
            count[operation] += 1
    reg[GROUPS] = groups


@compilable
def enter(call: int, fixed: Codes, live: Codes) -> None:
    """Add ``call``, which has just been invoked, to the list of pending calls."""
    if fixed[KIND, call] != MAY:
        before = fixed[BEFORE, call]
        after = live[NEXT, before]
        live[PREVIOUS, call], live[NEXT, call] = before, after
        live[NEXT, before] = live[PREVIOUS, after] = call


@compilable
def rehash(slots: Codes, entries: Ints, chain: Codes, count: int, key: int) -> None:
    """Put the first ``count`` entries into the empty (-1) ``slots``; the hash covers ``key`` numbers of each entry."""
    for entry in range(count):
        at = _hash(entries[entry], key) & (len(slots) - 1)
        chain[entry] = slots[at]
        slots[at] = entry


@compilable
def put(keys: Ints, cells: Codes, key: int, after: int) -> None:
    """Add a cell to the hash table of computed cells."""
    at = spread(key) & (len(keys) - 1)
    while keys[at] >= 0:
        at = (at + 1) & (len(keys) - 1)
    keys[at], cells[at] = key, after


@compilable
def spread(number: int) -> int:
    number = number * 0x2545F4914F6CDD1D
    return number ^ (number >> 29) ^ (number >> 47)


@compilable
def _hash(entry: Ints, key: int) -> int:
    mixed = 0
    for i in range(key):
        mixed = spread(mixed ^ entry[i])
    return mixed
