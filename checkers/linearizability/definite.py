"""Check locks whose holds have an owner in linear time, by their definite holds.

*The definite hold.* The calls of one client on one key follow each other. In any linearization, a hold of the client
lasts from a point in the window of the acquire to a point in the window of the release that ends it. So every hold
contains its *definite hold*: the time from the return of the acquire to the invocation of the release. If all outcomes
are known, this follows:

    A history is linearizable if and only if each client's calls on a key alternate as the model demands (no release
    without a hold, no acquire beyond the limit), no two definite holds of a key overlap (unless both are shared), and
    the tokens of the holds, in the order of their definite holds, grow.

*Only if:* Holds contain their definite holds, so definite holds that overlap mean holds that overlap. Of two disjoint
definite holds, the later one cannot come first: its release takes effect after the invocation of that release, which is
after the other acquire has returned. *If:* Let every acquire that begins a hold take effect at its return, every
release that ends a hold at its invocation, and every call inside a hold at any point of its window. The holds are then
the definite holds. Gibbons and Korach ("Testing shared memories", 1997) make this argument by intervals for registers.

*Unknown outcomes.* We assume that an unknown acquire did not happen. We assume that an unknown release whose client
holds the lock happened at its invocation, unless the client's next known call is a release, which then ended the hold.
If no rule is broken under these assumptions, they give an explicit order. If a rule is broken, the history is proved
wrong only if the clients concerned have no spare unknown call that could explain it:

- Only a release of its own client can interrupt a definite hold. So two holds that overlap, and tokens that fall, are
  proved wrong if neither client has a spare unknown release, which is one that was not used to end a hold. (With a
  limit above 1, no unknown release is ever known to have ended a hold, so all are spare.)
- The same is true for an acquire beyond the limit, and for an inner acquire whose token differs from the outer one.
  With a limit above 1, also, two holds of a client that has an unknown acquire may be one hold with one token.
- A release without a hold needs an acquire. It is proved wrong if its client has no unknown acquire (and, with a limit
  above 1, no unknown release that may not have happened).

The search decides what is not proved. It also decides a key on which a client makes a call before an earlier known call
of it returned, or on which a known call is possible only because of an unknown one.

*Leases* (:class:`harness.checkers.models.LeaseMutex`). The promise of a grant ends one lease after the end of the
acquire, or of the last successful extend, whose call may have a lease of its own. The hold is definite until the
promise ends, or until the invocation of the last answer "still held" if that is later, but at most until the invocation
of the release. A grant to another client that ended at or after the end of the promise is correct. The answer "lost"
ends the hold; it is wrong if it returned before the promise ended. A client may release a lost or expired hold once,
and may acquire the lock again. Three more cases are left to the search: a hold that is definite only because of later
answers, if its client has an unknown acquire (the lease may have expired and the lock may have been acquired again); a
grant whose own promise ended before the other grant returned (it may have come first); and an unknown release of a hold
that may have expired, which counts as spare.

*The part that proves it.* If all calls of one hold, or all calls of one client, are removed from a correct history of
these models, the rest is still a sequence of holds, hence correct. So if the calls of the two holds, or the calls of
the one client since its last hold began, are wrong, the whole history is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.checkers.models import (
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
from harness.history.calls import NEVER, NO_FENCE, NONE, Calls, Codes, Ints, Marks
from harness.history.compiled import compilable, fastest

from .problem import ProvedImpossible, QuickResult

SHOWN: Final = 20
"""The most failures that get all their calls as evidence; later failures get only the last call."""

IGNORED, EXCLUSIVE, SHARED, FREE, FREE_SHARED, FREE_EXCLUSIVE, HELD, LONGER, LOST = range(-1, 8)
"""Effect of a call. It acquires (EXCLUSIVE, SHARED); it releases (FREE any hold, the others only a hold of that mode);
it reports that the lock is held (HELD), is held and extended (LONGER), or is lost (LOST)."""

START, END, FIRST, LAST, MODE, SLOT, TOKEN, TOKEN_ROW = range(8)
"""Columns of a hold: start and end of its definite hold (positions), the calls that began and ended it, whether it is
shared, its slot, its token, and the call that returned the token."""
PROMISE, UNTIL, SEEN, SEEN_ROW, SINCE = range(8, 13)
"""More columns of a hold, for locks with leases: the end of the promise that the grant made, and of the longest promise
since (ns); the invocation of the last answer "still held", and its call; and the end of its acquire (ns)."""
DEPTH, NOW, TENTATIVE, ACQUIRES, RELEASES, LAPSED, RETURNED = range(7)
"""Columns of a slot (one client on one key): how often the client holds the key; its latest hold; the unknown release
that seems to have ended that hold; the numbers of unknown acquires and of spare unknown releases so far; whether the
client has lost the hold and not released it yet; and the position at which its last known call returned."""
POSITION, ROW, HOLD, OTHER, OPEN = range(5)
"""Columns of a key: the position where it was first proved wrong, the call that returned there, the one or two holds
concerned, and whether it needs a search. SEARCHED: it needs one unless it is proved wrong. CROSSED: it needs one in any
case, because two calls of a client cross, or only an unknown call can explain one of them."""
SEARCHED, CROSSED = 1, 2


def check(calls: Calls, model: Model) -> QuickResult:
    """Check all keys against ``model``, whose type is one of ``OWNED``. Raises ValueError for an unknown mode."""
    if not len(calls):
        return QuickResult()
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
    holds = fastest(_walk, rows=len(calls))(*columns.all(), rule, who, keys)
    if len(holds):
        at: Codes = np.full(int(holds[:, START].max()) + 1, NONE, dtype=np.int32)
        at[holds[:, START]] = np.arange(len(holds))
        fastest(_sweep, rows=len(calls))(at, holds, columns.returned, columns.key, rule, who, keys)
    return _outcome(calls, columns, holds, keys)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns of all calls: the key, the slot (client and key as one number), the action, and the columns of the
    history."""

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
    """Return the slot of each call (client and key as one number), and the number of slots."""
    count = len(calls.keys) * width
    if len(calls.keys) == 1:
        return calls.client, count
    if count <= len(calls) // 4 + 1000:
        return calls.key * np.int32(width) + calls.client, count
    found, slot = np.unique(calls.key.astype(np.int64) * width + calls.client, return_inverse=True)
    return slot.reshape(-1).astype(np.int32), len(found)


