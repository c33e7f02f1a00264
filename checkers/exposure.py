"""Check that each fault of the run struck while one client held a key and another one wanted it, and for long enough.

A fault at a moment without a holder and a waiter has not tested the lock: nobody could be granted what another client
held. The exposure of a fault is the time in which it was active while a key was both held and wanted, over all its
strikes. A fault of an instant (:data:`MOMENTARY`) harms only leases that exist at that moment, so only holds that were
active at the strike count, until their end. A fault that ends a client tests the lock if that client held a key which
another one wanted then or later.

After a fault of an instant a waiter must look at the key before the hold ends. Those that poll do so now and then: the
run itself shows how often, by the time from a release to the next grant to another client. If waiters look
independently, such a fault of exposure t goes unnoticed with a probability of at most e^(-t / mean). So it has tested
the lock if its exposure is at least :data:`ENOUGH` times the mean, with 5 % left; the mean is that of an exponential
distribution with the median of the run, since faults delay some of the hand-overs. A fault that lasts changes what the
holder and the waiter do from its first moment on: any exposure is enough.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from harness.history import History
from harness.wording import counted, listed

from .base import Verdict, conclude, no_lock_taken, not_applicable
from .excuses import ends
from .faults import DEADLY, FOR_EVER, MOMENTARY, RunFault, faults
from .handover import handovers
from .holds import Holds, holds, nested_calls
from .view import ACQUIRE, FAIL, INVOKE, NONE, Ints, View

ENOUGH: Final = 3.0


class ExposureChecker:
    """Unknown if a fault struck too briefly, or only while no key was held and wanted; the module has the rules.

    That a fault took effect at all is judged by :mod:`.faults_seen`."""

    name = "exposure"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        struck: dict[str, list[RunFault]] = {}
        for fault in faults(history):
            if fault.hosts:
                struck.setdefault(fault.name, []).append(fault)
        if not struck:
            return not_applicable(history, "no fault struck")
        contended = Contention(holds(history))
        doubts = [_short(name, strikes, contended) for name, strikes in struck.items()]
        fine = f"each fault struck while a key was held and wanted: {listed(struck)}"
        return conclude(history, [], fine=fine, doubts=doubts, stats={"faults": len(struck)})


def missing_exposure(history: History, name: str) -> str | None:
    """Return why the strikes of this fault have not tested the lock up to the end of the history, or None."""
    return _short(name, [fault for fault in faults(history) if fault.name == name], Contention(holds(history)))


def _short(name: str, strikes: list[RunFault], contended: Contention) -> str | None:
    """Return why the strikes of one fault did not test the lock, or None."""
    exposed = 0
    needed_ns = contended.needed_ns if name in MOMENTARY else 0
    for strike in strikes:
        exposed += contended.exposure_ns(strike)
        if exposed > needed_ns:
            return None
    times = f"{name} struck {counted(len(strikes), 'time')}"
    if not exposed:
        return f"{times}, never while one client held a key and another one wanted it, so it did not test the lock"
    span = View.span
    return (
        f"{times}, for {span(exposed)} in sum while one client held a key and another one wanted it; waiters get a "
        f"free key so slowly that testing the lock takes {span(needed_ns)}"
    )


class Contention:
    """The times in which a key was held and wanted, and the exposure (ns) that a fault needs to test the lock."""

    def __init__(self, found: Holds) -> None:
        self._found = found
        self._wanted = _wanted_times(found)
        self._begin, self._end = _contended_times(found, *self._wanted)
        self.needed_ns = _needed_ns(found)

    def exposure_ns(self, strike: RunFault) -> int:
        """Return for how long a strike was active while a key was held and wanted; FOR_EVER if it ended a holder."""
        found, since = self._found, strike.from_ns
        held = (found.start <= since) & (since <= found.end)
        if strike.name in DEADLY:
            died = held & np.array([found.view.names[client] in strike.hosts for client in found.client], dtype=bool)
            return FOR_EVER if any(self._wanted_by_another(row, since) for row in np.flatnonzero(died).tolist()) else 0
        lasts = int(found.end[held].max()) if held.any() else since
        until = lasts if strike.name in MOMENTARY else max(strike.until_ns, lasts)
        return int(np.maximum(np.minimum(self._end, until) - np.maximum(self._begin, since), 0).sum())

    def _wanted_by_another(self, row: int, moment: int) -> bool:
        """Return whether another client than the holder requested the key of a hold at this moment (ns) or later."""
        key, client, _, end = self._wanted
        mine = (key == self._found.key[row]) & (client != self._found.client[row])
        return bool((end[mine] >= moment).any())


def _contended_times(found: Holds, key: Ints, _: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return begin and end (ns) of the times in which a key was held and wanted; those of one key are disjoint.

    A client that holds a key makes no request for it, except nested ones, which do not count."""
    group = np.concatenate((found.key, found.key, key, key))
    time = np.concatenate((found.start, found.end, begin, end))
    held = np.concatenate((np.ones(len(found), int), -np.ones(len(found), int), np.zeros(2 * len(key), int)))
    wanted = np.concatenate((np.zeros(2 * len(found), int), np.ones(len(key), int), -np.ones(len(key), int)))
    order = np.lexsort((time, group))
    group, time = group[order], time[order]
    both = (np.cumsum(held[order]) > 0) & (np.cumsum(wanted[order]) > 0)
    rows = np.flatnonzero(both[:-1] & (group[1:] == group[:-1]) & (time[1:] > time[:-1]))
    return time[rows], time[rows + 1]


def _wanted_times(found: Holds) -> tuple[Ints, Ints, Ints, Ints]:
    """Return key, client, begin and end (ns) of each request. It lasts up to the client's next one if that comes
    within the slack."""
    columns = found.view
    rows = np.setdiff1d(columns.rows(ACQUIRE, INVOKE), [index for _, index in nested_calls(found)])
    rows = rows[np.lexsort((rows, columns.client[rows], columns.key[rows]))].astype(np.int64)
    key, client, begin, end = columns.key[rows], columns.client[rows], columns.time[rows], ends(columns, rows)
    done = columns.done[rows]
    refused = (done != NONE) & (columns.type[done] == FAIL)
    again = np.zeros(len(rows), dtype=bool)
    again[:-1] = (key[1:] == key[:-1]) & (client[1:] == client[:-1])
    following = np.append(begin[1:], 0)
    slack = columns.seconds("slack", 1.0) or 0
    return key, client, begin, np.where(again & refused & (following - end <= slack), np.maximum(following, end), end)


def _needed_ns(found: Holds) -> int:
    """Return the exposure (ns) that a fault needs, from the times in which waiters got a key after its release."""
    columns = found.view
    passed = handovers(found)
    order = np.lexsort((found.end, found.start, found.key))
    before = np.full(len(found), NONE, dtype=np.int64)
    before[order[1:]] = order[:-1]
    release = found.release[before[passed]]
    done = columns.done[release]
    free = columns.time[done]
    waited = (release != NONE) & (done != NONE) & (columns.time[found.acquire[passed]] <= free)
    lags = (found.start[passed] - free)[waited & (found.start[passed] >= free)]
    return round(ENOUGH * float(np.median(lags)) / math.log(2)) if len(lags) else 0
