"""Find intervals that overlap, in log-linear time, on columns."""

from __future__ import annotations

import numpy as np

from .view import Bools, Ints


def grouped_order(group: Ints, start: Ints, end: Ints) -> Ints:
    """Return the rows sorted by group, then start, then end: the order that the sweeps below need."""
    if len(group) and (np.diff(group) >= 0).all() and (np.diff(start) >= 0).all():
        ties = (np.diff(start) == 0) & (np.diff(group) == 0)
        if not (ties & (np.diff(end) < 0)).any():
            return np.arange(len(group))
    return np.lexsort((end, start, group))


def covered_until(group: Ints, start: Ints, end: Ints) -> Ints:
    """Return, for rows in sweep order, until when (ns) the earlier rows of the same group last; before ``start`` if
    none do.

    One running maximum serves all groups, because the times of each group are shifted above those of the previous one.
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
    """Return, for rows in sweep order, whether this row begins while an earlier row of its group lasts.

    Closed intervals that only touch do not overlap. Counter-example: c0 invokes its release, and the service grants the
    lock to c1 in the same nanosecond (or the same instant of virtual time); [1, 5] and [5, 9] share the point 5, and
    nothing is wrong. A hold of no length strictly inside another, [5, 5] in [4, 9], does overlap: at 5 both were held.
    Hence the condition: the row begins before the other ends and ends after the other begins, both strictly. In sweep
    order the second follows from the first, since of equal starts the shorter comes first.
    """
    return start < covered_until(group, start, end)
