"""The elements of a queue or a stack: when each was added and removed, as numpy columns.

The monitors of collections judge *unambiguous* histories: each element is added at most once to a key, so it is known
which call added the element that another call removed (Gibbons and Korach, "Testing shared memories", SIAM Journal on
Computing 26, 1997). A key on which an element is added twice is left to the search.

*Unknown outcomes.* An unknown add whose element was returned happened, and before the call that returned it. Any other
unknown add counts as one that did not happen: an order that has it is still an order without the element. An unknown
remove may have removed any element that no known call removed, or none. If there is an order without it, the history is
right. If there is none even for the elements that known calls removed, the history is wrong: an order of the whole is
still an order without the other elements and the calls that removed them. Otherwise the search decides.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.checkers.models import plain
from harness.history.calls import NEVER, NONE, Calls, Codes, Ints

from .problem import ProvedImpossible, QuickResult

ENDLESS: Final = 4
"""Positions after the last entry of a key: of calls that never return, and of removals that never came."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The positions of all keys one after the other, so that one pass over a column judges every key.

    ``invoked`` and ``returned`` belong to rows of the history; a call of unknown outcome returns at the end of its key.
    Position 0 of a key is before its first entry.
    """

    span: int
    invoked: Ints
    returned: Ints

    @classmethod
    def of(cls, calls: Calls) -> Timeline:
        known = calls.returned != NEVER
        last = max(int(calls.invoked.max(initial=0)), int(calls.returned[known].max(initial=0)))
        span = last + 1 + ENDLESS
        begin = calls.key.astype(np.int64) * span
        returned = np.where(known, begin + 1 + calls.returned, begin + span - ENDLESS)
        return cls(span, begin + 1 + calls.invoked, returned)

    def end(self, key: npt.NDArray[Any], after: int = 0) -> Ints:
        """Return the position ``after`` the last entry of each key, where no entry is."""
        ends: Ints = (key.astype(np.int64) + 1) * self.span - ENDLESS + after
        return ends


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of all keys, one row each, and the calls that found a collection empty.

    An element was added between ``a`` and ``b`` by the call ``add`` and removed between ``c`` and ``d`` by the call
    ``remove``. If it never was, ``remove`` is NONE, and ``c`` and ``d`` are after the last entry. ``empty`` has the
    rows of the calls that returned nil.
    """

    key: Codes
    add: Ints
    remove: Ints
    a: Ints
    b: Ints
    c: Ints
    d: Ints
    empty: Ints

    def pick(self, which: npt.NDArray[np.bool_], empty: Ints) -> Elements:
        """Return the elements of a mask, with these calls that found a collection empty."""
        columns = {one.name: getattr(self, one.name)[which] for one in fields(self) if one.name != "empty"}
        return Elements(**columns, empty=empty)

    def rows(self, numbers: npt.NDArray[Any] | list[int]) -> list[int]:
        """Return the rows of the calls on these elements."""
        found = np.concatenate((self.add[numbers], self.remove[numbers]))
        return [int(row) for row in found if row != NONE]


Monitor = Callable[[Calls, Timeline, Elements], list[ProvedImpossible]]
"""Returns the failures of all keys, in any order; several of one key are allowed."""


def value_numbers(calls: Calls) -> Codes:
    """Return a number for each value of ``calls.values``, the same for equal ones. Nil is 0, also at the index NONE."""
    numbers: dict[Hashable, int] = {None: 0}
    found = [numbers.setdefault(plain(value), len(numbers)) for value in calls.values]
    return np.array([*found, 0], dtype=np.int32)


def check(calls: Calls, adds: str, monitor: Monitor) -> QuickResult:
    """Decide every key of ``calls``, whose function ``adds`` adds an element; the other function removes one.

    Raises ValueError if nil is added.
    """
    adding = calls.named([adds])
    numbers = value_numbers(calls)
    value = np.where(adding, numbers[calls.argument], numbers[calls.result])
    if (value[adding] == 0).any():
        raise ValueError(f"the value of {adds} is an element, got nil")
    matched = _Matching(calls, adding, value)
    failures = [*matched.failures, *monitor(calls, matched.line, matched.elements)]
    doubtful = np.unique([one.key for one in failures if matched.unsure[one.key]]).astype(np.int64)
    if len(doubtful):
        failures = [one for one in failures if not matched.unsure[one.key]]
        failures += monitor(calls, matched.line, matched.removed_elements(doubtful))
    undecided = matched.ambiguous.copy()
    undecided[doubtful] = True
    undecided[[one.key for one in failures]] = False
    return QuickResult(first_failures(failures), tuple(np.flatnonzero(undecided).tolist()))


