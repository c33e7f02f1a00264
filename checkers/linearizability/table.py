"""A model as a table of numbers: the state that follows from a state and an operation.

States are numbered in the order in which they are met. If a model leaves open which of several states follows
(:class:`Either`), the state of the table is the set of all states that are possible then. A sequence of operations is
possible if and only if that set does not become empty, so the search need not know about sets.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, Final, cast

import numpy as np

from harness.checkers.models import Either, Inconsistent, Model, Operation
from harness.history.calls import Codes, Ints, Marks

from .arrays import CONSTANT, STILL, put
from .kernel import INCONSISTENT

WHOLE_CELLS: Final = 4096
"""The most cells of a table that is filled before the search; a larger table gets only the cells that the search asks
for."""
FIRST_CELLS: Final = 4096
"""Number of cells for which there is room at first, if they are computed one by one; a power of two."""
STATE_BYTES: Final = 300
"""Approximate memory (bytes) of a state besides the object itself: its contents, and its places in a list and a
dictionary."""
ELEMENT_BYTES: Final = 32
"""Approximate memory (bytes) of an element of a state that is a tuple, besides the reference to it."""


@dataclass(frozen=True, slots=True)
class StateSet:
    """A set of at least two states, any of which may be the current one."""

    states: frozenset[Hashable]


class ModelTable:
    """The table of a model.

    If ``whole``, ``cells`` has the numbers of the next states, by state and operation. Otherwise it is a hash table
    beside ``keys`` (state * 2**32 + operation) of the cells computed so far. ``nature`` says for each operation whether
    it is known never to change the state (STILL) or to lead from every state to the same one (CONSTANT). ``impossible``
    has the operations that can happen in no state. ``several``: the model left open which state follows.
    """

    def __init__(self, model: Model, operations: Sequence[Operation]) -> None:
        self._model, self._operations = model, operations
        self.states: list[Hashable] = [model.initial]
        self._numbers: dict[Hashable, int] = {model.initial: 0}
        self.several = False
        self._bytes = STATE_BYTES
        self.keys: Ints = np.full(1, -1, np.int64)
        rows = self._closure()
        self.whole = rows is not None
        self.nature: Marks = np.zeros(len(operations), np.int8)
        self.impossible = np.zeros(len(operations), np.bool_)
        self.cells: Codes = np.zeros(1, np.int32)
        if rows is not None and len(operations):
            self.cells = np.array(rows, np.int32)
            by_state = self.cells.reshape(-1, len(operations))
            self.impossible = (by_state == INCONSISTENT).all(axis=0)
            changed = (by_state != np.arange(len(by_state))[:, None]) & (by_state != INCONSISTENT)
            constant = (by_state == by_state[0]).all(axis=0) & (by_state[0] != INCONSISTENT)
            self.nature = np.where(changed.any(axis=0), np.where(constant, CONSTANT, 0), STILL).astype(np.int8)
        elif rows is None:
            self._computed = 0
            self._grow(FIRST_CELLS)

    def _closure(self) -> list[int] | None:
        """Return all rows one after the other, or None if there are too many."""
        rows: list[int] = []
        for state in self.states:  # the list grows during the loop
            if len(self.states) * len(self._operations) > WHOLE_CELLS:
                return None
            rows += [self._after(state, operation) for operation in self._operations]
        return rows

    def ask(self, state: int, operation: int) -> None:
        """Compute one cell with the model, and add it."""
        if 2 * self._computed >= len(self.keys):
            self._grow(2 * len(self.keys))
        self._put(state << 32 | operation, self._after(self.states[state], self._operations[operation]))
        self._computed += 1

    def _put(self, key: int, after: int) -> None:
        with np.errstate(over="ignore"):  # a 64-bit hash wraps around
            put(self.keys, self.cells, cast(int, np.int64(key)), after)

    def _grow(self, size: int) -> None:
        keys, cells = self.keys, self.cells
        self.keys, self.cells = np.full(size, -1, np.int64), np.zeros(size, np.int32)
        used = np.flatnonzero(keys >= 0)
        for key, after in zip(keys[used].tolist(), cells[used].tolist(), strict=True):
            self._put(key, after)

    @property
    def memory(self) -> int:
        """Return the approximate size of the table, bytes."""
        return self.keys.nbytes + self.cells.nbytes + self._bytes

    def _after(self, state: Any, operation: Operation) -> int:
        found = self._united(state, operation) if type(state) is StateSet else self._model.step(state, operation)
        if isinstance(found, Inconsistent):
            return INCONSISTENT
        if isinstance(found, Either):
            if not found.states:
                return INCONSISTENT
            found = next(iter(found.states)) if len(found.states) == 1 else StateSet(found.states)
            self.several = True
        number = self._numbers.get(found)
        if number is None:
            number = self._numbers[found] = len(self.states)
            self.states.append(found)
            self._bytes += STATE_BYTES + getsizeof(found)
            if isinstance(found, tuple):  # not the true size of each: states of a queue have ever more elements
                self._bytes += ELEMENT_BYTES * len(found)
        return number

    def _united(self, several: StateSet, operation: Operation) -> Either:
        return Either(frozenset(after for state in several.states for after in self._each(state, operation)))

    def _each(self, state: Hashable, operation: Operation) -> frozenset[Hashable]:
        found = self._model.step(state, operation)
        if isinstance(found, Inconsistent):
            return frozenset()
        return found.states if isinstance(found, Either) else frozenset((found,))

    def successors(self, state: Hashable, operation: int) -> frozenset[Hashable]:
        """Return the model's states that any of these states may lead to; none if the operation is impossible."""
        return self._each(state, self._operations[operation])


def options(state: Hashable) -> frozenset[Hashable]:
    """Return the model's states that a state of the table stands for."""
    return state.states if isinstance(state, StateSet) else frozenset((state,))
