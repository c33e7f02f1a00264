"""Check that the lock passes from client to client, and that no client is left out (``HO``).

A *hand-over* is a grant of a key to a client while the last grant of that key went to another one, not both shared. A
run without any hand-over has not tested the lock: the checker says what was missing.

A client is *left out* if it requested a key, was never granted it, and no fault counts for it from its first to its
last request (:mod:`.excuses`). The checker adds up, over the clients that a key left out, for how long each requested
the key (pauses of up to ``slack`` do not count as giving up, and the reason of a refusal does not matter) while it was
free: from the ``ok`` of a release to the next grant, with no other hold. If the sum reaches :data:`MISSED` times the
slack, the lock is broken. An available lock grants a free key within the slack, so a client looks at it at least once
per slack. If the moments at which it looks are independent of the moments at which others release, it misses free times
of t s in sum with a probability of at most e^(-t / slack), and the clients of such a sum miss all of them with a
probability below e^-20 = 2e-9.

*Waiters* sleep if clients that wait get a free key too rarely. Only the part of each request counts that begins a
quarter of the slack after it (the first try is over then), and only the part of a free time that begins a tenth of the
slack after it (its next holder has got it by then, or nobody looks). If each waiter looks at least once per slack, the
waits end with a grant at least as often as a Poisson variable whose mean is their sum of free times, in slacks. Its
probability of at most the observed number is below e^-20 if the lock is broken (Chernoff's bound).

A client that is never granted because others are always faster counts only for the time in which the key was free,
which is short then. That is no violation: in a herd of waiters, the client with the longest way to the service may lose
every race (``etcd3-lock`` and ``zookeeper-herd`` show it without any fault). Locks that promise a queue are judged by
:mod:`.fairness`. Shared requests are not judged: a lock may prefer writers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from harness.history import History
from harness.wording import counted, in_seconds, listed

from .base import Verdict, Violation, conclude, no_lock_taken
from .excuses import Excuses
from .fairness import RequestTable
from .free import FreeTimes, free_times, surely_free
from .holds import Holds, holds
from .sweep import grouped_order
from .view import ACQUIRE, INVOKE, Ints, View

MISSED: Final = 20
FIRST_TRY: Final = 4
"""The slack divided by the length of a request's part that does not count as waiting."""
PASSING: Final = 10
"""The slack divided by the time for which a key may be free while its next holder gets it."""


class HandoverChecker:
    """A key that several clients request is handed over between them, and no client is kept from a free key.

    Unknown if there was no hand-over; the module has the rules.
    """

    name = "handover"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        found = holds(history)
        passed = len(handovers(found))
        waits = RequestTable(found, Excuses(history))
        return conclude(
            history,
            [*_left_out(waits), *_asleep(waits)],
            fine=f"{counted(passed, 'grant')} went to another client than the key's last grant",
            doubts=(None if passed else _missing(found),),
            stats={"handovers": passed, "never_granted": _never_granted(waits)},
        )


def handovers(found: Holds) -> Ints:
    """Return the rows of the holds that began with a hand-over, in the order of key and time."""
    order = grouped_order(found.key, found.start, found.end)
    here, before = order[1:], order[:-1]
    passed = (found.key[here] == found.key[before]) & (found.client[here] != found.client[before])
    rows: Ints = here[passed & ~(found.shared[here] & found.shared[before])]
    return rows


def _missing(found: Holds) -> str:
    """Return what a run without hand-overs lacks."""
    columns = found.view
    rows = columns.rows(ACQUIRE, INVOKE)
    pairs = np.unique(np.stack((columns.key[rows], columns.client[rows])), axis=1)
    if not pairs.shape[1]:
        return "no client requested a key, so no hand-over was tested"
    keys, clients = np.unique(pairs[0], return_counts=True)
    number, most = int(keys[clients.argmax()]), int(clients.max())
    key = columns.keys[number]
    if most < 2:
        return f"no key was requested by more than one client ({key} by one), so no hand-over was tested"
    mine = found.client[found.key == number]
    holders = [columns.name(client) for client in dict.fromkeys(mine.tolist())]
    grants = f"only {listed(holders)} got it ({counted(len(mine), 'grant')})" if holders else "none got it"
    return f"{most} clients requested {key} and {grants}, so no hand-over was tested"


def _never_granted(waits: RequestTable) -> dict[str, list[str]]:
    """Return by key the clients that requested it and were never granted it."""
    columns, outsiders = waits.columns, {}
    for key in np.unique(waits.key).tolist():
        mine = waits.key == key
        names = np.setdiff1d(waits.client[mine], waits.client[mine & waits.granted])
        if len(names):
            outsiders[columns.keys[key]] = [columns.name(client) for client in names.tolist()]
    return outsiders


