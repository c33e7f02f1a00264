"""The writes to registers and to keys of a store, and the write whose value each read returned.

:mod:`harness.checkers.linearizability.chains` says what follows from them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.checkers.models import Register, frozen
from harness.history.calls import NONE, Calls, Ints

from .appends import Appends
from .elements import failure
from .problem import ProvedImpossible

READS: Final = ("read", "get")
Bools = npt.NDArray[np.bool_]


class Writes:
    """The writes of all keys; after those of the history, one for the initial value of each key.

    ``row`` is the call of a write (NONE: an initial value), and ``parent`` the write that it follows directly (NONE: it
    follows any). ``needed`` says whether it must have happened, and ``lost`` whether it follows a value that nobody
    wrote. The call ``read_row`` returned the value of the write ``read_write``. ``ambiguous`` says which keys this
    cannot be told of, and ``failures`` are reads of values that nobody wrote.
    """

    def __init__(self, calls: Calls, model: Register) -> None:
        self._calls, self._model = calls, model
        self._numbers: dict[Hashable, int] = {model.initial: 0}
        self.ambiguous: Bools = np.zeros(len(calls.keys), dtype=np.bool_)
        self.failures: list[ProvedImpossible] = []
        before, after = self._values()
        reading = calls.named(READS)
        rows = np.flatnonzero(~reading & (after != NONE))
        keys = np.arange(len(calls.keys))
        self.row: Ints = np.append(rows, np.full(len(keys), NONE))
        self.key: Ints = np.append(calls.key[rows].astype(np.int64), keys)
        value = np.append(after[rows], np.zeros(len(keys), dtype=np.int64))
        self._spread = len(self._numbers) + 1
        names, number, count = np.unique(self.key * self._spread + value, return_inverse=True, return_counts=True)
        self.ambiguous[self.key[count[number] > 1]] = True
        of_name = np.zeros(len(names), dtype=np.int64)
        of_name[number] = np.arange(len(self.row))
        follows = np.append(before[rows], np.full(len(keys), NONE))
        self.parent = self._written(names, of_name, self.key, follows)
        self.lost: Bools = (self.parent == NONE) & (follows != NONE)
        self.read_row: Ints = np.flatnonzero(reading & (after != NONE))
        self.read_write = self._written(names, of_name, calls.key[self.read_row].astype(np.int64), after[self.read_row])
        self._drop_impossible_reads()
        self.needed = self._needed()
        self.parent[~self.needed] = NONE

    def _values(self) -> tuple[Ints, Ints]:
        """Return the numbers of the values before and after each call (NONE: any, or no matter)."""
        calls, model = self._calls, self._model
        numbers, value_of = self._numbers, model.value_of
        number = np.array([numbers.setdefault(value_of(value), len(numbers)) for value in (*calls.values, None)])
        reading, known = calls.named(READS), calls.known == 1
        before = np.full(len(calls), NONE, dtype=np.int64)
        after = np.where(reading, number[calls.result], number[calls.argument]).astype(np.int64)
        after[reading & ~known] = NONE
        if not model.nil_says:
            after[reading & (after == numbers[value_of(None)])] = NONE
        for row in np.flatnonzero(calls.named(["cas"])).tolist():
            before[row], after[row] = self._compared(row)
        if "append" in calls.fs:
            appends = Appends(calls, numbers, self.ambiguous)
            appends.fill(before, after)
            self.failures += appends.failures
        return before, after

    def _compared(self, row: int) -> tuple[int, int]:
        """Return the numbers of the values before and after a compare-and-set."""
        calls, numbers = self._calls, self._numbers
        pair = frozen(calls.argument_of(row))
        if pair is None and not calls.known[row]:
            return NONE, NONE
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"the value of a cas is [old, new], got {calls.argument_of(row)!r}")
        old, new = (numbers.setdefault(value, len(numbers)) for value in pair)
        return old, new

    def _written(self, names: Ints, of_name: Ints, key: Ints, value: Ints) -> Ints:
        """Return the write of each value (NONE: nobody wrote it)."""
        pair = key * self._spread + value
        place = np.minimum(np.searchsorted(names, pair), max(0, len(names) - 1))
        found = np.full(len(pair), NONE, dtype=np.int64)
        there = (value != NONE) & (names[place] == pair) if len(names) else np.zeros(len(pair), dtype=np.bool_)
        found[there] = of_name[place[there]]
        return found

    def _drop_impossible_reads(self) -> None:
        impossible = self.read_write == NONE
        self.failures += [failure(self._calls, [row]) for row in self.read_row[impossible].tolist()]
        self.read_row, self.read_write = self.read_row[~impossible], self.read_write[~impossible]

    def _needed(self) -> Bools:
        """Return which writes happened: known ones, those whose value was read, and those that they follow."""
        needed: Bools = (self.row == NONE) | (self._calls.known[self.row] == 1)
        needed[self.read_write] = True
        new = np.flatnonzero(needed)
        while len(new):
            new = self.parent[new]
            new = np.unique(new[new != NONE])
            new = new[~needed[new]]
            needed[new] = True
        return needed