def first_failures(failures: Sequence[ProvedImpossible]) -> tuple[ProvedImpossible, ...]:
    """Return the first failure of each key, in the order of their positions."""
    ordered = sorted(failures, key=lambda one: one.position)
    return tuple({one.key: one for one in reversed(ordered)}.values())[::-1]


def failure(calls: Calls, rows: Iterable[int], position: int | None = None) -> ProvedImpossible:
    """Return the failure of a key of which these calls are wrong; by default at the last of their returns."""
    part = tuple(sorted(map(int, rows)))
    if position is None:
        position = max(int(calls.returned[row]) for row in part if calls.returned[row] != NEVER)
    return ProvedImpossible(int(calls.key[part[0]]), position, part)


class _Matching:
    """The calls that added and removed each element.

    ``failures`` are removals of elements that were not there: nobody had added them, or another call had removed them.
    ``elements`` has the keys that are neither ambiguous nor wrong so. ``unsure`` says which keys have removals of
    unknown outcome, and ``ambiguous`` on which an element was added twice.
    """

    def __init__(self, calls: Calls, adding: npt.NDArray[np.bool_], value: Codes) -> None:
        self._calls = calls
        self.line = Timeline.of(calls)
        self.failures: list[ProvedImpossible] = []
        known = calls.known == 1
        pair = calls.key.astype(np.int64) * (int(value.max(initial=0)) + 1) + value
        added = np.flatnonzero(adding)
        names, number, count = np.unique(pair[added], return_inverse=True, return_counts=True)
        self.ambiguous = self._keys(added[count[number] > 1])
        self.unsure = self._keys(np.flatnonzero(~adding & ~known))
        add = np.full(len(names), NONE, dtype=np.int64)
        add[number] = added
        taken = np.flatnonzero(~adding & known & (value != 0))
        remove = self._removals(names, add, pair, taken[~self.ambiguous[calls.key[taken]]])
        wrong = self._keys(np.array([one.rows[0] for one in self.failures], dtype=np.int64))
        self._judged = ~(self.ambiguous | wrong)
        empty = np.flatnonzero(~adding & known & (value == 0))
        happened = (known[add] | (remove != NONE)) & self._judged[calls.key[add]]
        self.elements = self._elements(add[happened], remove[happened], empty[self._judged[calls.key[empty]]])

    def _keys(self, rows: Ints) -> npt.NDArray[np.bool_]:
        found = np.zeros(len(self._calls.keys), dtype=np.bool_)
        found[self._calls.key[rows]] = True
        return found

    def _removals(self, names: Ints, add: Ints, pair: Ints, taken: Ints) -> Ints:
        """Return the call that removed each element, and note the failures."""
        calls, line = self._calls, self.line
        place = np.searchsorted(names, pair[taken])
        place[place == len(names)] = 0
        there = names[place] == pair[taken] if len(names) else np.zeros(len(taken), dtype=np.bool_)
        self.failures += [failure(calls, [row]) for row in taken[~there].tolist()]
        taken, place = taken[there], place[there]
        remove = np.full(len(names), NONE, dtype=np.int64)
        remove[place[::-1]] = taken[::-1]  # of several, the first
        again = remove[place] != taken
        twice = zip(add[place[again]], remove[place[again]], taken[again], strict=True)
        self.failures += [failure(calls, rows) for rows in twice]
        early = (remove != NONE) & (line.invoked[add] > line.returned[remove])
        self.failures += [failure(calls, [row]) for row in remove[early]]
        return remove

    def _elements(self, add: Ints, remove: Ints, empty: Ints) -> Elements:
        line, never = self.line, remove == NONE
        key = self._calls.key[add]
        c = np.where(never, line.end(key, 1), line.invoked[remove])
        d = np.where(never, line.end(key, 2), line.returned[remove])
        return Elements(key, add, remove, line.invoked[add], line.returned[add], c, d, empty)

    def removed_elements(self, keys: Ints) -> Elements:
        """Return the elements of these keys that known calls removed."""
        found = self.elements
        chosen = np.zeros(len(self._calls.keys), dtype=np.bool_)
        chosen[keys] = True
        empty = found.empty[chosen[self._calls.key[found.empty]]]
        return found.pick((found.remove != NONE) & chosen[found.key], empty)


def running_argmax(values: Ints) -> Ints:
    """Return, for each place, where the maximum up to there is."""
    highest = np.maximum.accumulate(values)
    found: Ints = np.maximum.accumulate(np.where(values == highest, np.arange(len(values)), 0))
    return found
