"""Locks whose holds have an owner, in linear time: definite holds.

*The shortest hold.* A client's calls on a key come one after the other. In any linearization its hold lasts from a
point in the window of the acquire to a point in that of the release that ends it, so it contains the *definite hold*,
from the acquire's return to the release's invocation. Where all outcomes are known, hence:

    A history is linearizable if and only if each client's calls on a key alternate as the model wants (no release
    without a hold, no acquire beyond the limit), no two definite holds of a key overlap (unless both are shared), and
    the tokens of its holds, in the order of their definite holds, grow.

*Only if:* holds contain their definite holds; and of two disjoint definite holds the later one cannot come first, as
its release would take effect after its invocation, which is after the other acquire has returned. *If:* let every
acquire that begins a hold take effect at its return and every release that ends one at its invocation, and calls inside
a hold anywhere in their windows: the holds are then the definite ones. This is the argument by intervals that Gibbons
and Korach ("Testing shared memories", 1997) make for registers.

*Unknown outcomes.* An unknown acquire is taken not to have happened. An unknown release that finds its client holding
is taken to have happened at its invocation, unless the client's next known call is a release, which then ended the
hold. If all is well so, that is an explicit order. If not, it is proved wrong only if the clients concerned have no
unknown call to spare with which it could be otherwise:

- a definite hold can be interrupted only by a release of its own client. So two that overlap, and tokens that fall, are
  proved wrong if neither client has a spare unknown release: one that was not used to end a hold. (With a limit above 1
  none is ever known to have ended a hold, so that all are spare.)
- an acquire beyond the limit, and an inner one with another token than the outer, likewise; and with a limit above 1
  two holds of a client that has an unknown acquire may be one, of one token;
- a release without a hold needs an acquire: proved wrong if its client has no unknown one (nor, with a limit above 1,
  an unknown release that may not have happened).

What is not proved is left to a search; so is a key on which two known calls of one client overlap, or one is possible
only by grace of an unknown one.

*Leases* (:class:`checkers.models.LeaseMutex`). The promise of a grant ends ``lease`` after the acquire's end, or after
the end of the last good extend. The hold is definite up to the end of the promise, or to the invocation of the last
answer that it is held if that is later, but no longer than to the release's invocation. A grant to another that ended
at or after the end of the promise is in order. An answer that says lost ends the hold, and is wrong if it came back
before the promise ended. Releasing once what was lost, or has run out, is in order, and so is acquiring that again.
Three things are left to a search besides: a hold that is definite only because of later answers, if its client has
an unknown acquire (the lock may have run out and been acquired anew); a grant whose own promise was over before the
other came back (it may have come first); and an unknown release of a hold that may have run out is one to spare.

*The part that proves it*: taking away all calls of a hold, or all of a client, makes no right history of these models
wrong, for what remains is still a sequence of holds. So the calls of the two holds, or of the one client since the
beginning of its last hold, are wrong only if the whole is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.linearizability.problem import Failure, Outcome
from checkers.models import (
    ACQUIRE,
    LOCKING,
    RELEASE,
    LeaseMutex,
    Model,
    Operation,
    ReadWriteLock,
    ReentrantFencedMutex,
    ReentrantMutex,
    shared,
)
from harness.compiled import compiled
from harness.history.calls import NEVER, NO_FENCE, NONE, Calls, Codes, Ints, Marks

SHOWN: Final = 20
"""Failures of which all calls are given; of others only the last."""

IGNORED, EXCLUSIVE, SHARED, FREE, FREE_SHARED, FREE_EXCLUSIVE, HELD, LONGER, LOST = range(-1, 8)
"""What a call does: acquires (for itself or shared), releases (whatever, or only what is held so), says that the lock
is held (and for longer), or says that it is lost."""

START, END, FIRST, LAST, MODE, SLOT, TOKEN, TOKEN_ROW = range(8)
"""Of a hold: its definite hold (positions), the calls that began and ended it, whether it is shared, whose it is, its
token and the call that had it."""
PROMISE, UNTIL, SEEN, SEEN_ROW, SINCE = range(8, 13)
"""Where there are leases, also: when the promise ends that came with it and the longest since (ns), the invocation of
the last answer that it is held and its call, and when its acquire ended (ns)."""
DEPTH, NOW, TENTATIVE, ACQUIRES, RELEASES, LAPSED, RETURNED = range(7)
"""Of a client on a key: how often it holds it, its latest hold, the unknown release that seems to have ended that, the
unknown acquires and the spare unknown releases so far, whether it has lost it and not released it yet, and the position
at which its last known call returned."""
POSITION, ROW, HOLD, OTHER, OPEN = range(5)
"""Of a key: where it was first proved wrong, the call that returned there, the hold or holds concerned, and whether it
needs a search: it does if it is not proved wrong (SEARCHED), or in any case (CROSSED): a client's calls cross, or only
an unknown call can explain one of them."""
SEARCHED, CROSSED = 1, 2


def check(calls: Calls, model: Model) -> Outcome:
    """All keys at once; ``model`` is one of this module's. Raises ValueError for a mode that cannot be read."""
    if not len(calls):
        return Outcome()
    limit = model.limit if isinstance(model, ReentrantMutex | ReentrantFencedMutex) else 1
    fenced, leased = isinstance(model, ReentrantFencedMutex), isinstance(model, LeaseMutex)
    width = len(calls.clients)
    slot, slots = _slots(calls, width)
    nothing: Ints = np.zeros(1, dtype=np.int64)
    columns = _Columns(
        calls.key,
        slot,
        _actions(calls, model),
        calls.known,
        calls.invoked,
        calls.returned,
        calls.ended,
        calls.fence if fenced else nothing,
        calls.lease if leased else nothing,
    )
    keys = np.zeros((len(calls.keys), 5), dtype=np.int64)
    keys[:, POSITION], keys[:, HOLD], keys[:, OTHER] = NEVER, NONE, NONE
    rule = np.array([min(limit, 2**31), fenced, leased], dtype=np.int64)
    who = np.zeros((slots, 7), dtype=np.int64)
    who[:, NOW] = who[:, TENTATIVE] = who[:, RETURNED] = NONE
    holds = _walk(*columns.all(), rule, who, keys)
    if len(holds):
        at: Codes = np.full(int(holds[:, START].max()) + 1, NONE, dtype=np.int32)
        at[holds[:, START]] = np.arange(len(holds))
        _sweep(at, holds, columns.returned, columns.key, rule, who, keys)
    return _outcome(calls, columns, holds, keys)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Of each call: key, client and key as one number, what it does, and its columns."""

    key: Codes
    slot: Codes
    action: Marks
    known: Marks
    invoked: Ints
    returned: Ints
    ended: Ints
    fence: Ints
    lease: Ints

    def all(self) -> tuple[Codes, Codes, Marks, Marks, Ints, Ints, Ints, Ints, Ints]:
        return (
            self.key, self.slot, self.action, self.known, self.invoked, self.returned, self.ended, self.fence,
            self.lease,
        )  # fmt: skip


def _slots(calls: Calls, width: int) -> tuple[Codes, int]:
    """Client and key as one number, and how many there are."""
    count = len(calls.keys) * width
    if len(calls.keys) == 1:
        return calls.client, count
    if count <= len(calls) // 4 + 1000:
        return calls.key * np.int32(width) + calls.client, count
    found, slot = np.unique(calls.key.astype(np.int64) * width + calls.client, return_inverse=True)
    return slot.reshape(-1).astype(np.int32), len(found)


def _actions(calls: Calls, model: Model) -> Marks:
    """What each call does."""
    by_name = {**dict.fromkeys(ACQUIRE, EXCLUSIVE), **dict.fromkeys(RELEASE, FREE)}
    action = np.array([by_name.get(f, IGNORED) if f in LOCKING else IGNORED for f in calls.fs], dtype=np.int8)[calls.f]
    if isinstance(model, ReadWriteLock):
        _modes(calls, model, action)
    elif isinstance(model, LeaseMutex):
        said = calls.named(["extend", "check"]) & (calls.known == 1)
        action[said & (calls.good == 1)] = HELD
        action[said & (calls.good == 0)] = LOST
        action[calls.named(["extend"]) & (action == HELD)] = LONGER
    return action


def _modes(calls: Calls, model: ReadWriteLock, action: Marks) -> None:
    mine = np.flatnonzero(calls.named(sorted(model.fs)))
    asked = calls.f[mine].astype(np.int64) * (len(calls.values) + 1) + calls.argument[mine] + 1
    found, first, which = np.unique(asked, return_index=True, return_inverse=True)
    modes = np.empty(len(found), dtype=np.int8)
    for number, row in enumerate(mine[first].tolist()):
        f = calls.fs[calls.f[row]]
        if f in RELEASE or f.startswith("release"):
            modes[number] = {"release-read": FREE_SHARED, "release-write": FREE_EXCLUSIVE}.get(f, FREE)
        else:
            modes[number] = SHARED if shared(Operation(f, calls.argument_of(row))) else EXCLUSIVE
    action[mine] = modes[which.reshape(-1)]


@compiled
def _wrong(keys: Ints, key: int, position: int, row: int, hold: int, other: int) -> None:
    """It is proved wrong at ``position``; of several proofs the earliest counts."""
    if position < keys[key, POSITION]:
        keys[key, POSITION], keys[key, ROW], keys[key, HOLD], keys[key, OTHER] = position, row, hold, other


@compiled
def _walk(
    key: Codes,
    slot: Codes,
    action: Marks,
    known: Marks,
    invoked: Ints,
    returned: Ints,
    ended: Ints,
    fence: Ints,
    lease: Ints,
    rule: Ints,
    who: Ints,
    keys: Ints,
) -> Ints:
    """Follow each client on each key; gives the holds."""
    limit, fenced, leased = rule[0], rule[1], rule[2]
    count = 0
    for row in range(len(action)):
        count += known[row] == 1 and IGNORED < action[row] <= SHARED
    holds = np.empty((count, SINCE + 1 if leased else PROMISE), dtype=np.int64)
    made = 0
    for row in range(len(action)):
        does, mine, k = action[row], who[slot[row]], key[row]
        if does == IGNORED:
            continue
        if known[row] == 0:
            _unknown(row, does, limit, invoked, mine, holds)
            continue
        if invoked[row] < mine[RETURNED]:
            keys[k, OPEN] = CROSSED
        mine[RETURNED] = returned[row]
        token = fence[row] if fenced else NO_FENCE
        if does <= SHARED:
            if leased and mine[NOW] != NONE and holds[mine[NOW], UNTIL] <= ended[row]:
                mine[DEPTH] = 0
                mine[RELEASES] += mine[TENTATIVE] != NONE  # the hold ended without it
            mine[TENTATIVE] = NONE
            mine[LAPSED] = 0
            if mine[DEPTH]:
                fine = _again(row, limit, token, mine, holds)
                _judge(fine, mine[RELEASES], keys, k, returned[row], row, mine[NOW])
                continue
            hold = holds[made]
            mine[DEPTH], mine[NOW] = 1, made
            made += 1
            hold[START], hold[END], hold[FIRST], hold[LAST] = returned[row], NEVER, row, NONE
            hold[MODE], hold[SLOT], hold[TOKEN], hold[TOKEN_ROW] = does, slot[row], token, row
            if leased:
                hold[SINCE], hold[SEEN], hold[SEEN_ROW] = ended[row], NONE, row
                hold[PROMISE] = ended[row] + lease[row] if lease[row] != NEVER else NEVER
                hold[UNTIL] = hold[PROMISE]
        elif does <= FREE_EXCLUSIVE:
            fine = _released(row, does, limit, invoked, mine, holds)
            excuse = mine[ACQUIRES] + (mine[RELEASES] if limit > 1 else 0)
            _judge(fine, excuse, keys, k, returned[row], row, mine[NOW])
        elif does == LOST:
            fine = mine[DEPTH] == 0 or holds[mine[NOW], UNTIL] <= ended[row]
            if fine and mine[DEPTH]:
                mine[DEPTH], mine[LAPSED] = 0, 1
            _judge(fine, mine[RELEASES], keys, k, returned[row], row, mine[NOW])
        else:
            fine = _held(row, invoked, mine, holds)
            if fine and does == LONGER and holds[mine[NOW], UNTIL] != NEVER:
                hold = holds[mine[NOW]]
                hold[UNTIL] = max(hold[UNTIL], ended[row] + lease[hold[FIRST]])
            _judge(fine, mine[ACQUIRES], keys, k, returned[row], row, mine[NOW])
    return holds[:made]


@compiled
def _judge(fine: bool, excuse: int, keys: Ints, key: int, position: int, row: int, hold: int) -> None:
    """What cannot be is proved wrong, unless an unknown call may be the excuse for it; then nobody knows who holds it
    from there on."""
    if not fine:
        if excuse:
            keys[key, OPEN] = CROSSED
        else:
            _wrong(keys, key, position, row, hold, NONE)


@compiled
def _unknown(row: int, does: int, limit: int, invoked: Ints, mine: Ints, holds: Ints) -> None:
    if does <= SHARED:
        mine[ACQUIRES] += 1
    elif does <= FREE_EXCLUSIVE:
        fits = mine[DEPTH] == 1 and _frees(does, holds[mine[NOW], MODE])
        if fits:
            holds[mine[NOW], END], holds[mine[NOW], LAST] = invoked[row], row
            mine[DEPTH], mine[TENTATIVE] = 0, row
        if not fits or limit > 1:
            mine[RELEASES] += 1


@compiled
def _frees(does: int, mode: int) -> bool:
    return bool(does == FREE or (does == FREE_SHARED) == (mode == SHARED))


@compiled
def _again(row: int, limit: int, token: int, mine: Ints, holds: Ints) -> bool:
    """An acquire by who holds it already."""
    if mine[DEPTH] == limit:
        return False
    mine[DEPTH] += 1
    hold = holds[mine[NOW]]
    if hold[TOKEN] == NO_FENCE:
        hold[TOKEN], hold[TOKEN_ROW] = token, row
    return bool(token == NO_FENCE or token == hold[TOKEN])


@compiled
def _reopened(limit: int, mine: Ints, holds: Ints) -> None:
    """The unknown release that seemed to have ended the hold did not: it is one to spare."""
    if mine[TENTATIVE] != NONE:
        mine[RELEASES] += limit == 1
        mine[TENTATIVE], mine[DEPTH] = NONE, 1
        holds[mine[NOW], END], holds[mine[NOW], LAST] = NEVER, NONE


@compiled
def _released(row: int, does: int, limit: int, invoked: Ints, mine: Ints, holds: Ints) -> bool:
    _reopened(limit, mine, holds)
    if mine[DEPTH] and _frees(does, holds[mine[NOW], MODE]):
        mine[DEPTH] -= 1
        if mine[DEPTH] == 0:
            holds[mine[NOW], END], holds[mine[NOW], LAST] = invoked[row], row
        return True
    lapsed = bool(mine[LAPSED] == 1)
    mine[LAPSED] = 0
    return lapsed


@compiled
def _held(row: int, invoked: Ints, mine: Ints, holds: Ints) -> bool:
    _reopened(1, mine, holds)
    if mine[DEPTH]:
        holds[mine[NOW], SEEN], holds[mine[NOW], SEEN_ROW] = invoked[row], row
    return bool(mine[DEPTH] > 0)


@compiled
def _lasts(holds: Ints, hold: int, other: int, leased: int) -> bool:
    """Whether the definite hold ``hold`` lasts beyond the begin of ``other``."""
    begin = holds[other, START]
    if holds[hold, END] <= begin:
        return False
    return bool(not leased or holds[hold, UNTIL] > holds[other, SINCE] or holds[hold, SEEN] > begin)


@compiled
def _joined(one: int, two: int, rule: Ints, who: Ints, holds: Ints) -> int:
    """Unknown acquires with which two holds of one client may be one, if it may hold more than once."""
    same = holds[one, SLOT] == holds[two, SLOT]
    return int(who[holds[one, SLOT], ACQUIRES]) if same and rule[0] > 1 else 0


@compiled
def _sweep(at: Codes, holds: Ints, returned: Ints, key: Codes, rule: Ints, who: Ints, keys: Ints) -> None:
    """Do definite holds overlap, and do tokens grow? ``at`` has the hold that begins at a position. Of the holds that
    began before, the one that lasts longest is remembered, by mode, and the one with the highest token."""
    fenced, leased = rule[1], rule[2]
    last = np.full((len(keys), 2), NONE, np.int64)
    highest = np.full(len(keys), NONE, np.int64)
    for position in range(len(at)):
        h = at[position]
        if h == NONE:
            continue
        k, mode = key[holds[h, FIRST]], holds[h, MODE]
        spare = who[holds[h, SLOT], RELEASES]
        for other in range(2 - mode):
            g = last[k, other]
            if g != NONE and _lasts(holds, g, h, leased):
                spare += who[holds[g, SLOT], RELEASES]
                if leased and holds[g, PROMISE] <= holds[h, SINCE]:  # it went on, if it was not acquired anew
                    spare += who[holds[g, SLOT], ACQUIRES]
                short = leased and holds[h, PROMISE] <= holds[g, SINCE]
                if spare or short:
                    keys[k, OPEN] = max(keys[k, OPEN], SEARCHED)
                else:
                    row = holds[h, FIRST]
                    if (
                        leased and returned[holds[g, SEEN_ROW]] > position
                    ):  # only that answer tells that the hold went on
                        row = holds[g, SEEN_ROW]
                    _wrong(keys, k, returned[row], row, g, h)
        g = last[k, mode]
        if g == NONE or leased or holds[h, END] >= holds[g, END]:
            last[k, mode] = h
        if not fenced or holds[h, TOKEN] == NO_FENCE:
            continue
        g = highest[k]
        if g == NONE or holds[h, TOKEN] > holds[g, TOKEN]:
            highest[k] = h
        elif spare + who[holds[g, SLOT], RELEASES] + _joined(g, h, rule, who, holds):
            keys[k, OPEN] = max(keys[k, OPEN], SEARCHED)
        else:
            row = holds[h, TOKEN_ROW]
            _wrong(keys, k, returned[row], row, g, h)


def _outcome(calls: Calls, columns: _Columns, holds: Ints, keys: Ints) -> Outcome:
    proved = (keys[:, POSITION] != NEVER) & (keys[:, OPEN] != CROSSED)
    wrong = np.flatnonzero(proved)
    wrong = wrong[np.argsort(keys[wrong, POSITION], kind="stable")]
    failures = []
    for number, key in enumerate(wrong.tolist()):
        _, row, hold, other, _ = keys[key].tolist()
        position = int(calls.returned[row])
        rows = {row} if number >= SHOWN else {row, *_calls_of(columns, holds, hold, position)}
        rows |= _calls_of(columns, holds, other, position) if number < SHOWN else set()
        failures.append(Failure(key, position, tuple(sorted(rows))))
    undecided = np.flatnonzero(~proved & (keys[:, OPEN] != 0))
    return Outcome(tuple(failures), tuple(undecided.tolist()))


def _calls_of(columns: _Columns, holds: Ints, hold: int, position: int) -> set[int]:
    """The calls of a hold's client from its begin to its end, or to ``position``."""
    if hold == NONE:
        return set()
    first, last = int(holds[hold, FIRST]), int(holds[hold, LAST])
    until = len(columns.slot) if last == NONE else last + 1
    rows = first + np.flatnonzero(columns.slot[first:until] == columns.slot[first])
    rows = rows[(columns.invoked[rows] < position) & (columns.action[rows] != IGNORED)]
    found: set[int] = set(rows.tolist())
    return found
