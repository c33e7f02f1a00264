"""Check append-only lists, and sets that only grow and are read as a whole, in time linear in what was read.

It is known which elements were in the collection at each read. Each element is added at most once, so the calls are in
*groups* whose order is known: the adds of the elements that the first read returned, the reads that returned just
these, the adds of the other elements that the next read returned, and so on; at the end the adds of elements that no
read returned. Within a group the calls may have any order, except that the appends to a list have the order of the
elements, each in a group of its own. So the history is linearizable if and only if

1. nobody read an element that was never added, or that was added only after the read;
2. of any two reads, one returned all that the other did (of a list, at the beginning and in the same order);
3. no call returned before a call of an earlier group was invoked.

*Unknown outcomes.* An unknown add happened if a read returned its element. Otherwise it is left out; an order that has
it is one without it. If an element was added twice, or if elements of a set were removed or looked for, the search
decides.

*The part that proves it.* An order is still one without some of its reads, and without an element that is in none of
the reads that are left. So the part of a failure has the two calls that contradict each other, a read that tells their
order, and every call that added an element which these reads returned.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from harness.checkers.models import plain
from harness.checkers.models.collections import elements
from harness.history.calls import NONE, Calls
from harness.history.values import Exact

from .elements import failure
from .problem import ProvedImpossible, QuickResult

ADDS: Final = ("add", "append")


def check(calls: Calls, *, ordered: bool) -> QuickResult:
    """Decide every key of ``calls``, which are those of a list (``ordered``) or of a set; others are undecided."""
    by_key = np.argsort(calls.key, kind="stable")
    keys = np.flatnonzero(np.bincount(calls.key, minlength=len(calls.keys)))
    failures, undecided = [], []
    for key in keys.tolist():
        begin, end = np.searchsorted(calls.key[by_key], [key, key + 1]).tolist()
        one = _Collection(calls, by_key[begin:end].tolist(), ordered=ordered)
        if one.ambiguous:
            undecided.append(key)
        elif (found := one.failure()) is not None:
            failures.append(found)
    return QuickResult(tuple(sorted(failures, key=lambda found: found.position)), tuple(undecided))


Read = tuple[int, tuple[Hashable, ...]]
"""The row of a read, and the elements that it returned."""


class _Collection:
    """The adds and reads of one key."""

    def __init__(self, calls: Calls, rows: Sequence[int], *, ordered: bool) -> None:
        self._calls, self._ordered = calls, ordered
        self.add: dict[Hashable, int] = {}
        self.reads: list[Read] = []
        self.ambiguous = False
        for row in rows:
            f = calls.fs[calls.f[row]]
            if f in ADDS:
                self._read_add(f, row)
            elif f != "read":
                self.ambiguous = True
            elif calls.known[row]:
                self.reads.append((row, elements(calls.result_of(row))))

    def _read_add(self, f: str, row: int) -> None:
        value = plain(self._calls.argument_of(row))
        if value is None:
            raise ValueError(f"the value of {f} is an element, got nil")
        told = isinstance(plain(self._calls.result_of(row)), Exact)  # perhaps whether it changed the set
        self.ambiguous |= value in self.add or told
        self.add[value] = row

    def failure(self) -> ProvedImpossible | None:
        """Return why this key has no order, or None."""
        if not self._ordered:
            self.reads = [(row, tuple(dict.fromkeys(values))) for row, values in self.reads]
        reads = sorted(self.reads, key=lambda read: len(read[1]))
        for row, values in reads:
            if len(set(values)) < len(values) or not all(value in self.add for value in values):
                return self._failure([row])
        for one, two in pairwise(reads):
            if not self._goes_on(one[1], two[1]):
                return self._failure([one[0], two[0]])
        return self._wrong_order(list(self._groups(reads)), reads)

    def _goes_on(self, one: tuple[Hashable, ...], two: tuple[Hashable, ...]) -> bool:
        return two[: len(one)] == one if self._ordered else set(one) <= set(two)

    def _groups(self, reads: Sequence[Read]) -> Iterator[list[int]]:
        """Yield the groups, as rows."""
        seen: dict[Hashable, None] = {}
        for row, values in reads:
            new = [value for value in values[len(seen) if self._ordered else 0 :] if value not in seen]
            seen.update(dict.fromkeys(new))
            added = [self.add[value] for value in new]
            yield from [[one] for one in added] if self._ordered else [added]
            yield [row]
        yield [row for value, row in self.add.items() if value not in seen and self._calls.known[row]]

    def _wrong_order(self, groups: list[list[int]], reads: Sequence[Read]) -> ProvedImpossible | None:
        """Return the first call that returned before one of an earlier group was invoked, or None.

        Reads of the same elements are in groups of their own here, in the order of their invocations, so none of them
        returned before an earlier one was invoked.
        """
        invoked, returned = self._calls.invoked, self._calls.returned
        latest = NONE
        for group in groups:
            for row in group:
                if latest != NONE and returned[row] < invoked[latest]:
                    value = next((value for value, add in self.add.items() if add == latest), None)
                    witness = next((read for read, values in reads if value in values), row)
                    return self._failure([row, latest, witness])
            latest = max(
                (row for row in (*group, latest) if row != NONE), key=lambda row: int(invoked[row]), default=NONE
            )
        return None

    def _failure(self, rows: list[int]) -> ProvedImpossible:
        """Return the failure of these calls, with the adds of all elements that they read."""
        read = dict(self.reads)
        adds = [self.add[value] for row in rows for value in read.get(row, ()) if value in self.add]
        return failure(self._calls, {*rows, *adds})
