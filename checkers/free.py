"""Find the times in which a key is free: from the ``ok`` of a release to the next grant, without any hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .holds import Holds
from .sweep import covered_until, grouped_order
from .view import INFO, INVOKE, NONE, OK, RELEASE, Ints


@dataclass(frozen=True, slots=True)
class FreeTimes:
    """The times ``begin`` to ``end`` (ns) in which a key was surely free, in order and disjoint."""

    begin: Ints
    end: Ints

    def before(self, moment: Ints) -> Ints:
        """Return for each moment (ns) how long the key was free before it."""
        if not len(self.begin):
            return np.zeros_like(moment)
        sums = np.concatenate(([0], np.cumsum(self.end - self.begin)))
        past = np.searchsorted(self.begin, moment, side="right")
        last = np.maximum(past - 1, 0)
        running: Ints = np.where(past > 0, np.maximum(self.end[last] - moment, 0), 0)
        return sums[past] - running


def free_times(found: Holds, key: int) -> FreeTimes:
    """Return the times between the ``ok`` of a release and the next grant of the key, without any hold of it."""
    columns = found.view
    rows = np.flatnonzero(found.key == key)
    rows = rows[grouped_order(found.key[rows], found.start[rows], found.end[rows])]
    until = covered_until(found.key[rows], found.start[rows], found.end[rows])
    longest = np.where(found.end[rows] > until, np.arange(len(rows)), 0)
    last = rows[np.maximum.accumulate(longest)][:-1]
    release = found.release[last]
    done = columns.done[release]
    clean = (release != NONE) & (done != NONE) & (columns.type[done] == OK)
    begin, end = columns.time[done], found.start[rows][1:]
    free = clean & (begin < end) & (until[1:] < end)
    return FreeTimes(begin[free], end[free])


def surely_free(found: Holds, key: int) -> FreeTimes:
    """Return the free times of a key, without those that a call with an unknown outcome leaves in doubt."""
    free, columns = free_times(found, key), found.view
    patience = (columns.seconds("ttl", 0.0) or 0) + (columns.seconds("slack", 1.0) or 0)
    calls = np.flatnonzero((columns.type == INVOKE) & (columns.f <= RELEASE) & (columns.key == key))
    done = columns.done[calls]
    doubted = np.flatnonzero((done == NONE) | (columns.type[done] == INFO))
    if not len(doubted):
        return free
    begin = columns.time[calls[doubted]]
    over = np.where(done[doubted] == NONE, columns.end, columns.time[done[doubted]]) + patience
    begun = np.searchsorted(begin, free.end)
    ended = np.searchsorted(np.sort(over), free.begin, side="right")
    sure = begun == ended
    return FreeTimes(free.begin[sure], free.end[sure])