def _actions(calls: Calls, model: Model) -> Marks:
    """Return what each call does, such as EXCLUSIVE or FREE."""
    by_name = {**dict.fromkeys(ACQUIRE, EXCLUSIVE), **dict.fromkeys(RELEASE, FREE)}
    action = np.array([by_name.get(f, IGNORED) if f in LOCKING else IGNORED for f in calls.fs], dtype=np.int8)[calls.f]
    if isinstance(model, ReadWriteLock):
        _modes(calls, model, action)
    elif isinstance(model, LeaseMutex):
        lease_reports = calls.named(["extend", "check"]) & (calls.known == 1)
        action[lease_reports & (calls.good == 1)] = HELD
        action[lease_reports & (calls.good == 0)] = LOST
        action[calls.named(["extend"]) & (action == HELD)] = LONGER
    return action


def _modes(calls: Calls, model: ReadWriteLock, action: Marks) -> None:
    mine = np.flatnonzero(calls.named(sorted(model.fs)))
    arguments = calls.f[mine].astype(np.int64) * (len(calls.values) + 1) + calls.argument[mine] + 1
    found, first, inverse = np.unique(arguments, return_index=True, return_inverse=True)
    modes = np.empty(len(found), dtype=np.int8)
    for number, row in enumerate(mine[first].tolist()):
        f = calls.fs[calls.f[row]]
        if f in RELEASE or f.startswith("release"):
            modes[number] = {"release-read": FREE_SHARED, "release-write": FREE_EXCLUSIVE}.get(f, FREE)
        else:
            modes[number] = SHARED if shared(Operation(f, calls.argument_of(row))) else EXCLUSIVE
    action[mine] = modes[inverse.reshape(-1)]


@compilable
def _wrong(keys: Ints, key: int, position: int, row: int, hold: int, other: int) -> None:
    """Note that the key is proved wrong at ``position``; the earliest proof counts."""
    if position < keys[key, POSITION]:
        keys[key, POSITION], keys[key, ROW], keys[key, HOLD], keys[key, OTHER] = position, row, hold, other


