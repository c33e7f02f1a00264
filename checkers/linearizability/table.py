"""A model as a table of numbers: which state follows from a state and an operation.

States are numbered as they are met. Where a model leaves open which of several states follows (:class:`Either`), the
state of the table is the set of all that are possible by then: a sequence of operations is possible exactly if that
set does not become empty, so that the search needs to know nothing of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, Final

import numpy as np

from checkers.linearizability.arrays import CONSTANT, STILL, put
from checkers.linearizability.kernel import INCONSISTENT
from checkers.models import Either, Inconsistent, Model, Operation
from harness.history.calls import Codes, Ints, Marks

WHOLE_CELLS: Final = 4096
"""A table of so many cells is filled before the search; of a bigger one what the search asks for."""
FIRST_CELLS: Final = 4096
"""Room for so many cells is there at first, if they are asked for one by one; a power of two."""
STATE_BYTES: Final = 300
"""What a state takes in memory besides itself, about: its contents, and its places in a list and a dictionary."""


@dataclass(frozen=True, slots=True)
class Several:
    """Any of these states, at least two, may be the one."""

    states: frozenset[Hashable]


class Table:
    """``cells`` has the numbers of the states after, by state and operation, if ``whole``; otherwise it is a hash table
    beside ``keys`` (state * 2**32 + operation) of those asked so far. ``nature`` says of each operation whether it is
    known never to change the state (STILL) or to lead from every state to the same one (CONSTANT), ``impossible`` those
    that can happen in no state. ``several``: the model has left open what follows.
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
            self._asked = 0
            self._grow(FIRST_CELLS)

    def _closure(self) -> list[int] | None:
        """All rows one after the other, or None if they are too many."""
        rows: list[int] = []
        for state in self.states:  # which grows meanwhile
            if len(self.states) * len(self._operations) > WHOLE_CELLS:
                return None
            rows += [self._after(state, operation) for operation in self._operations]
        return rows

    def ask(self, state: int, operation: int) -> None:
        """Add what the model says of one cell."""
        if 2 * self._asked >= len(self.keys):
            self._grow(2 * len(self.keys))
        put(
            self.keys, self.cells, state << 32 | operation, self._after(self.states[state], self._operations[operation])
        )
        self._asked += 1

    def _grow(self, size: int) -> None:
        keys, cells = self.keys, self.cells
        self.keys, self.cells = np.full(size, -1, np.int64), np.zeros(size, np.int32)
        used = np.flatnonzero(keys >= 0)
        for key, after in zip(keys[used].tolist(), cells[used].tolist(), strict=True):
            put(self.keys, self.cells, key, after)

    @property
    def memory(self) -> int:
        """Bytes, about."""
        return self.keys.nbytes + self.cells.nbytes + self._bytes

    def _after(self, state: Any, operation: Operation) -> int:
        found = self._united(state, operation) if type(state) is Several else self._model.step(state, operation)
        if isinstance(found, Inconsistent):
            return INCONSISTENT
        if isinstance(found, Either):
            if not found.states:
                return INCONSISTENT
            found = next(iter(found.states)) if len(found.states) == 1 else Several(found.states)
            self.several = True
        number = self._numbers.get(found)
        if number is None:
            number = self._numbers[found] = len(self.states)
            self.states.append(found)
            self._bytes += (
                STATE_BYTES + getsizeof(found) + sum(map(getsizeof, found) if isinstance(found, tuple) else ())
            )
        return number

    def _united(self, several: Several, operation: Operation) -> Either:
        return Either(frozenset(after for state in several.states for after in self._each(state, operation)))

    def _each(self, state: Hashable, operation: Operation) -> frozenset[Hashable]:
        found = self._model.step(state, operation)
        if isinstance(found, Inconsistent):
            return frozenset()
        return found.states if isinstance(found, Either) else frozenset((found,))

    def successors(self, state: Hashable, operation: int) -> frozenset[Hashable]:
        """The states of the model that one of them may lead to; none if the operation cannot have happened in it."""
        return self._each(state, self._operations[operation])


def options(state: Hashable) -> frozenset[Hashable]:
    """The states of the model that a state of a table stands for."""
    return state.states if isinstance(state, Several) else frozenset((state,))