def _left_out(waits: RequestTable) -> Iterator[Violation]:
    """Yield the keys that some clients never got, although they requested them while they were free."""
    slack = waits.columns.seconds("slack", 1.0) or 0
    for key in np.unique(waits.found.key).tolist():
        mine = waits.key == key
        clients = np.setdiff1d(waits.client[mine & ~waits.shared], waits.client[mine & waits.granted])
        if not len(clients):
            continue
        free = free_times(waits.found, key)
        missed: dict[int, int] = {}
        for client in clients.tolist():
            rows = np.flatnonzero(mine & (waits.client == client) & (waits.failed | waits.pending) & ~waits.shared)
            if len(rows) and not waits.excuses.any(client, int(waits.begin[rows[0]]), int(waits.done[rows].max())):
                missed[client] = int(
                    (free.before(_until_next(waits, rows, slack)) - free.before(waits.begin[rows])).sum()
                )
        if sum(missed.values()) >= MISSED * slack > 0:
            yield _violation(waits, key, missed)


def _asleep(waits: RequestTable) -> Iterator[Violation]:
    """Yield the keys that waiting clients got too rarely, although they were free while they waited."""
    slack = waits.columns.seconds("slack", 1.0) or 0
    for key in np.unique(waits.found.key).tolist() if slack else ():
        waiting = (waits.key == key) & ~waits.shared & (waits.granted | waits.failed)
        rows = np.flatnonzero(waiting & (waits.done > waits.begin + slack // FIRST_TRY))
        free = _unused(surely_free(waits.found, key), slack // PASSING)
        missed = free.before(waits.done[rows]) - free.before(waits.begin[rows] + slack // FIRST_TRY)
        if missed.sum() < MISSED * slack:
            continue
        met = [
            not waits.excuses.any(int(waits.client[row]), int(waits.begin[row]), int(waits.done[row]))
            for row in rows.tolist()
        ]
        rows, missed = rows[met], missed[met]
        grants = int(waits.granted[rows].sum())
        if _too_few(grants, float(missed.sum()) / slack):
            yield _sleepers(waits, key, rows[missed > 0], grants, int(missed.sum()))


def _unused(free: FreeTimes, passing: int) -> FreeTimes:
    """Leave out the first ``passing`` ns of each free time."""
    long = free.end - free.begin > passing
    return FreeTimes(free.begin[long] + passing, free.end[long])


def _too_few(count: int, mean: float) -> bool:
    """Return whether a Poisson variable is at most ``count`` with a probability below e^-MISSED."""
    return count < mean and mean - count + (count * math.log(count / mean) if count else 0.0) >= MISSED


def _sleepers(waits: RequestTable, key: int, rows: Ints, grants: int, missed: int) -> Violation:
    columns: View = waits.columns
    name, begin, end = columns.keys[key], int(waits.begin[rows].min()), int(waits.done[rows].max())
    sentence = (
        f"Clients that waited for {name} did not notice that it was free: in {counted(len(rows), 'request')} from "
        f"{columns.at(begin)} to {columns.at(end)} it was free for {in_seconds(missed)} in sum, and "
        f"{counted(grants, 'grant')} ended a wait"
    )
    involved = tuple(columns.call(int(waits.row[row])) for row in rows[:3])
    return Violation("waiters-asleep", name, sentence, begin, end, involved, "service")


def _until_next(waits: RequestTable, rows: Ints, slack: int) -> Ints:
    """Return the end (ns) of each request of a client, or the begin of its next one if that comes within the slack."""
    end = waits.done[rows]
    following = np.append(waits.begin[rows][1:], end[-1])
    until: Ints = np.where(following - end <= slack, np.maximum(following, end), end)
    return until


def _violation(waits: RequestTable, key: int, missed: dict[int, int]) -> Violation:
    columns: View = waits.columns
    rows = np.flatnonzero((waits.key == key) & np.isin(waits.client, list(missed)))
    begin, end = int(waits.begin[rows[0]]), int(waits.done[rows].max())
    name, grants = columns.keys[key], int((waits.found.key == key).sum())
    each = listed(f"{columns.name(client)} for {in_seconds(ns)}" for client, ns in missed.items())
    sentence = (
        f"{listed(columns.name(client) for client in missed)} never got {name}, which was granted {grants} times: from "
        f"{columns.at(begin)} to {columns.at(end)} they requested it while it was free, {each}"
    )
    involved = tuple(columns.call(int(waits.row[row])) for row in rows[-3:])
    return Violation("left-out", name, sentence, begin, end, involved, "service")
