"""The arrays of the general search, and what fills them before it begins. Calls, operations and states are numbers.

``reg``     int64: the numbers below.
``fixed``   int32, (FIXED, calls + 1): what does not change. By call: its operation, kind, bit, and which call precedes
            it in the list of pending calls when it comes. By return: the call that returns, and how many calls had been
            invoked by then. By group of MAY calls of one operation: the operation and where the group begins; and the
            calls of all groups.
``live``    int32, (LIVE, calls + 1): the list of pending calls, by return (linked both ways; its head is at the number
            of calls); which calls are linearized; the order with the state and the number of returns at each place;
            the longest order so far with its states; how many of each group are linearized; and the stack of
            configurations, each with its place in the order, returns, state, the move it is at, and whether it is
            barred from CONSTANT operations.
``words``   int64: which pending calls are linearized, a bit each: first MUST calls, by slot, then, in words of their
            own, whether the configuration is barred (if there are CONSTANT operations), and MAY and LOOSE calls.
``marks``   int64, by operation: when it was last seen among the pending calls (see ``_candidate``).
``nature``  int8, by operation: whether it is known never to change the state (STILL), or to lead from every state to
            the same one (CONSTANT).
``cells``   int32: the table, state by state, if it is whole; otherwise ``keys`` and ``cells`` are an open-addressing
            hash table of what has been asked.
``slots``, ``entries``, ``chain``: the configurations seen: a hash table with chains. An entry has returns and state in
            one number, then the words.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from checkers.linearizability.problem import LOOSE, MAY, MUST
from harness.compiled import compiled
from harness.history.calls import Codes, Ints

CALLS, RETURNS, OPERATIONS, GROUPS, FIRM, WHOLE = range(6)
"""Of ``reg``: how many there are; ``FIRM`` words are of MUST calls; ``WHOLE``: the table is whole."""
PHASE, DEPTH, LENGTH, LEVEL, STATE, STAMP, BEST_LEVEL, BEST_LENGTH, SAME, FRESH = range(6, 16)
"""Of ``reg``: what to do next; the stack's height; the order's length; returns passed; state; a counter; the most
returns passed and the length of the order that did; how much of that is still the order's beginning; whether it is yet
to be copied."""
STORED, TRIED, FULL, ASKED, ABOUT, BARRED, BARS = range(16, 23)
"""Of ``reg``: configurations stored and tried; whether no more can be stored; the state and operation that the table
lacks; whether this configuration is barred, and whether any may be."""
REG: Final = 23

OPERATION, KIND, BIT, BEFORE, RETURNING, INVOKED, GROUP, GROUP_AT, GROUPED = range(9)
FIXED: Final = 9
NEXT, PREVIOUS, DONE, ORDER, STATES, LEVELS, BEST, BEST_STATES, USED = range(9)
AT_LENGTH, AT_LEVEL, AT_STATE, AT_MOVE, AT_BARRED = range(9, 14)
LIVE: Final = 14

STILL, CONSTANT = 1, 2


@compiled
def prepare(invoked: Ints, returned: Ints, by_return: Ints, reg: Ints, fixed: Codes, live: Codes) -> int:
    """Fill what does not change, and put the calls that are pending at the first return into the list. Gives back how
    many words say which calls are linearized."""
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


@compiled
def _levels(invoked: Ints, returned: Ints, by_return: Ints, fixed: Codes) -> None:
    n, seen = len(invoked), 0
    for level, call in enumerate(by_return):
        while seen < n and invoked[seen] < returned[call]:
            seen += 1
        fixed[RETURNING, level], fixed[INVOKED, level] = call, seen
    fixed[INVOKED, len(by_return)] = n


@compiled
def _slots(n: int, returns: int, reg: Ints, fixed: Codes) -> int:
    """A MUST call takes a free slot at its invocation and gives it back at its return; so do LOOSE calls, among slots
    of their own, which begin where the MAY calls, with one bit each for ever, end."""
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


@compiled
def _list_order(n: int, returns: int, fixed: Codes, live: Codes) -> None:
    """Which call precedes each in the list by return when it comes: found by going backwards in time, where a call
    enters at its return, as the one that returns first, and leaves at its invocation."""
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


@compiled
def _groups(n: int, reg: Ints, fixed: Codes) -> None:
    """The MAY calls by operation, each group in the order of invocation."""
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


@compiled
def enter(call: int, fixed: Codes, live: Codes) -> None:
    """``call`` has been invoked: it is pending from now on."""
    if fixed[KIND, call] != MAY:
        before = fixed[BEFORE, call]
        after = live[NEXT, before]
        live[PREVIOUS, call], live[NEXT, call] = before, after
        live[NEXT, before] = live[PREVIOUS, after] = call


@compiled
def rehash(slots: Codes, entries: Ints, chain: Codes, count: int, key: int) -> None:
    """Put the first ``count`` entries into ``slots``, which are empty (-1); ``key`` numbers of each are hashed."""
    for entry in range(count):
        at = _hash(entries[entry], key) & (len(slots) - 1)
        chain[entry] = slots[at]
        slots[at] = entry


@compiled
def put(keys: Ints, cells: Codes, key: int, after: int) -> None:
    """Add a cell to the hash table of those asked."""
    at = spread(key) & (len(keys) - 1)
    while keys[at] >= 0:
        at = (at + 1) & (len(keys) - 1)
    keys[at], cells[at] = key, after


@compiled
def spread(number: int) -> int:
    number = number * 0x2545F4914F6CDD1D
    return number ^ (number >> 29) ^ (number >> 47)


@compiled
def _hash(entry: Ints, key: int) -> int:
    mixed = 0
    for i in range(key):
        mixed = spread(mixed ^ entry[i])
    return mixed
