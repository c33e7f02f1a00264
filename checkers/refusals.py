"""Compare refused acquires with the times in which the key was free.

Shared requests are not judged, and neither are requests for which a fault counts (:mod:`.excuses`). :mod:`.free` says
when a key is free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .fairness import RequestTable
from .free import surely_free
from .view import INVOKE, NONE, RELEASE, Bools, Ints, View


@dataclass(frozen=True, slots=True)
class Refused:
    """Requests that could have been granted, as positions in the table: those that ``failed`` the test, of ``judged``
    ones."""

    failed: Ints
    judged: int


def gave_up_early(waits: RequestTable) -> Refused:
    """Return the refused acquires that gave up more than the slack before their timeout was over.

    Judged are refused acquires with a timeout above the slack, if the key was free at some time before it was over.
    """
    slack = waits.columns.seconds("slack", 1.0) or 0
    limit = np.minimum(waits.limits(), waits.columns.end)
    could_wait = waits.failed & ~waits.shared & (limit - waits.begin > slack)
    judged = np.flatnonzero(could_wait & _met_free_key(waits, limit))
    judged = _unexcused(waits, judged, limit)
    return Refused(judged[limit[judged] - waits.done[judged] > slack], len(judged))


def refused_while_free(waits: RequestTable) -> Refused:
    """Return the tries (timeout 0) that were refused although the key was free.

    Judged are the tries during which the key was free all the time, and no other call on it was in progress: the
    requests of two clients may refuse each other.
    """
    tries = (waits.limits() == waits.begin) & (waits.failed | waits.granted) & ~waits.shared
    judged = np.flatnonzero(tries & _alone(waits) & _inside_free_time(waits))
    judged = _unexcused(waits, judged, waits.done)
    return Refused(judged[waits.failed[judged]], len(judged))


def _unexcused(waits: RequestTable, rows: Ints, until: Ints) -> Ints:
    """Leave out the requests for which a fault counts between their beginning and ``until`` (ns)."""
    kept = [
        at for at in rows.tolist() if not waits.excuses.any(int(waits.client[at]), int(waits.begin[at]), int(until[at]))
    ]
    return np.array(kept, dtype=np.int64)


def _met_free_key(waits: RequestTable, limit: Ints) -> Bools:
    """Return for each request whether its key was free at some time from its beginning to ``limit`` (ns)."""
    met = np.zeros(len(waits.row), dtype=bool)
    for key in np.unique(waits.key).tolist():
        mine, free = waits.key == key, surely_free(waits.found, key)
        begun = np.searchsorted(free.begin, limit[mine])
        met[mine] = begun > np.searchsorted(free.end, waits.begin[mine], side="right")
    return met


def _inside_free_time(waits: RequestTable) -> Bools:
    """Return for each request whether its key was free from its beginning to its answer."""
    inside = np.zeros(len(waits.row), dtype=bool)
    for key in np.unique(waits.key).tolist():
        mine, free = waits.key == key, surely_free(waits.found, key)
        if len(free.begin):
            at = np.searchsorted(free.begin, waits.begin[mine], side="right") - 1
            inside[mine] = (at >= 0) & (waits.done[mine] <= free.end[np.maximum(at, 0)])
    return inside


def _alone(waits: RequestTable) -> Bools:
    """Return for each request whether no other call on its key was in progress at the same time."""
    columns: View = waits.columns
    alone = np.zeros(len(waits.row), dtype=bool)
    calls = np.flatnonzero((columns.type == INVOKE) & (columns.f <= RELEASE))
    done = columns.done[calls]
    end = np.where(done == NONE, columns.end, columns.time[done])
    for key in np.unique(waits.key).tolist():
        mine, here = waits.key == key, columns.key[calls] == key
        begun = np.searchsorted(np.sort(columns.time[calls[here]]), waits.done[mine])
        ended = np.searchsorted(np.sort(end[here]), waits.begin[mine], side="right")
        alone[mine] = begun - ended == 1
    return alone
