"""The loop of the general search (:mod:`checkers.linearizability.search` says what it does and why that is right).

Everything the loop knows lies in arrays, so that it can stop anywhere, be given a row of the model's table, more memory
or a look at the clock, and go on. Calls, operations and states are numbers.

``reg``     int64: the numbers below.
``fixed``   int32, (FIXED, calls + 1): what does not change. By call: its operation, kind, bit, and which call precedes
            it in the list of pending calls when it comes. By return: the call that returns, and how many calls had been
            invoked by then. By group of MAY calls of one operation: the operation and where the group begins; and the
            calls of all groups.
``live``    int32, (LIVE, calls + 1): the list of pending calls, by return (linked both ways; its head is at the number
            of calls); which calls are linearized; the order with the state and the number of returns at each place;
            the longest order so far with its states; how many of each group are linearized; and the stack of
            configurations, each with its place in the order, returns, state, and the move it is at.
``words``   int64: which pending calls are linearized, a bit each: first MUST calls, by slot, then MAY and LOOSE ones.
``marks``   int64, by operation: when it was last seen among the pending calls (see ``_candidate``).
``still``   int8, by operation: whether it is known never to change the state.
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
from harness.history.calls import Codes, Ints, Marks

CALLS, RETURNS, OPERATIONS, GROUPS, FIRM, WHOLE = range(6)
"""Of ``reg``: how many there are; ``FIRM`` words are of MUST calls; ``WHOLE``: the table is whole."""
PHASE, DEPTH, LENGTH, LEVEL, STATE, STAMP, BEST_LEVEL, BEST_LENGTH, SAME, FRESH, STORED, TRIED, FULL, ASKED, ABOUT = (
    range(6, 21)
)
"""Of ``reg``: what to do next; the stack's height; the order's length; returns passed; state; a counter; the most
returns passed and the order that did; how much of it is still the order's beginning; whether it is yet to be copied;
configurations stored and tried; whether no more can be; the state and operation that the table lacks."""
REG: Final = 21

OPERATION, KIND, BIT, BEFORE, RETURNING, INVOKED, GROUP, GROUP_AT, GROUPED = range(9)
FIXED: Final = 9
NEXT, PREVIOUS, DONE, ORDER, STATES, LEVELS, BEST, BEST_STATES, USED, AT_LENGTH, AT_LEVEL, AT_STATE, AT_MOVE = range(13)
LIVE: Final = 13

MOVE, SETTLE, VISIT = range(3)
VALID, INVALID, ASK, GROW, SLICE = range(5)
"""Why the loop stopped: found an order; there is none; the table lacks a cell; no room for configurations; so many
steps were made."""
INCONSISTENT: Final = -1
UNKNOWN: Final = -2
FIRST: Final = -1
DROP: Final = -2


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
        _enter(call, fixed, live)
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
    width[1], nth, seen = may, 0, 0
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
def rehash(slots: Codes, entries: Ints, chain: Codes, count: int, key: int) -> None:
    """Put the first ``count`` entries into ``slots``, which are empty (-1); ``key`` numbers of each are hashed."""
    for entry in range(count):
        at = _hash(entries[entry], key) & (len(slots) - 1)
        chain[entry] = slots[at]
        slots[at] = entry


@compiled
def explore(
    reg: Ints,
    fixed: Codes,
    live: Codes,
    words: Ints,
    marks: Ints,
    still: Marks,
    keys: Ints,
    cells: Codes,
    slots: Codes,
    entries: Ints,
    chain: Codes,
    steps: int,
) -> int:
    """Go on for so many steps; gives back why it stopped."""
    for _ in range(steps):
        if reg[PHASE] == MOVE:
            call, after = _candidate(reg, fixed, live, marks, keys, cells)
            if after == UNKNOWN:
                _keep(reg, live)
                return ASK
            if call == FIRST:
                reg[DEPTH] -= 1
                if reg[DEPTH] == 0:
                    _keep(reg, live)
                    return INVALID
                _undo(reg, fixed, live, words)
                continue
            if call == DROP:
                _advance(reg, fixed, live, words)
            else:
                _linearize(call, after, reg, fixed, live, words)
            reg[PHASE] = SETTLE
        if reg[PHASE] == SETTLE:
            if not _settle(reg, fixed, live, words, still, keys, cells):
                _keep(reg, live)
                return ASK
            reg[PHASE] = VISIT
            reg[TRIED] += 1
        if reg[LEVEL] > reg[BEST_LEVEL]:
            reg[BEST_LEVEL], reg[FRESH] = reg[LEVEL], 1
        if reg[LEVEL] == reg[RETURNS]:
            return VALID
        found = _seen(reg, words, slots, entries, chain)
        if found == GROW:
            return GROW
        if found:
            _undo(reg, fixed, live, words)
        else:
            _push(reg, live)
        reg[PHASE] = MOVE
    _keep(reg, live)
    return SLICE


@compiled
def _look(state: int, operation: int, reg: Ints, keys: Ints, cells: Codes) -> int:
    """The state after, INCONSISTENT, or UNKNOWN."""
    if reg[WHOLE]:
        return int(cells[state * reg[OPERATIONS] + operation])
    key = (state << 32) | operation
    at = _spread(key) & (len(keys) - 1)
    while keys[at] != key:
        if keys[at] < 0:
            reg[ASKED], reg[ABOUT] = state, operation
            return UNKNOWN
        at = (at + 1) & (len(keys) - 1)
    return int(cells[at])


@compiled
def put(keys: Ints, cells: Codes, key: int, after: int) -> None:
    """Add a cell to the hash table of those asked."""
    at = _spread(key) & (len(keys) - 1)
    while keys[at] >= 0:
        at = (at + 1) & (len(keys) - 1)
    keys[at], cells[at] = key, after


@compiled
def _spread(number: int) -> int:
    number = number * 0x2545F4914F6CDD1D
    return number ^ (number >> 29) ^ (number >> 47)


@compiled
def _hash(entry: Ints, key: int) -> int:
    mixed = 0
    for i in range(key):
        mixed = _spread(mixed ^ entry[i])
    return mixed


@compiled
def _candidate(reg: Ints, fixed: Codes, live: Codes, marks: Ints, keys: Ints, cells: Codes) -> tuple[int, int]:
    """The next call to linearize from the configuration on top of the stack, and the state after it; FIRST if all have
    been tried, DROP if a LOOSE call is to be passed by.

    The pending calls are gone through by return. ``marks`` holds, by operation, twice the number of this scan if a
    LOOSE call of it has been seen, and one more if a MUST call has: later ones of the same operation are passed over
    (unless MUST ones after LOOSE ones only).
    """
    n, frame = reg[CALLS], reg[DEPTH] - 1
    tried, state = live[AT_MOVE, frame], reg[STATE]
    call = live[NEXT, n]
    if tried == FIRST and fixed[KIND, call] == LOOSE:
        live[AT_MOVE, frame] = DROP
        return DROP, 0
    reg[STAMP] += 2
    loose, firm = reg[STAMP], reg[STAMP] + 1
    reached = tried < 0 or tried >= n
    while call != n:
        if not live[DONE, call]:
            operation, must = fixed[OPERATION, call], fixed[KIND, call] == MUST
            new = marks[operation] < loose or (must and marks[operation] == loose)
            if new:
                if reached and tried < n:
                    after = _look(state, operation, reg, keys, cells)
                    if after == UNKNOWN:
                        return FIRST, UNKNOWN
                    if after >= 0 and (must or after != state):
                        live[AT_MOVE, frame] = call
                        return call, after
                marks[operation] = firm if must else loose
        if call == tried:
            reached = True
        call = live[NEXT, call]
    for group in range(max(0, tried - n + 1), reg[GROUPS]):
        operation, at = fixed[GROUP, group], fixed[GROUP_AT, group] + live[USED, group]
        if marks[operation] >= loose or at == fixed[GROUP_AT, group + 1]:
            continue
        call = fixed[GROUPED, at]
        if call < fixed[INVOKED, reg[LEVEL]]:
            after = _look(state, operation, reg, keys, cells)
            if after == UNKNOWN:
                return FIRST, UNKNOWN
            if after >= 0 and after != state:
                live[AT_MOVE, frame] = n + group
                live[USED, group] += 1
                return call, after
    return FIRST, INCONSISTENT


@compiled
def _linearize(call: int, after: int, reg: Ints, fixed: Codes, live: Codes, words: Ints) -> None:
    at, bit = reg[LENGTH], fixed[BIT, call]
    live[ORDER, at], live[STATES, at], live[LEVELS, at] = call, after, reg[LEVEL]
    live[DONE, call] = 1
    words[bit >> 6] |= np.int64(1) << (bit & 63)
    reg[LENGTH], reg[STATE] = at + 1, after


@compiled
def _enter(call: int, fixed: Codes, live: Codes) -> None:
    """``call`` has been invoked: it is pending from now on."""
    if fixed[KIND, call] != MAY:
        before = fixed[BEFORE, call]
        after = live[NEXT, before]
        live[PREVIOUS, call], live[NEXT, call] = before, after
        live[NEXT, before] = live[PREVIOUS, after] = call


@compiled
def _leave(call: int, live: Codes) -> None:
    before, after = live[PREVIOUS, call], live[NEXT, call]
    live[NEXT, before], live[PREVIOUS, after] = after, before


@compiled
def _advance(reg: Ints, fixed: Codes, live: Codes, words: Ints) -> None:
    """Pass the return of the first of the pending calls."""
    n, level = reg[CALLS], reg[LEVEL]
    call = live[NEXT, n]
    _leave(call, live)
    bit = fixed[BIT, call]
    words[bit >> 6] &= ~(np.int64(1) << (bit & 63))
    for new in range(fixed[INVOKED, level], fixed[INVOKED, level + 1]):
        _enter(new, fixed, live)
    reg[LEVEL] = level + 1


@compiled
def _retreat(to: int, reg: Ints, fixed: Codes, live: Codes, words: Ints) -> None:
    """Undo passing returns, back to where ``to`` had been passed. No call that goes is linearized any more."""
    n = reg[CALLS]
    while reg[LEVEL] > to:
        level = reg[LEVEL] - 1
        for new in range(fixed[INVOKED, level + 1] - 1, fixed[INVOKED, level] - 1, -1):
            if fixed[KIND, new] != MAY:
                _leave(new, live)
        call = fixed[RETURNING, level]
        first = live[NEXT, n]
        live[NEXT, call], live[PREVIOUS, call] = first, n
        live[NEXT, n] = live[PREVIOUS, first] = call
        if live[DONE, call]:
            bit = fixed[BIT, call]
            words[bit >> 6] |= np.int64(1) << (bit & 63)
        reg[LEVEL] = level


@compiled
def _undo(reg: Ints, fixed: Codes, live: Codes, words: Ints) -> None:
    """Back to the configuration on top of the stack."""
    _keep(reg, live)
    frame = reg[DEPTH] - 1
    length, moved = live[AT_LENGTH, frame], live[AT_MOVE, frame]
    for at in range(reg[LENGTH] - 1, length - 1, -1):
        call = live[ORDER, at]
        _retreat(live[LEVELS, at], reg, fixed, live, words)
        bit = fixed[BIT, call]
        words[bit >> 6] &= ~(np.int64(1) << (bit & 63))
        live[DONE, call] = 0
    _retreat(live[AT_LEVEL, frame], reg, fixed, live, words)
    if moved >= reg[CALLS]:
        live[USED, moved - reg[CALLS]] -= 1
    reg[LENGTH], reg[STATE] = length, live[AT_STATE, frame]
    reg[SAME] = min(reg[SAME], length)


@compiled
def _keep(reg: Ints, live: Codes) -> None:
    """Copy the order if it is the longest so far: only what differs from the copy before, and only now that some of it
    is to be undone."""
    if reg[FRESH]:
        for at in range(reg[SAME], reg[LENGTH]):
            live[BEST, at], live[BEST_STATES, at] = live[ORDER, at], live[STATES, at]
        reg[BEST_LENGTH] = reg[SAME] = reg[LENGTH]
        reg[FRESH] = 0


@compiled
def _settle(reg: Ints, fixed: Codes, live: Codes, words: Ints, still: Marks, keys: Ints, cells: Codes) -> bool:
    """Linearize what changes nothing, and pass all returns that can be. False: the table lacks a cell."""
    n = reg[CALLS]
    call = live[NEXT, n]
    while True:
        while call != n:
            if still[fixed[OPERATION, call]] and fixed[KIND, call] == MUST and not live[DONE, call]:
                after = _look(reg[STATE], fixed[OPERATION, call], reg, keys, cells)
                if after == UNKNOWN:
                    return False
                if after == reg[STATE]:
                    _linearize(call, after, reg, fixed, live, words)
            call = live[NEXT, call]
        first = live[NEXT, n]
        if first == n or not live[DONE, first]:
            return True
        _advance(reg, fixed, live, words)
        call = live[NEXT, n]


@compiled
def _push(reg: Ints, live: Codes) -> None:
    frame = reg[DEPTH]
    live[AT_LENGTH, frame], live[AT_LEVEL, frame] = reg[LENGTH], reg[LEVEL]
    live[AT_STATE, frame], live[AT_MOVE, frame] = reg[STATE], FIRST
    reg[DEPTH] = frame + 1


@compiled
def _seen(reg: Ints, words: Ints, slots: Codes, entries: Ints, chain: Codes) -> int:
    """1 if a configuration that can do as much has been seen, otherwise 0, and this one is remembered; GROW if there
    is no room for it."""
    firm, width = reg[FIRM], len(words)
    key = (reg[LEVEL] << 32) | reg[STATE]
    mixed = _spread(key)
    for i in range(firm):
        mixed = _spread(mixed ^ words[i])
    at = mixed & (len(slots) - 1)
    entry = slots[at]
    while entry >= 0:
        if entries[entry, 0] == key:
            equal, more, less = True, True, True
            for i in range(firm):
                equal &= entries[entry, i + 1] == words[i]
            if equal:
                for i in range(firm, width):
                    more &= entries[entry, i + 1] & ~words[i] == 0
                    less &= words[i] & ~entries[entry, i + 1] == 0
                if more:
                    return 1
                if less:
                    for i in range(firm, width):
                        entries[entry, i + 1] = words[i]
                    return 0
        entry = chain[entry]
    if reg[STORED] == len(chain):
        return 0 if reg[FULL] else GROW
    entry = reg[STORED]
    entries[entry, 0] = key
    for i in range(width):
        entries[entry, i + 1] = words[i]
    chain[entry] = slots[at]
    slots[at] = entry
    reg[STORED] = entry + 1
    return 0