@compilable
def _walk(
    key: Codes, slot: Codes, action: Marks, known: Marks, invoked: Ints, returned: Ints, ended: Ints, fence: Ints,
    lease: Ints, rule: Ints, who: Ints, keys: Ints,
) -> Ints:  # fmt: skip
    """Walk through the calls of each slot in order; return the holds."""
    limit, fenced, leased = rule[0], rule[1], rule[2]
    holds, made = _room(action, known, leased), 0
    for row in range(len(action)):
        does, mine, k = action[row], who[slot[row]], key[row]
        if does == IGNORED:
            continue
        if invoked[row] < mine[RETURNED]:
            keys[k, OPEN] = CROSSED
        if known[row] == 0:
            _unknown(row, does, limit, invoked, mine, holds)
            continue
        mine[RETURNED] = returned[row]
        if does <= SHARED:
            token = fence[row] if fenced else NO_FENCE
            if leased:
                _expire(ended[row], mine, holds)
            mine[TENTATIVE], mine[LAPSED] = NONE, 0
            if mine[DEPTH] == 0:
                mine[DEPTH], mine[NOW] = 1, made
                _begin(holds[made], row, does, slot[row], token, returned[row])
                if leased:
                    _promise(holds[made], row, ended[row], lease[row])
                made += 1
                continue
            fine, excuse = _again(row, limit, token, mine, holds), mine[RELEASES]
        elif does <= FREE_EXCLUSIVE:
            fine = _released(row, does, limit, invoked, mine, holds)
            excuse = mine[ACQUIRES] + (mine[RELEASES] if limit > 1 else 0)
        elif does == LOST:
            fine, excuse = _lost(ended[row], mine, holds), mine[RELEASES]
        else:
            fine, excuse = _held(row, does, invoked, ended, lease, mine, holds), mine[ACQUIRES]
        _judge(fine, excuse, keys, k, returned[row], row, mine[NOW])
    return holds[:made]


@compilable
def _room(action: Marks, known: Marks, leased: int) -> Ints:
    """Return an array with a row for each hold that there can be."""
    count = 0
    for row in range(len(action)):
        count += known[row] == 1 and IGNORED < action[row] <= SHARED
    return np.empty((count, SINCE + 1 if leased else PROMISE), dtype=np.int64)


@compilable
def _expire(now: int, mine: Ints, holds: Ints) -> None:
    """End the client's hold if its lease expired at ``now`` or before. A release of unknown outcome did not end it."""
    if mine[NOW] != NONE and holds[mine[NOW], UNTIL] <= now:
        mine[DEPTH] = 0
        mine[RELEASES] += mine[TENTATIVE] != NONE


@compilable
def _begin(hold: Ints, row: int, does: int, slot: int, token: int, position: int) -> None:
    hold[START], hold[END], hold[FIRST], hold[LAST] = position, NEVER, row, NONE
    hold[MODE], hold[SLOT], hold[TOKEN], hold[TOKEN_ROW] = does, slot, token, row


@compilable
def _promise(hold: Ints, row: int, ended: int, lease: int) -> None:
    """Note until when the grant in ``row`` promises the hold."""
    hold[SINCE], hold[SEEN], hold[SEEN_ROW] = ended, NONE, row
    hold[PROMISE] = ended + lease if lease != NEVER else NEVER
    hold[UNTIL] = hold[PROMISE]


@compilable
def _judge(fine: bool, excuse: int, keys: Ints, key: int, position: int, row: int, hold: int) -> None:
    """Mark an impossible call as wrong, or, if an unknown call may excuse it, leave the key to the search: from there
    on it is not known who holds the key."""
    if not fine:
        if excuse:
            keys[key, OPEN] = CROSSED
        else:
            _wrong(keys, key, position, row, hold, NONE)


@compilable
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


@compilable
def _frees(does: int, mode: int) -> bool:
    return bool(does == FREE or (does == FREE_SHARED) == (mode == SHARED))


@compilable
def _again(row: int, limit: int, token: int, mine: Ints, holds: Ints) -> bool:
    """Note a re-acquire by the holder; return whether the model allows it."""
    if mine[DEPTH] == limit:
        return False
    mine[DEPTH] += 1
    hold = holds[mine[NOW]]
    if hold[TOKEN] == NO_FENCE:
        hold[TOKEN], hold[TOKEN_ROW] = token, row
    return bool(token == NO_FENCE or token == hold[TOKEN])


@compilable
def _reopened(limit: int, mine: Ints, holds: Ints) -> None:
    """Count the unknown release that seemed to have ended the hold as spare: the hold went on."""
    if mine[TENTATIVE] != NONE:
        mine[RELEASES] += limit == 1
        mine[TENTATIVE], mine[DEPTH] = NONE, 1
        holds[mine[NOW], END], holds[mine[NOW], LAST] = NEVER, NONE


