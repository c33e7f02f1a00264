"""Check that a lock's answers have an order that the lock's model allows (Herlihy and Wing 1990).

Other checkers look for particular failures. This one asks whether any lock that keeps the promise of its grants could
have given these answers at all: each call takes effect at one moment between its invocation and its return. Calls that
failed did not happen. The model follows from the grants:

- ``rw-lock`` if some are shared;
- ``reentrant-mutex`` if some are nested, ``reentrant-fenced-mutex`` if they have tokens, too;
- ``lease-mutex`` if a grant, or the lock for all of them, states how long it is valid. It may end then, but not before.
  A lease that the grant does not state began when the server wrote the key: the answer may have been late;
- ``fenced-mutex`` if they have tokens. A grant lasts until its release, and tokens grow;
- ``owner-mutex`` otherwise. A grant lasts until its release.

The models of readers and of nested grants have no leases, and tokens that are texts have no order, so that such grants
with leases are not judged here, and such tokens are left out. :mod:`.fencing` judges the tokens of locks with leases.

A hold may end in other ways than by a release that returned ok: the release was refused or has an unknown outcome, the
lock said that it is lost, or the client died. The lock is free to grant the key from then on, as
``docs/histories.md`` says, so an unknown release is put in at that moment. An acquire of unknown outcome did not
happen. The answer ok to a release after a call of unknown outcome is left out: a client that does not know whether it
holds the lock may release what it does not hold, and many locks say ok to that and do nothing. What the release did to
others is the matter of :mod:`.ownership` and :mod:`.keys`.

The linear algorithm of :mod:`.linearizability.definite` decides this, and :mod:`.linearizability.repair` where an
unknown release matters. Neither has a limit of time, so the verdict does not depend on the speed of the machine.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from harness.checkers.models import (
    FencedMutex,
    LeaseMutex,
    Model,
    OwnerMutex,
    ReadWriteLock,
    ReentrantFencedMutex,
    ReentrantMutex,
)
from harness.history import SECOND, History
from harness.history.calls import NEVER, NO_FENCE, NONE, Calls, Ints
from harness.wording import counted

from .base import CAP, Verdict, Violation, conclude, no_lock_taken, not_applicable
from .fencing import is_ordered
from .holds import DIED, EXPIRED, FOREVER, LOST, RELEASED, Holds, holds
from .leases import Leases, lease_of, reason
from .linearizability import definite
from .linearizability.problem import Budget, ProvedImpossible, QuickResult, problem
from .view import ACQUIRE, CHECK, EXTEND, FAIL, INVOKE, OK, RELEASE, View

LIMITS: Final = Budget(seconds=math.inf, configurations=20_000)
NAMES: Final = ("acquire", "release", "extend", "check")
_NOTHING: Final[dict[str, Any]] = {}


class LinearizabilityChecker:
    """The answers for each key have an order that the lock's model allows; the module says which model.

    The cause of a violation is that of the overlap of its two grants, as :mod:`.leases` finds it."""

    name = "linearizability"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        found = holds(history)
        model = model_of(found)
        if model is None:
            return not_applicable(history, "no model has leases and also readers or nested grants")
        leases = Leases.of(history)
        calls = settled(found, leases)
        outcome = _decided(calls, model, definite.check(calls, model))
        violations = [_violation(found, calls, failure, model.name, leases) for failure in outcome.failures[:CAP]]
        return conclude(
            history,
            violations,
            fine=f"{counted(len(calls), 'call')} fit an order that the model {model.name} allows",
            doubts=(_too_few(found), _undecided(calls, outcome.undecided)),
            stats={"calls": len(calls)},
            count=len(outcome.failures),
        )


def _decided(calls: Calls, model: Model, outcome: QuickResult) -> QuickResult:
    """Decide the undecided keys as far as that is possible without a long search."""
    if not outcome.undecided:
        return outcome
    from .linearizability import repair  # late: few runs need it

    failures, undecided = list(outcome.failures), []
    for key in outcome.undecided:
        found = repair.decide(problem(calls, model, key), model, LIMITS)
        if found.wrong is not None:
            part, answer = found.wrong
            failures.append(ProvedImpossible(key, answer.stuck, tuple(part.rows.tolist())))
        elif found.order is None:
            undecided.append(key)
    return QuickResult(tuple(sorted(failures, key=lambda failure: failure.position)), tuple(undecided))


def model_of(found: Holds) -> Model | None:
    """Return the model of the lock that gave these grants; None if no model describes them."""
    leased, nested = bool((found.stated_end != FOREVER).any()), len(found.nested) > 0
    if leased:
        return None if nested or found.shared.any() else LeaseMutex()
    if found.shared.any():
        return ReadWriteLock()
    tokens = any(token(found.view, grant) != NO_FENCE for grant in found.grant.tolist())
    if nested:
        return ReentrantFencedMutex() if tokens else ReentrantMutex()
    return FencedMutex() if tokens else OwnerMutex()


def token(columns: View, grant: int) -> int:
    """Return the token of a grant; NO_FENCE if it has none, or one that has no order."""
    fence: Any = (columns.value[grant] or _NOTHING).get("fence")
    return int(fence) if is_ordered(fence) else NO_FENCE


def settled(found: Holds, leases: Leases) -> Calls:
    """Return the calls of a run with their outcomes settled as the module says, in the order of invocations."""
    columns = found.view
    rows = [*_granted(found), *_released(found), *_endings(found), *_told(columns)]
    unsure = _unsure(columns, rows)
    return _calls(columns, sorted(row for row in rows if row not in unsure), leases)


Row = tuple[int, int, int, int, int]
"""A call: the positions of invocation and return (NEVER: unknown), the number of its name, its client, and its key."""


def _row(columns: View, invoked: int, returned: int, f: int) -> Row:
    return invoked, returned, f, int(columns.client[invoked]), int(columns.key[invoked])


def _granted(found: Holds) -> list[Row]:
    """Return the acquires that succeeded."""
    columns = found.view
    asked = columns.rows(ACQUIRE, INVOKE)
    return [_row(columns, *pair, 0) for pair in _pairs(columns, asked) if columns.type[pair[1]] == OK]


def _pairs(columns: View, invoked: Ints) -> list[tuple[int, int]]:
    """Return the positions of these invocations and of their returns, leaving out calls that did not return."""
    done = columns.done[invoked]
    back = done != NONE
    return list(zip(invoked[back].tolist(), done[back].tolist(), strict=True))


def _released(found: Holds) -> list[Row]:
    """Return the releases that succeeded, without those of clients that knew that they held nothing."""
    columns = found.view
    pairs = _pairs(columns, columns.rows(RELEASE, INVOKE))
    return [_row(columns, *pair, 1) for pair in pairs if columns.type[pair[1]] == OK and not columns.idle(pair[0])]


def _endings(found: Holds) -> list[Row]:
    """Return unknown releases for the holds that ended otherwise than by a release that succeeded."""
    columns = found.view
    done = np.where(found.release == NONE, NONE, columns.done[found.release])
    freed = (done != NONE) & (columns.type[done] == OK)
    left = np.isin(found.ended, (RELEASED, LOST, *DIED)) | ((found.ended == EXPIRED) & (found.stated_end == FOREVER))
    left &= ~freed
    positions = np.where(found.ended == RELEASED, found.release, np.searchsorted(columns.time, found.end, side="left"))
    ended = [
        (int(positions[row]), NEVER, 1, int(found.client[row]), int(found.key[row]))
        for row in np.flatnonzero(left).tolist()
    ]
    if not len(found.nested):
        return ended
    refused = [
        _row(columns, at, NEVER, 1)
        for at in columns.rows(RELEASE, INVOKE).tolist()
        if columns.done[at] == NONE or columns.type[columns.done[at]] != OK
    ]
    return sorted({*ended, *refused})


def _told(columns: View) -> list[Row]:
    """Return the answers to extend and check that say whether the lock is held."""
    return [
        _row(columns, *pair, number)
        for code, number in ((EXTEND, 2), (CHECK, 3))
        for pair in _pairs(columns, columns.rows(code, INVOKE))
        if columns.type[pair[1]] == OK
    ]


def _unsure(columns: View, known: list[Row]) -> set[Row]:
    """Return the releases whose client did not know whether it held the key: the last call had an unknown outcome."""
    calls = [*columns.rows(ACQUIRE, INVOKE).tolist(), *columns.rows(RELEASE, INVOKE).tolist()]
    unknown = [
        _row(columns, at, NEVER, 0)
        for at in calls
        if columns.done[at] == NONE or columns.type[columns.done[at]] not in (OK, FAIL)
    ]
    if not unknown:
        return set()
    by_slot: dict[tuple[int, int], list[Row]] = {}
    for row in sorted(known):
        if row[1] != NEVER and row[2] < 2:
            by_slot.setdefault(row[3:], []).append(row)
    following = (next((row for row in by_slot.get(one[3:], ()) if row[0] > one[0]), None) for one in unknown)
    return {row for row in following if row is not None and row[2] == 1}


def _calls(columns: View, rows: list[Row], found_leases: Leases) -> Calls:
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 5)
    invoked, returned, f, client, key = table.T
    known = returned != NEVER
    time = columns.time
    back = np.where(known, returned, 0)
    value = [columns.value[at] or _NOTHING if at != NEVER else _NOTHING for at in returned.tolist()]
    leases = [_lease(columns, found_leases, *pair) for pair in zip(rows, value, strict=True)]
    shared = [bool((columns.value[at] or _NOTHING).get("shared")) for at in invoked.tolist()]
    return Calls(
        fs=list(NAMES),
        keys=columns.keys,
        clients=columns.names,
        f=f.astype(np.int32),
        key=key.astype(np.int32),
        client=client.astype(np.int32),
        process=columns.process[invoked] if len(rows) else invoked,
        known=known.astype(np.int8),
        invoked=invoked,
        returned=returned,
        began=time[invoked] if len(rows) else invoked,
        ended=np.where(known, time[back] if len(rows) else 0, NEVER),
        argument=np.where(np.array(shared, dtype=bool), 0, NONE).astype(np.int32),
        result=np.full(len(rows), NONE, dtype=np.int32),
        fence=np.array([token(columns, at) if at != NEVER else NO_FENCE for at in returned.tolist()], dtype=np.int64),
        lease=np.array(leases, dtype=np.int64),
        good=np.array([_good(*pair) for pair in zip(f.tolist(), value, strict=True)], dtype=np.int8),
        values=[{"shared": True}],
        origin=columns.origin,
    )


def _lease(columns: View, leases: Leases, row: Row, value: dict[str, Any]) -> int:
    """Return for how long (ns) after its return a call promises the lock; NEVER without a promise.

    If the answer does not say it, the lease that the lock states for all grants began when the server wrote the key. If
    that was not recorded, it may have begun as early as the call."""
    invoked, returned, _, client, key = row
    stated = columns.seconds("lease")
    said: float | None = value.get("valid_for")
    if said is not None:
        return round(said * SECOND)
    if stated is None:
        return NEVER
    if returned == NEVER:
        return stated
    asked, given = int(columns.time[invoked]), int(columns.time[returned])
    end = leases.written_end(columns.keys[key], columns.name(client), asked, given, stated)
    return int(max(0, min(asked + stated if end is None else end, given + stated) - given))


def _good(f: int, value: dict[str, Any]) -> int:
    if f < 2:
        return NONE
    return int(value.get("extended" if f == 2 else "valid") is not False)


def _violation(found: Holds, calls: Calls, failure: ProvedImpossible, model: str, leases: Leases) -> Violation:
    columns, rows = found.view, list(failure.rows)
    last = next(row for row in reversed(rows) if calls.returned[row] == failure.position)
    key, at = calls.keys[failure.key], columns.at
    involved = tuple(columns.call(int(calls.invoked[row])) for row in rows)
    moment = int(calls.ended[last])
    answer = "said that it was lost" if calls.good[last] == 0 else "returned ok"
    what = f"{calls.clients[calls.client[last]]}'s {NAMES[calls.f[last]]} {answer} at {at(moment)}"
    harm = f"The answers for {key} fit no order that the model {model} allows"
    pair = _grants(found, calls, rows)
    if pair is None:
        return _of_one_client(
            found,
            calls,
            last,
            Violation("no-order", key, f"{harm}: {what}", moment, moment, involved, harm=harm),
            leases,
        )
    lease, ruling = leases.overlap(found, *pair)
    why = reason(lease, ruling, at)
    holder = columns.name(int(found.client[pair[0]]))
    who = f"{holder} was granted it at {at(int(found.start[pair[0]]))}, and {what}"
    return Violation("no-order", key, f"{harm}: {who}; {why}", moment, moment, involved, ruling.blame, harm, why)


def _of_one_client(found: Holds, calls: Calls, last: int, violation: Violation, leases: Leases) -> Violation:
    """Return a violation by the answers to one client, with a clock as its cause if its lease had ended by that: then
    an extend or a check says that the lock is lost before the end of its lease."""
    mine = np.flatnonzero((found.grant < calls.invoked[last]) & (found.key == calls.key[last]))
    mine = mine[found.client[mine] == calls.client[last]]
    if calls.good[last] != 0 or not len(mine):
        return violation
    lease = lease_of(found, int(mine[-1]))
    ruling = leases.rule(lease, violation.until_ns)
    if ruling.blame != "clock":
        return violation
    why = reason(lease, ruling, found.view.at)
    return replace(violation, sentence=f"{violation.sentence}; {why}", blame="clock", cause=why)


def _grants(found: Holds, calls: Calls, rows: list[int]) -> tuple[int, int] | None:
    """Return the holds of the two clients in the order of their grants, or None if the calls are of one client."""
    grants = {int(grant): row for row, grant in enumerate(found.grant)}
    begun = sorted(grants[at] for row in rows if (at := int(calls.returned[row])) in grants)
    pairs = [pair for pair in pairwise(begun) if found.client[pair[0]] != found.client[pair[1]]]
    return pairs[-1] if pairs else None


def _too_few(found: Holds) -> str | None:
    return None if len(found) else "no acquire succeeded: there is nothing to order"


def _undecided(calls: Calls, keys: tuple[int, ...]) -> str | None:
    if not keys:
        return None
    return f"the answers for {calls.keys[keys[0]]} can be ordered only by a search; harness check searches"
