"""Clients of a lock on a made-up server that go on after calls of unknown outcome, entry by entry.

As in :mod:`benchmarks.linearizability.simulate`, but a client whose call has an unknown outcome makes its next call
under another process number, which is the same modulo the number of clients: so our runs record it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.linearizability.simulate import (
    ACQUIRE,
    HOLD,
    INFO,
    INVOKE,
    LONG,
    NIL,
    OK,
    PATIENCE,
    RELEASE,
    SHORT,
    Columns,
    between,
)
from harness.history.calls import NEVER, Ints
from harness.history.compiled import compilable

_DUE, _STAGE, _F, _NAME, _LOST, _TOKEN, _READS = range(7)
"""What is known of a client: when something happens to it next (ns), what, the call that it is in or makes next, its
process, whether that call's outcome is unknown, the token of its grant, and whether its turn is a reader's."""
_CALLS, _ARRIVES, _ANSWERED, _WAITS, _GIVES_UP = range(5)
"""What happens next: it calls; the call is at the server; the answer is back; another one releases; it gives up a call
that never was at the server."""
SURE: Final = 2
"""Clients, the first ones, that have no unknown outcomes. The lock is granted twice to them, which no unknown call
explains."""


@compilable
def _entry(columns: Columns, at: int, kind: int, table: Ints, me: int) -> int:
    times, processes, kinds, fs, firsts, seconds = columns
    times[at], processes[at], kinds[at], fs[at] = table[_DUE, me], table[_NAME, me], kind, table[_F, me]
    reader = kind == INVOKE and table[_F, me] == ACQUIRE and table[_READS, me]
    firsts[at], seconds[at] = NIL if reader else table[_TOKEN, me], 0
    return at + 1


@compilable
def _clients(count: int, first: int) -> Ints:
    table = np.zeros((7, count), dtype=np.int64)
    for client in range(count):
        table[_DUE, client] = between(0, HOLD)
        table[_NAME, client] = client
        table[_F, client] = first
    return table


@compilable
def _call(columns: Columns, at: int, table: Ints, me: int, lost: bool) -> int:
    """The client ``me`` calls. Half of the acquires whose outcome is unknown never arrive."""
    now = table[_DUE, me]
    at = _entry(columns, at, INVOKE, table, me)
    table[_LOST, me] = lost
    table[_STAGE, me], table[_DUE, me] = _ARRIVES, now + between(SHORT, LONG)
    if lost and table[_F, me] == ACQUIRE and np.random.random() < 0.5:
        table[_STAGE, me], table[_DUE, me] = _GIVES_UP, now + PATIENCE
    return at


@compilable
def _return(columns: Columns, at: int, table: Ints, me: int, first: int) -> int:
    """The call of ``me`` ends. One that was at the server had its effect, whether the client knows it or not."""
    now, f = table[_DUE, me], table[_F, me]
    took_effect = table[_STAGE, me] == _ANSWERED
    at = _entry(columns, at, INFO if table[_LOST, me] else OK, table, me)
    if table[_LOST, me]:
        table[_NAME, me] += table.shape[1]
    table[_STAGE, me], table[_TOKEN, me] = _CALLS, 0
    table[_DUE, me] = now + (between(HOLD // 4, HOLD) if f == ACQUIRE else between(0, HOLD))
    if took_effect:
        table[_F, me] = RELEASE if f == ACQUIRE else first if f == RELEASE else ACQUIRE
    return at


@compilable
def _next(table: Ints, waiting: Ints, waits: int, ready: Ints, in_order: bool, reading: bool) -> int:
    """Return the place in ``waiting`` of the client whose turn it is, NIL if it is nobody's: in a queue, the first one
    may not have asked for its turn yet, and while others are ``reading`` it can only be a reader's."""
    if not waits or (in_order and not ready[waiting[0]]):
        return NIL
    place = 0 if in_order else int(np.random.random() * waits)
    return NIL if reading and not table[_READS, waiting[place]] else place