@compilable
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


@compilable
def _lost(now: int, mine: Ints, holds: Ints) -> bool:
    """End the hold that is reported lost; return False if its promise lasts beyond ``now``."""
    fine = bool(mine[DEPTH] == 0 or holds[mine[NOW], UNTIL] <= now)
    if fine and mine[DEPTH]:
        mine[DEPTH], mine[LAPSED] = 0, 1
    return fine


@compilable
def _held(row: int, does: int, invoked: Ints, ended: Ints, lease: Ints, mine: Ints, holds: Ints) -> bool:
    """Note the answer that the lock is held, and what an extension promises; return False if nothing is held."""
    _reopened(1, mine, holds)
    if mine[DEPTH] == 0:
        return False
    hold = holds[mine[NOW]]
    hold[SEEN], hold[SEEN_ROW] = invoked[row], row
    if does == LONGER and hold[UNTIL] != NEVER:
        promised = lease[row] if lease[row] != NEVER else lease[hold[FIRST]]
        hold[UNTIL] = max(hold[UNTIL], ended[row] + promised)
    return True


@compilable
def _lasts(holds: Ints, hold: int, other: int, leased: int) -> bool:
    """Return whether the definite hold ``hold`` lasts beyond the beginning of ``other``."""
    begin = holds[other, START]
    if holds[hold, END] <= begin:
        return False
    return bool(not leased or holds[hold, UNTIL] > holds[other, SINCE] or holds[hold, SEEN] > begin)


@compilable
def _joined(one: int, two: int, rule: Ints, who: Ints, holds: Ints) -> int:
    """Count the unknown acquires that may join two holds of one client into one, if the model lets it hold more than
    once."""
    same = holds[one, SLOT] == holds[two, SLOT]
    return int(who[holds[one, SLOT], ACQUIRES]) if same and rule[0] > 1 else 0


@compilable
def _sweep(at: Codes, holds: Ints, returned: Ints, key: Codes, rule: Ints, who: Ints, keys: Ints) -> None:
    """Check that definite holds do not overlap, and that tokens grow.

    ``at`` is the hold that begins at each position. The sweep remembers two of the earlier holds: by mode, the one that
    lasts longest, and the one with the highest token.
    """
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
                if leased and holds[g, PROMISE] <= holds[h, SINCE]:  # the hold went on, unless it was acquired again
                    spare += who[holds[g, SLOT], ACQUIRES]
                short = leased and holds[h, PROMISE] <= holds[g, SINCE]
                if spare or short:
                    keys[k, OPEN] = max(keys[k, OPEN], SEARCHED)
                else:
                    row = holds[h, FIRST]
                    if (
                        leased and returned[holds[g, SEEN_ROW]] > position
                    ):  # only that answer shows that the hold went on
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


def _outcome(calls: Calls, columns: _Columns, holds: Ints, keys: Ints) -> QuickResult:
    proved = (keys[:, POSITION] != NEVER) & (keys[:, OPEN] != CROSSED)
    wrong = np.flatnonzero(proved)
    wrong = wrong[np.argsort(keys[wrong, POSITION], kind="stable")]
    failures = []
    for number, key in enumerate(wrong.tolist()):
        _, row, hold, other, _ = keys[key].tolist()
        position = int(calls.returned[row])
        rows = {row} if number >= SHOWN else {row, *_calls_of(columns, holds, hold, position)}
        rows |= _calls_of(columns, holds, other, position) if number < SHOWN else set()
        failures.append(ProvedImpossible(key, position, tuple(sorted(rows))))
    undecided = np.flatnonzero(~proved & (keys[:, OPEN] != 0))
    return QuickResult(tuple(failures), tuple(undecided.tolist()))


def _calls_of(columns: _Columns, holds: Ints, hold: int, position: int) -> set[int]:
    """Return the calls of a hold's client from the hold's beginning to its end, or to ``position``."""
    if hold == NONE:
        return set()
    first, last = int(holds[hold, FIRST]), int(holds[hold, LAST])
    until = len(columns.slot) if last == NONE else last + 1
    rows = first + np.flatnonzero(columns.slot[first:until] == columns.slot[first])
    rows = rows[(columns.invoked[rows] < position) & (columns.action[rows] != IGNORED)]
    found: set[int] = set(rows.tolist())
    return found
