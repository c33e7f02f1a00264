"""The loop of the general search (:mod:`checkers.linearizability.search` says what it does and why that is right).

Everything that the loop knows lies in arrays (:mod:`checkers.linearizability.arrays`), so that it can stop anywhere, be
given a cell of the model's table, more memory or a look at the clock, and go on.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from checkers.linearizability.arrays import (
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
from checkers.linearizability.problem import LOOSE, MAY, MUST
from harness.compiled import compiled
from harness.history.calls import Codes, Ints, Marks

MOVE, SETTLE, VISIT = range(3)
VALID, INVALID, ASK, GROW, SLICE = range(5)
"""Why the loop stopped: found an order; there is none; the table lacks a cell; no room for configurations; so many
steps were made."""
INCONSISTENT: Final = -1
UNKNOWN: Final = -2
"""In place of a state: the model does not allow it; it has not been asked."""
FIRST: Final = -1
DROP: Final = -2
"""In place of a call: none has been tried yet, or is left; only to pass a LOOSE one by has."""


@compiled
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
    """Go on for so many steps; gives back why it stopped."""
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
    at = spread(key) & (len(keys) - 1)
    while keys[at] != key:
        if keys[at] < 0:
            reg[ASKED], reg[ABOUT] = state, operation
            return UNKNOWN
        at = (at + 1) & (len(keys) - 1)
    return int(cells[at])


@compiled
def _candidate(
    reg: Ints, fixed: Codes, live: Codes, marks: Ints, nature: Marks, keys: Ints, cells: Codes
) -> tuple[int, int]:
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
                barred = reg[BARRED] and nature[operation] == CONSTANT
                if reached and tried < n and not barred:
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
        if reg[BARRED] and nature[operation] == CONSTANT:
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
def _bars(call: int, reg: Ints, fixed: Codes, live: Codes, nature: Marks) -> int:
    """Whether no CONSTANT operation may come right after ``call``, which has just been linearized."""
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


@compiled
def _linearize(call: int, after: int, reg: Ints, fixed: Codes, live: Codes, words: Ints) -> None:
    at, bit = reg[LENGTH], fixed[BIT, call]
    live[ORDER, at], live[STATES, at], live[LEVELS, at] = call, after, reg[LEVEL]
    live[DONE, call] = 1
    words[bit >> 6] |= np.int64(1) << (bit & 63)
    reg[LENGTH], reg[STATE] = at + 1, after


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
        enter(new, fixed, live)
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
    reg[LENGTH], reg[STATE], reg[BARRED] = length, live[AT_STATE, frame], live[AT_BARRED, frame]
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
def _settle(reg: Ints, fixed: Codes, live: Codes, words: Ints, nature: Marks, keys: Ints, cells: Codes) -> bool:
    """Linearize what changes nothing, and pass all returns that can be. False: the table lacks a cell."""
    n = reg[CALLS]
    call = live[NEXT, n]
    while True:
        while call != n:
            if nature[fixed[OPERATION, call]] == STILL and fixed[KIND, call] == MUST and not live[DONE, call]:
                after = _look(reg[STATE], fixed[OPERATION, call], reg, keys, cells)
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


@compiled
def _push(reg: Ints, live: Codes) -> None:
    frame = reg[DEPTH]
    live[AT_LENGTH, frame], live[AT_LEVEL, frame] = reg[LENGTH], reg[LEVEL]
    live[AT_STATE, frame], live[AT_MOVE, frame], live[AT_BARRED, frame] = reg[STATE], FIRST, reg[BARRED]
    reg[DEPTH] = frame + 1


@compiled
def _seen(reg: Ints, words: Ints, slots: Codes, entries: Ints, chain: Codes) -> int:
    """1 if a configuration that can do as much has been seen, otherwise 0, and this one is remembered; GROW if there
    is no room for it."""
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
