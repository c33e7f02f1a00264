"""The loop of the general search. :mod:`harness.checkers.linearizability.search` explains and proves the method.

All state of the loop is in arrays (:mod:`harness.checkers.linearizability.arrays`). So the loop can stop anywhere, get
a missing cell of the model's table, more memory or a check of the clock, and continue.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from harness.history.calls import Codes, Ints, Marks
from harness.history.compiled import compilable

from .arrays import (
    ABOUT,
    ASKED,
    AT_BARRED,
    AT_LENGTH,
    AT_LEVEL,
    AT_MOVE,
    AT_STATE,
    BARRED,
    BARS,
    BEST,
    BEST_LENGTH,
    BEST_LEVEL,
    BEST_STATES,
    BIT,
    CALLS,
    CONSTANT,
    DEPTH,
    DONE,
    FIRM,
    FRESH,
    FULL,
    GROUP,
    GROUP_AT,
    GROUPED,
    GROUPS,
    INVOKED,
    KIND,
    LENGTH,
    LEVEL,
    LEVELS,
    MOST,
    NEXT,
    OPERATION,
    OPERATIONS,
    ORDER,
    PHASE,
    PREVIOUS,
    RETURNING,
    RETURNS,
    SAME,
    STAMP,
    STATE,
    STATES,
    STILL,
    STORED,
    TRIED,
    USED,
    WHOLE,
    enter,
    spread,
)
from .problem import LOOSE, MAY, MUST

MOVE, SETTLE, VISIT = range(3)
VALID, INVALID, ASK, GROW, SLICE, OVER = range(6)
"""Why the loop stopped: it found an order; there is none; the table lacks a cell; there is no room for configurations;
it made the given number of steps; it has tried as many configurations as it may."""
INCONSISTENT: Final = -1
UNKNOWN: Final = -2
"""Values in place of a state. INCONSISTENT: the model does not allow the operation. UNKNOWN: the model was not asked
yet."""
FIRST: Final = -1
DROP: Final = -2
"""Values in place of a call. FIRST: no call was tried yet (or none is left). DROP: the move that skips a LOOSE call,
which is tried first."""


@compilable
def explore(
    reg: Ints,
    fixed: Codes,
    live: Codes,
    words: Ints,
    marks: Ints,
    nature: Marks,
    keys: Ints,
    cells: Codes,
    slots: Codes,
    entries: Ints,
    chain: Codes,
    steps: int,
) -> int:
    """Run at most the given number of steps; return why the loop stopped."""
    for _ in range(steps):
        if reg[PHASE] == MOVE:
            call, after = _candidate(reg, fixed, live, marks, nature, keys, cells)
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
                reg[BARRED] = reg[BARS] and _bars(call, reg, fixed, live, nature)
            reg[PHASE] = SETTLE
        if reg[PHASE] == SETTLE:
            if not _settle(reg, fixed, live, words, nature, keys, cells):
                _keep(reg, live)
                return ASK
            reg[PHASE] = VISIT
            reg[TRIED] += 1
            if reg[TRIED] == reg[MOST]:
                _keep(reg, live)
                return OVER
        if reg[LEVEL] > reg[BEST_LEVEL]:
            reg[BEST_LEVEL], reg[FRESH] = reg[LEVEL], 1
        if reg[LEVEL] == reg[RETURNS]:
            return VALID
        found = _was_seen(reg, words, slots, entries, chain)
        if found == GROW:
            return GROW
        if found:
            _undo(reg, fixed, live, words)
        else:
            _push(reg, live)
        reg[PHASE] = MOVE
    _keep(reg, live)
    return SLICE


@compilable
def _look_up_cell(state: int, operation: int, reg: Ints, keys: Ints, cells: Codes) -> int:
    """Return the next state, INCONSISTENT, or UNKNOWN."""
    if reg[WHOLE]:
        return int(cells[state * reg[OPERATIONS] + operation])
    key = (state << 32) | operation
    at = spread(key) & (len(keys) - 1)
    while keys[at] != key:
        if keys[at] < 0:
            reg[ASKED], reg[ABOUT] = state, operation
            return UNKNOWN
        at = (at + 1) & (len(keys) - 1)
    return int(cells[at])


@compilable
def _candidate(
    reg: Ints, fixed: Codes, live: Codes, marks: Ints, nature: Marks, keys: Ints, cells: Codes
) -> tuple[int, int]:
    """Return the next call to linearize from the configuration at the top of the stack, and the state after it.

    The call is FIRST if all have been tried, DROP if a LOOSE call is to be skipped. The loop goes through the pending
    calls by return. By operation, ``marks`` is twice the number of this scan if it has seen a LOOSE call of the
    operation, plus one if it has seen a MUST call. It skips later calls of the same operation (but not MUST calls if
    only LOOSE calls were seen).
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
                barred = reg[BARRED] and nature[operation] == CONSTANT
                if reached and tried < n and not barred:
                    after = _look_up_cell(state, operation, reg, keys, cells)
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
        if reg[BARRED] and nature[operation] == CONSTANT:
            continue
        call = fixed[GROUPED, at]
        if call < fixed[INVOKED, reg[LEVEL]]:
            after = _look_up_cell(state, operation, reg, keys, cells)
            if after == UNKNOWN:
                return FIRST, UNKNOWN
            if after >= 0 and after != state:
                live[AT_MOVE, frame] = n + group
                live[USED, group] += 1
                return call, after
    return FIRST, INCONSISTENT


