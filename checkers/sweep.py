"""Intervals that overlap, in log-linear time and by column."""

from __future__ import annotations

import numpy as np

from checkers.view import Bools, Ints


def grouped_order(group: Ints, start: Ints, end: Ints) -> Ints:
    """The rows sorted by group, then start, then end: the order in which the sweeps below want them."""
    if len(group) and (np.diff(group) >= 0).all() and (np.diff(start) >= 0).all():
        ties = (np.diff(start) == 0) & (np.diff(group) == 0)
        if not (ties & (np.diff(end) < 0)).any():
            return np.arange(len(group))
    return np.lexsort((end, start, group))


def covered_until(group: Ints, start: Ints, end: Ints) -> Ints:
    """For rows in sweep order: until when (ns) the earlier rows of the same group last; before ``start`` if none do.

    One running maximum serves all groups, because each group's times are lifted above the last one's.
    """
    if not len(group):
        return end
    low = int(start.min())
    span = int(end.max()) - low + 2
    numbers = np.cumsum(np.concatenate(([0], (np.diff(group) != 0).astype(np.int64))))
    if span * (int(numbers[-1]) + 2) >= 2**62:
        raise OverflowError(f"{int(numbers[-1]) + 1} groups over {span} ns do not fit 64 bits")
    lift = numbers * span
    highest = np.maximum.accumulate(end - low + 1 + lift)
    before = np.concatenate(([0], highest[:-1])) - lift
    until: Ints = np.maximum(before, 0) + low - 1
    return until


def overlaps(group: Ints, start: Ints, end: Ints) -> Bools:
    """For rows in sweep order: does this row begin while an earlier one of its group lasts?

    Closed intervals that only touch do not overlap. The counter-example that forces this: c0 invokes its release
    and the service hands the lock to c1 in the same nanosecond (or the same instant of virtual time); [1, 5] and
    [5, 9] share the point 5, and nothing was wrong. A hold of no length strictly inside another, [5, 5] in [4, 9],
    does overlap: at 5 both were held. Hence: begins before the other ends and ends after the other begins, both
    strictly; in sweep order the second follows from the first, since of equal starts the shorter comes first.
    """
    return start < covered_until(group, start, end)