@compilable
def _place(waiting: Ints, waits: int, ready: Ints, who: int) -> int:
    """Return the place in ``waiting`` of a client that asks for its turn, NIL if it does not."""
    for place in range(waits):
        if waiting[place] == who and ready[who]:
            return place
    return NIL


@compilable
def _grant(table: Ints, waiting: Ints, waits: int, ready: Ints, turn: int, now: int) -> int:
    """The lock goes to the client at this place, and those behind it move up. Returns the client."""
    who = int(waiting[turn])
    for place in range(turn, waits - 1):
        waiting[place] = waiting[place + 1]
    ready[who] = 0
    table[_STAGE, who], table[_DUE, who] = _ANSWERED, now + between(SHORT, LONG)
    return who


@compilable
def lock(
    columns: Columns,
    clients: int,
    operations: int,
    unknown: Ints,
    wrong_from: int,
    seed: int,
    first: int,
    reads: float,
    permits: int,
) -> tuple[int, int]:
    """Acquire (and wait), hold, release, pause, and again. With ``first`` = ``ENQUEUE`` they join a queue before each
    acquire. Whose turn comes is drawn, or the queue says it. ``reads`` is the share of turns that are readers', 0 to 1.
    ``permits`` clients hold it at a time, besides readers.

    ``unknown`` are the numbers of calls, rising, from which on the next call of another client than the first
    :data:`SURE` has an unknown outcome. From the call ``wrong_from`` on, the lock is once granted to two. Tokens rise.
    Returns how many entries there are, of at most ``operations`` calls, and whether two have held it (0, 1).
    """
    np.random.seed(seed)
    table, in_order = _clients(clients, first), first != ACQUIRE
    each = 3 if in_order else 2
    waiting, ready = np.empty(clients, dtype=np.int64), np.zeros(clients, dtype=np.int64)
    holds = np.zeros(clients, dtype=np.int64)
    tokens, waits, calls, lost, wrong, at = 0, 0, 0, 0, 0, 0
    while True:
        me = int(np.argmin(table[_DUE]))
        now, stage, f = table[_DUE, me], table[_STAGE, me], table[_F, me]
        if now == NEVER:
            return at, wrong
        if stage == _CALLS:
            if f == first:
                if calls + each + len(unknown) > operations:  # nobody begins what cannot end; some acquire again
                    table[_DUE, me] = NEVER
                    continue
                calls += each
                table[_READS, me] = np.random.random() < reads
            unsure = me >= SURE and lost < len(unknown) and calls >= unknown[lost]
            at = _call(columns, at, table, me, unsure)
            lost += unsure
        elif stage == _ARRIVES:
            table[_STAGE, me], table[_DUE, me] = _ANSWERED, now + between(SHORT, LONG)
            if f == ACQUIRE:
                table[_STAGE, me], table[_DUE, me] = _WAITS, NEVER
                ready[me] = 1
            if f == first:
                waiting[waits] = me
                waits += 1
            if f == RELEASE:
                holds[me] = 0
        else:
            at = _return(columns, at, table, me, first)
            if f == ACQUIRE and me < SURE and calls >= wrong_from and not wrong and not table[_READS, me]:
                turn = _place(waiting, waits, ready, 1 - me)
                if turn != NIL:
                    wrong, tokens, holds[1 - me] = 1, tokens + 1, 1
                    table[_TOKEN, 1 - me] = tokens
                    _grant(table, waiting, waits, ready, turn, now)
                    waits -= 1
                    table[_DUE, me] = now + LONG + HOLD
        reading = bool((holds * table[_READS]).any())
        while (holds * (1 - table[_READS])).sum() < permits:
            turn = _next(table, waiting, waits, ready, in_order, reading)
            if turn == NIL:
                break
            who = _grant(table, waiting, waits, ready, turn, now)
            tokens, waits, holds[who] = tokens + 1, waits - 1, 1
            reading = reading or bool(table[_READS, who])
            table[_TOKEN, who] = tokens