@compilable
def _bars(call: int, reg: Ints, fixed: Codes, live: Codes, nature: Marks) -> int:
    """Return 1 if no CONSTANT operation may come right after ``call``, which has just been linearized."""
    if nature[fixed[OPERATION, call]] != CONSTANT:
        return 0
    if fixed[KIND, call] != MUST:
        return 1
    level, before = reg[LEVEL], 0
    while before < 2 and fixed[RETURNING, level] != call:
        other = fixed[RETURNING, level]
        constant = nature[fixed[OPERATION, other]] == CONSTANT
        before += constant and fixed[KIND, other] == MUST and not live[DONE, other]
        level += 1
    return int(before == 2)


@compilable
def _linearize(call: int, after: int, reg: Ints, fixed: Codes, live: Codes, words: Ints) -> None:
    at, bit = reg[LENGTH], fixed[BIT, call]
    live[ORDER, at], live[STATES, at], live[LEVELS, at] = call, after, reg[LEVEL]
    live[DONE, call] = 1
    words[bit >> 6] |= np.int64(1) << (bit & 63)
    reg[LENGTH], reg[STATE] = at + 1, after


@compilable
def _leave(call: int, live: Codes) -> None:
    before, after = live[PREVIOUS, call], live[NEXT, call]
    live[NEXT, before], live[PREVIOUS, after] = after, before


@compilable
def _advance(reg: Ints, fixed: Codes, live: Codes, words: Ints) -> None:
    """Pass the return of the first pending call."""
    n, level = reg[CALLS], reg[LEVEL]
    call = live[NEXT, n]
    _leave(call, live)
    bit = fixed[BIT, call]
    words[bit >> 6] &= ~(np.int64(1) << (bit & 63))
    for new in range(fixed[INVOKED, level], fixed[INVOKED, level + 1]):
        enter(new, fixed, live)
    reg[LEVEL] = level + 1


@compilable
def _retreat(to: int, reg: Ints, fixed: Codes, live: Codes, words: Ints) -> None:
    """Undo passing returns, back to ``to`` returns. No call that leaves the pending calls is linearized any more."""
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


@compilable
def _undo(reg: Ints, fixed: Codes, live: Codes, words: Ints) -> None:
    """Go back to the configuration at the top of the stack."""
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
    reg[LENGTH], reg[STATE], reg[BARRED] = length, live[AT_STATE, frame], live[AT_BARRED, frame]
    reg[SAME] = min(reg[SAME], length)


@compilable
def _keep(reg: Ints, live: Codes) -> None:
    """Copy the order if it is the longest so far.

    Only the difference to the last copy is copied, and only when part of the order is about to be undone.
    """
    if reg[FRESH]:
        for at in range(reg[SAME], reg[LENGTH]):
            live[BEST, at], live[BEST_STATES, at] = live[ORDER, at], live[STATES, at]
        reg[BEST_LENGTH] = reg[SAME] = reg[LENGTH]
        reg[FRESH] = 0


@compilable
def _settle(reg: Ints, fixed: Codes, live: Codes, words: Ints, nature: Marks, keys: Ints, cells: Codes) -> bool:
    """Linearize the calls that change nothing, and pass all returns that can be passed. False if the table lacks a
    cell."""
    n = reg[CALLS]
    call = live[NEXT, n]
    while True:
        while call != n:
            if nature[fixed[OPERATION, call]] == STILL and fixed[KIND, call] == MUST and not live[DONE, call]:
                after = _look_up_cell(reg[STATE], fixed[OPERATION, call], reg, keys, cells)
                if after == UNKNOWN:
                    return False
                if after == reg[STATE]:
                    _linearize(call, after, reg, fixed, live, words)
                    reg[BARRED] = 0
            call = live[NEXT, call]
        first = live[NEXT, n]
        if first == n or not live[DONE, first]:
            return True
        _advance(reg, fixed, live, words)
        call = live[NEXT, n]


@compilable
def _push(reg: Ints, live: Codes) -> None:
    frame = reg[DEPTH]
    live[AT_LENGTH, frame], live[AT_LEVEL, frame] = reg[LENGTH], reg[LEVEL]
    live[AT_STATE, frame], live[AT_MOVE, frame], live[AT_BARRED, frame] = reg[STATE], FIRST, reg[BARRED]
    reg[DEPTH] = frame + 1


@compilable
def _was_seen(reg: Ints, words: Ints, slots: Codes, entries: Ints, chain: Codes) -> int:
    """Look up a configuration: 1 if one that can do as much has been seen; 0 after remembering this one; GROW without
    room."""
    firm, width = reg[FIRM], len(words)
    if reg[BARS]:
        words[firm] = (words[firm] & ~1) | reg[BARRED]
    key = (reg[LEVEL] << 32) | reg[STATE]
    mixed = spread(key)
    for i in range(firm):
        mixed = spread(mixed ^ words[i])
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
