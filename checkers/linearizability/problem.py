"""The input and output types of the linearizability algorithms.

Positions are those of :class:`harness.history.calls.Calls`: a call takes effect at one instant after the entry
``invoked`` and before the entry ``returned``. There are three kinds of calls. A MUST call surely happened: it has a
place in its window. A MAY call has an unknown outcome: it has a place anywhere after its invocation, or none. A LOOSE
call has a place in its window, or none. No history has LOOSE calls: they are the calls on which an explanation must not
depend (:mod:`harness.checkers.linearizability.core`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.checkers.models import Model, Operation
from harness.history.calls import NEVER, Calls, Codes, Ints, Marks

MUST, MAY, LOOSE = range(3)


@dataclass(frozen=True, slots=True)
class KeyProblem:
    """The calls of one key, in the order of their invocations.

    ``kind`` is one of MUST, MAY and LOOSE; ``returned`` is NEVER exactly where ``kind`` is MAY. ``operation`` has
    numbers into ``operations``, which has each distinct operation once: two calls of the same number differ only in
    their windows. ``rows`` are the rows of the calls in their history.
    """

    invoked: Ints
    returned: Ints
    kind: Marks
    operation: Codes
    operations: tuple[Operation, ...]
    rows: Ints

    def __len__(self) -> int:
        return len(self.invoked)

    def pick(self, which: npt.NDArray[Any]) -> KeyProblem:
        """Return the problem with these calls only (a mask, or numbers in rising order)."""
        return KeyProblem(
            self.invoked[which],
            self.returned[which],
            self.kind[which],
            self.operation[which],
            self.operations,
            self.rows[which],
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one search: seconds, bytes for remembered configurations, and the number of configurations.

    When the memory is full, the search goes on, slower, without remembering more. When the time is over or it has tried
    so many configurations, it gives up. Whether a number of configurations is enough does not depend on the machine.
    """

    seconds: float = 60.0
    memory: int = 2**30
    stop: Event = field(default_factory=Event, compare=False, repr=False)
    """Another thread can set this event to end the search as if its time were over."""
    configurations: int = NEVER


def until(problem: KeyProblem, stuck: int) -> KeyProblem:
    """Return the history up to the return at ``stuck``.

    Calls that were invoked later are left out. Calls that had not returned by then become MAY calls, since their
    outcome was not known yet.
    """
    part = problem.pick(problem.invoked < stuck)
    late = part.returned > stuck
    kind = np.where(late, MAY, part.kind).astype(np.int8)
    returned = np.where(late, NEVER, part.returned)
    return KeyProblem(part.invoked, returned, kind, part.operation, part.operations, part.rows)


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The result of a search on one problem. ``valid`` is None if its budget ran out; ``why`` then says which limit it
    was.

    ``order`` is the longest explanation found: numbers of calls of the problem, in an order that the model allows and
    that respects their windows. If ``valid``, it has every MUST call. ``states`` are the model's states after each of
    them. ``stuck`` is the position of the return that no order reaches (NEVER if there is none) and ``unplaced`` the
    call that returned there. ``tried`` counts the configurations tried.
    """

    valid: bool | None
    order: tuple[int, ...] = ()
    states: tuple[Hashable, ...] = ()
    stuck: int = NEVER
    unplaced: int = -1
    tried: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class ProvedImpossible:
    """A proof, by a quick algorithm, that a key has no order: the calls ``rows`` cannot all have happened.

    ``rows`` is a part of the history. Removing every other call of the key makes no wrong history correct and no
    correct history wrong. The part need not be the smallest one. ``position`` is the entry at which the last order was
    lost; of a stack or a register, the last return of the part.
    """

    key: int
    position: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QuickResult:
    """The result of a quick algorithm for all keys: ``failures`` are the keys proved wrong, and ``undecided`` has the
    numbers of the keys that only a search can decide. Every other key has an order."""

    failures: tuple[ProvedImpossible, ...] = ()
    undecided: tuple[int, ...] = ()


class Disagreement(AssertionError):
    """Two algorithms disagree: one of them has a bug, so there is no verdict."""


def rows_by_key(calls: Calls, model: Model) -> list[Ints]:
    """Return, for each key of the history, the rows of its calls that ``model`` covers.

    This is what :func:`problem` looks for, found once for all keys.
    """
    rows = np.flatnonzero(_answered(calls, model))
    keys = calls.key[rows]
    order = np.argsort(keys, kind="stable")
    return np.split(rows[order], np.searchsorted(keys[order], np.arange(1, len(calls.keys))))


def _answered(calls: Calls, model: Model) -> npt.NDArray[np.bool_]:
    if model.fs.issuperset(calls.fs):
        return np.ones(len(calls), np.bool_)
    return calls.named(sorted(model.fs))


def problem(calls: Calls, model: Model, key: int, rows: Ints | None = None) -> KeyProblem:
    """Return the problem of the calls of ``key`` that ``model`` covers; pass their ``rows`` if they are known."""
    if rows is None:
        rows = np.flatnonzero((calls.key == key) & _answered(calls, model))
    known = calls.known[rows]
    columns: list[npt.NDArray[Any]] = [known, calls.f[rows], calls.argument[rows], calls.result[rows]]
    if model.clients:
        columns.append(calls.client[rows])
    if len(calls.fence):
        columns += [calls.fence[rows], calls.lease[rows], calls.good[rows]]
    if model.timed:
        columns += [calls.began[rows], calls.ended[rows]]
    _, first, which = np.unique(_folded(columns), return_index=True, return_inverse=True)
    operations = tuple(_operation(calls, model, row) for row in rows[first].tolist())
    returned = np.where(known, calls.returned[rows], NEVER)
    kind = (1 - known).astype(np.int8)  # MUST is 0, MAY is 1
    return KeyProblem(calls.invoked[rows], returned, kind, which.astype(np.int32), operations, rows)


def _folded(columns: list[npt.NDArray[Any]]) -> Ints:
    """Return one number for each row of ``columns``, equal only for equal rows."""
    folded: Ints = np.zeros(len(columns[0]), np.int64)
    spread = 1
    for column in columns if len(folded) else ():
        low, high = int(column.min()), int(column.max())
        width, numbers = high - low + 1, column.astype(np.int64)
        if width >= 2**31:
            numbers, width = _renumbered(column)
            low = 0
        if spread * width >= 2**63:
            folded, spread = _renumbered(folded)
        if width > 1:
            folded = folded * width + (numbers - low)
            spread *= width
    return folded


def _renumbered(column: npt.NDArray[Any]) -> tuple[Ints, int]:
    """Return the column with its values renumbered from 0, and the number of values."""
    values, numbers = np.unique(column, return_inverse=True)
    return numbers.astype(np.int64), len(values)


def _operation(calls: Calls, model: Model, row: int) -> Operation:
    known = bool(calls.known[row])
    return Operation(
        f=calls.fs[calls.f[row]],
        argument=calls.argument_of(row),
        result=calls.result_of(row) if known else None,
        known=known,
        client=calls.clients[calls.client[row]] if model.clients else "",
        began=int(calls.began[row]) - calls.origin if model.timed else 0,
        ended=int(calls.ended[row]) - calls.origin if model.timed and calls.ended[row] != NEVER else NEVER,
    )
