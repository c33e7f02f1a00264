"""Check sets in linear time, on which each element is added and removed at most once, one element at a time.

Calls on different elements do not affect each other. So a set without reads of all its elements is as many objects as
it has elements (Herlihy and Wing 1990, locality), and :mod:`harness.checkers.linearizability.split` has made a key of
each. A set with such reads is judged by :mod:`harness.checkers.linearizability.lists`.

An element is in the set from p, when it is added, to q, when it is removed (for ever, if it is not). Let the add run
from a to b, and the remove from c to d. A call that found the element (contains, or an add that changed nothing) needs
a moment between p and q, and a call that did not find it needs one before p or after q. So p should be as late as
possible, and q as early as possible: with t1 the first return and t2 the last invocation of the calls that found it,

    p = min(b, t1, d)    and    q = max(c, t2).

The history is linearizable if and only if a < p, q < d, and, unless q <= p, no call that did not find it lies between p
and q. If q <= p, the element is added and removed at one moment, at which the calls that found it take place. (Abdulla
and others, "Efficient linearizability monitoring", arXiv 2509.17795, and Lee and Mathur, arXiv 2410.04581, have linear
algorithms for sets too.)

*Outcomes.* An add of unknown outcome happened if some call found the element or removed it, and is left out otherwise.
A remove of unknown outcome may be put in at q, which never hurts. A remove that does not say whether it changed the
set is tried both ways: as a remove, and as a call that did not find the element. An element that was added or removed
twice is left to the search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.checkers.models import plain
from harness.history.calls import NEVER, NONE, Calls, Ints, Marks
from harness.history.values import Exact

from . import lists
from .elements import failure, value_numbers
from .problem import QuickResult

Bools = npt.NDArray[np.bool_]


def check(calls: Calls) -> QuickResult:
    """Decide every key of ``calls``, which is a set with reads, or one element of a set."""
    read = np.zeros(len(calls.keys), dtype=np.bool_)
    read[calls.key[calls.named(["read"])]] = True
    whole = np.flatnonzero(read[calls.key])
    failures, undecided = [], []
    if len(whole):
        found = lists.check(calls.pick(whole), ordered=False)
        failures = [failure(calls, whole[list(one.rows)], one.position) for one in found.failures]
        undecided = list(found.undecided)
    rows = np.flatnonzero(~read[calls.key])
    if len(rows):
        elements = _Elements(calls, rows)
        order = rows[np.argsort(calls.key[rows], kind="stable")]
        for key in np.flatnonzero(~elements.valid & ~elements.ambiguous).tolist():
            begin, end = np.searchsorted(calls.key[order], [key, key + 1]).tolist()
            failures.append(failure(calls, order[begin:end]))
        undecided += np.flatnonzero(elements.ambiguous).tolist()
    return QuickResult(tuple(sorted(failures, key=lambda one: one.position)), tuple(undecided))


def truths(calls: Calls) -> Marks:
    """Return what each call said: 1 for true, 0 for false, NONE for nothing."""
    of_value = [_truth(plain(value)) for value in calls.values]
    said = np.array([*of_value, NONE], dtype=np.int8)[calls.result]
    numbers = value_numbers(calls)
    said[(numbers[calls.result] == numbers[calls.argument]) | (calls.known == 0)] = NONE
    return said


def _truth(value: Any) -> int:
    return int(value.value) if isinstance(value, Exact) and isinstance(value.value, bool) else NONE


@dataclass(frozen=True, slots=True)
class _Window:
    """A call of each key: whether there is one, whether it is known, and when it ran (for ever, if there is none)."""

    there: Bools
    known: Bools
    begin: Ints
    end: Ints

    @classmethod
    def of(cls, calls: Calls, rows: Ints) -> _Window:
        count = len(calls.keys)
        there, known = np.zeros((2, count), dtype=np.bool_)
        begin, end = np.full((2, count), NEVER, dtype=np.int64)
        keys = calls.key[rows]
        there[keys], known[keys] = True, calls.known[rows] == 1
        begin[keys], end[keys] = calls.invoked[rows], calls.returned[rows]
        return cls(there, known, begin, end)


class _Elements:
    """The verdict on each key that is one element."""

    def __init__(self, calls: Calls, rows: Ints) -> None:
        self._calls = calls
        said = truths(calls)
        f = {name: calls.named([name])[rows] for name in ("add", "remove", "contains")}
        told = said[rows]
        adds = rows[f["add"] & (told != 0)]
        removes = rows[f["remove"] & (told != 0)]
        finds = rows[(f["contains"] & (told == 1)) | (f["add"] & (told == 0))]
        misses = rows[(f["contains"] & (told == 0)) | (f["remove"] & (told == 0))]
        count = len(calls.keys)
        several = [np.bincount(calls.key[some], minlength=count) > 1 for some in (adds, removes)]
        self.ambiguous: Bools = several[0] | several[1]
        self._add, self._remove = _Window.of(calls, adds), _Window.of(calls, removes)
        blind = np.zeros(count, dtype=np.bool_)
        blind[calls.key[removes[(said[removes] == NONE) & (calls.known[removes] == 1)]]] = True
        self._first, self._last = np.full(count, NEVER, dtype=np.int64), np.full(count, NONE, dtype=np.int64)
        np.minimum.at(self._first, calls.key[finds], calls.returned[finds])
        np.maximum.at(self._last, calls.key[finds], calls.invoked[finds])
        self._misses = misses
        firm = self._remove.there & self._remove.known & ~blind
        needed = (self._last != NONE) | firm
        unused = ~needed & ~self._add.known
        removed = self._remove.there & self._fits(self._remove.begin, self._remove.end)
        kept_until = np.where(blind, self._remove.begin, NONE)  # a blind remove found nothing
        latest = np.minimum(self._add.end, self._first)
        kept = ~firm & self._fits(np.full(count, NEVER), np.full(count, NEVER + 1)) & (kept_until < latest)
        self.valid: Bools = unused | (self._add.there & (removed | kept))

    def _fits(self, begin: Ints, end: Ints) -> Bools:
        """Return for which keys the element can be removed between ``begin`` and ``end``."""
        calls = self._calls
        added = np.minimum(np.minimum(self._add.end, self._first), end)
        removed = np.maximum(begin, self._last)
        key = calls.key[self._misses]
        inside = (calls.invoked[self._misses] > added[key]) & (calls.returned[self._misses] < removed[key])
        wrong = np.bincount(key[inside], minlength=len(calls.keys)) > 0
        fits: Bools = (self._add.begin < added) & (removed < end) & ~wrong
        return fits
