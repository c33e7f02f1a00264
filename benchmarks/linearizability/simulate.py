"""Clients of a lock or a register on a made-up server, entry by entry: ten million calls in seconds.

A client sends its call, the call takes effect on the server some milliseconds later, and some milliseconds after that
the answer is back: the point at which it takes effect lies anywhere between, and every history is linearizable unless
one is asked for that is not. A client that crashes is replaced by another one, so that as many are always at it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.history.calls import NEVER, Ints, Marks
from harness.history.compiled import compilable

Columns = tuple[Ints, Ints, Marks, Marks, Ints, Ints]
"""Entries: time (ns), process, type, f, and two numbers for the request or the answer."""

MS = 1_000_000
SHORT, LONG = 1 * MS, 5 * MS
"""Between which a message takes, ns."""
HOLD = 20 * MS
"""The longest that a lock is held."""
PATIENCE = 500 * MS
"""Time-out of a client whose answer is lost."""
WAITING = 0.9
"""Which part of the clients of a lock that crash do so in an acquire, and not in a release: about that part of the
time that they spend in calls. An acquire takes as long as others hold the lock, a release two messages."""

INVOKE, OK, FAIL, INFO = range(4)
ACQUIRE, RELEASE, READ, WRITE, CAS, ENQUEUE = range(6)
NIL = -1
"""Initial value of a register; absent value."""
VALUES = 5

_DUE, _STAGE, _F, _NAME, _DOOMED, _FIRST, _SECOND = range(7)
"""What is known of a client: when something happens to it next (ns), what, the call that it is in or makes next, its
process, the call in which it crashes (NIL: in none), and the two numbers of its next entry."""
_IDLE, _SENT, _ANSWERED, _WAITS, _LOST = range(5)
"""What happens next: it calls; the call takes effect; the answer is back; another one releases; nobody answers."""


@compilable
def between(low: int, high: int) -> int:
    """Draw a number from ``low`` up to ``high``."""
    return low + int((high - low) * np.random.random())


@compilable
def _clients(count: int) -> Ints:
    """A column each."""
    table = np.zeros((7, count), dtype=np.int64)
    for client in range(count):
        table[_DUE, client] = between(0, HOLD)
        table[_NAME, client] = client
    table[_DOOMED] = NIL
    return table


@compilable
def _write(columns: Columns, at: int, now: int, kind: int, table: Ints, me: int) -> int:
    """An entry: the client ``me`` calls or is answered. Returns the place of the next one."""
    times, processes, kinds, fs, firsts, seconds = columns
    times[at], processes[at], kinds[at], fs[at] = now, table[_NAME, me], kind, table[_F, me]
    firsts[at], seconds[at] = table[_FIRST, me], table[_SECOND, me]
    return at + 1


@compilable
def _leave(columns: Columns, at: int, now: int, table: Ints, me: int) -> int:
    """Nobody answered, which half of the clients find worth an entry; another one comes in its place."""
    if np.random.random() < 0.5:
        at = _write(columns, at, now, INFO, table, me)
    table[_NAME, me] = table[_NAME].max() + 1
    table[_STAGE, me] = _IDLE
    return at


@compilable
def _grant(table: Ints, waiting: Ints, waits: int, turn: int, token: int, now: int) -> int:
    """The lock goes to the one whose place in ``waiting`` is ``turn``; the last one gets its place. Returns who."""
    who = int(waiting[turn])
    waiting[turn] = waiting[waits - 1]
    table[_STAGE, who], table[_FIRST, who] = _ANSWERED, token
    table[_DUE, who] = now + between(SHORT, LONG)
    return who


@compilable
def lock(columns: Columns, clients: int, operations: int, crashes: Ints, wrong_from: int, seed: int) -> tuple[int, int]:
    """Acquire (and wait), hold, release, pause, and again. The pause is half a hold on average, as it is for clients
    of a run that nobody told otherwise (``rest`` and ``hold`` of a plan), so that nearly all of them wait at any time;
    whose turn comes is drawn. ``crashes`` are the numbers of calls, rising, from which on the next client to acquire
    crashes: in that acquire, which then has no effect, or in the release after it, which has. From the call
    ``wrong_from`` on, the lock is once granted to two.

    The first number of a grant is its token. Returns how many entries there are, of as many calls as asked for or one
    fewer (so that nobody waits for ever), and whether two have held it (0, 1).
    """
    np.random.seed(seed)
    table, waiting = _clients(clients), np.empty(clients, dtype=np.int64)
    holder, tokens, waits, calls, crashed, wrong, at = NIL, 0, 0, 0, 0, 0, 0
    while True:
        me = int(np.argmin(table[_DUE]))
        now, stage, f = table[_DUE, me], table[_STAGE, me], table[_F, me]
        if now == NEVER:
            return at, wrong
        after = now + between(SHORT, LONG)
        if stage == _IDLE:
            if f == ACQUIRE:
                dies = crashed < len(crashes) and calls >= crashes[crashed]
                table[_DOOMED, me] = NIL if not dies else ACQUIRE if np.random.random() < WAITING else RELEASE
                makes = 1 if table[_DOOMED, me] == ACQUIRE else 2
                if calls + makes > operations:
                    table[_DUE, me] = NEVER
                    continue
                calls += makes
                crashed += dies
            at = _write(columns, at, now, INVOKE, table, me)
            table[_STAGE, me] = _SENT
        elif stage == _SENT:
            table[_STAGE, me] = _ANSWERED
            if f == RELEASE and me == holder:
                holder = NIL
            if table[_DOOMED, me] == f:
                table[_STAGE, me], after = _LOST, now + PATIENCE
            elif f == ACQUIRE:
                table[_STAGE, me], after = _WAITS, NEVER
                waiting[waits] = me
                waits += 1
        elif stage == _ANSWERED:
            at = _write(columns, at, now, OK, table, me)
            table[_STAGE, me], table[_F, me], table[_FIRST, me] = _IDLE, ACQUIRE + RELEASE - f, 0
            after = now + (between(HOLD // 4, HOLD) if f == ACQUIRE else between(0, HOLD))
            if f == ACQUIRE and me != holder:  # it holds what the other one keeps until after it has released
                after = now + HOLD // 4
            elif f == ACQUIRE and calls >= wrong_from and waits and not wrong:
                wrong, after = 1, now + LONG + HOLD
                tokens += 1
                _grant(table, waiting, waits, waits - 1, tokens, now)
                waits -= 1
        else:
            at = _leave(columns, at, now, table, me)
            table[_F, me], after = ACQUIRE, now + between(0, HOLD)
        table[_DUE, me] = after
        if holder == NIL and waits:
            tokens += 1
            holder = _grant(table, waiting, waits, int(np.random.random() * waits), tokens, now)
            waits -= 1


@compilable
def register(columns: Columns, clients: int, operations: int, crashes: Ints, fs: int, seed: int) -> int:
    """Reads, writes and, with ``fs`` = 3, compare-and-sets of :data:`VALUES` values, each as often as the other, as in
    Jepsen's tests of registers; each client pauses about as long as a call takes. ``crashes`` are the numbers of the
    calls, rising, that crash; each of them took effect or did not.

    The numbers of an entry are what was read (NIL: nothing was ever written) or written, or what was expected and what
    was to be put in its place. Returns how many entries there are.
    """
    np.random.seed(seed)
    table = _clients(clients)
    value, calls, crashed, at = NIL, 0, 0, 0
    while True:
        me = int(np.argmin(table[_DUE]))
        now, stage = table[_DUE, me], table[_STAGE, me]
        if now == NEVER:
            return at
        after = now + between(SHORT, LONG)
        if stage == _IDLE:
            if calls == operations:
                table[_DUE, me] = NEVER
                continue
            f = READ + int(np.random.random() * fs)
            dies = crashed < len(crashes) and calls >= crashes[crashed]
            table[_F, me], table[_DOOMED, me] = f, f if dies else NIL
            table[_FIRST, me] = 0 if f == READ else int(np.random.random() * VALUES)
            table[_SECOND, me] = int(np.random.random() * VALUES) if f == CAS else 0
            crashed += dies
            calls += 1
            at = _write(columns, at, now, INVOKE, table, me)
            table[_STAGE, me] = _SENT
        elif stage == _SENT:
            f, lost = table[_F, me], table[_DOOMED, me] != NIL
            table[_STAGE, me] = _LOST if lost else _ANSWERED
            after = now + PATIENCE if lost else after
            happens = (f != CAS or value == table[_FIRST, me]) and not (lost and np.random.random() < 0.5)
            if not happens:
                table[_DOOMED, me] = f
            elif f == READ:
                table[_FIRST, me] = value
            else:
                value = table[_SECOND, me] if f == CAS else table[_FIRST, me]
        elif stage == _ANSWERED:
            at = _write(columns, at, now, OK if table[_DOOMED, me] == NIL else FAIL, table, me)
            table[_STAGE, me], after = _IDLE, now + between(0, 2 * LONG)
        else:
            at = _leave(columns, at, now, table, me)
            after = now + between(0, 2 * LONG)
        table[_DUE, me] = after


FIELDS = 7
"""Bytes below this in a template stand for the number of that field, written in decimal."""


@compilable
def write_lines(
    fields: Ints, which: Marks, templates: npt.NDArray[np.uint8], lengths: Ints, out: npt.NDArray[np.uint8]
) -> int:
    """Each entry as text: its template, number ``which``, with its fields (a row each) in the place of their numbers.
    Returns how many bytes of ``out`` were filled."""
    at = 0
    digits = np.empty(20, dtype=np.uint8)
    for entry in range(len(which)):
        template = which[entry]
        for i in range(lengths[template]):
            byte = templates[template, i]
            if byte >= FIELDS:
                out[at] = byte
                at += 1
                continue
            number = fields[byte, entry]
            count = 0
            while number or not count:
                digits[count] = 48 + number % 10
                number //= 10
                count += 1
            for digit in range(count):
                out[at + digit] = digits[count - 1 - digit]
            at += count
    return at
