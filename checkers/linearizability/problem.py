"""What is asked of an algorithm, and what it answers.

Positions are those of :class:`harness.history.calls.Calls`: a call takes effect at one instant after the entry
``invoked`` and before the entry ``returned``. Three kinds of call: one that surely happened must be put somewhere in
its window; one of unknown outcome may be put anywhere after its invocation, or nowhere; and one that is *loose* may be
put somewhere in its window, or nowhere. No history has loose calls: they stand for those that an explanation shall not
depend on (:mod:`checkers.linearizability.core`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from checkers.models import Model, Operation
from harness.history.calls import NEVER, Calls, Codes, Ints, Marks

MUST, MAY, LOOSE = range(3)
KINDS: Final = ("must", "may", "loose")


@dataclass(frozen=True, slots=True)
class Problem:
    """The calls of one key, in the order of their invocations.

    ``kind`` is one of MUST, MAY and LOOSE; ``returned`` is NEVER exactly where ``kind`` is MAY. ``operation`` numbers
    into ``operations``, which holds each distinct one once: two calls of the same number are interchangeable but for
    their windows. ``rows`` are the rows of the calls in the history they came from.
    """

    invoked: Ints
    returned: Ints
    kind: Marks
    operation: Codes
    operations: tuple[Operation, ...]
    rows: Ints

    def __len__(self) -> int:
        return len(self.invoked)

    def pick(self, which: npt.NDArray[Any]) -> Problem:
        """The same problem with these calls only (a mask, or numbers in rising order)."""
        return Problem(
            self.invoked[which],
            self.returned[which],
            self.kind[which],
            self.operation[which],
            self.operations,
            self.rows[which],
        )


def until(problem: Problem, stuck: int) -> Problem:
    """The history up to the return at ``stuck``: what was invoked later is left out, and of what had not returned by
    then nobody knew yet what would come of it."""
    part = problem.pick(problem.invoked < stuck)
    late = part.returned > stuck
    kind = np.where(late, MAY, part.kind).astype(np.int8)
    returned = np.where(late, NEVER, part.returned)
    return Problem(part.invoked, returned, kind, part.operation, part.operations, part.rows)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found out about one problem. ``valid`` is None if its budget ran out, and ``why`` says which.

    ``order`` is the longest explanation found: numbers of calls of the problem, in an order that the model allows and
    that respects their windows; if valid it has every call that must be in it. ``states`` are the model's states
    after each of them. ``stuck`` is the position of the return that no order reaches (NEVER if there is none) and
    ``unplaced`` the call that returned there. ``tried`` counts the configurations looked at.
    """

    valid: bool | None
    order: tuple[int, ...] = ()
    states: tuple[Hashable, ...] = ()
    stuck: int = NEVER
    unplaced: int = -1
    tried: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A proof, by a quick algorithm, that a key has no order: the calls ``rows`` cannot all have happened.

    ``rows`` is a part of the history from which every other call of the key can be taken away without making a wrong
    history right or a right one wrong; it need not be the smallest. ``position`` is the entry at which the last
    order was lost.
    """

    key: int
    position: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a quick algorithm says of all keys at once: those proved wrong, and the numbers of those on which only a
    search can decide. Every other key has an order."""

    failures: tuple[Failure, ...] = ()
    undecided: tuple[int, ...] = ()


def rows_by_key(calls: Calls, model: Model) -> list[Ints]:
    """For each key of the history the rows of its calls that ``model`` answers for: what :func:`problem` looks for,
    found once for all keys."""
    rows = np.flatnonzero(_answered(calls, model))
    keys = calls.key[rows]
    order = np.argsort(keys, kind="stable")
    return np.split(rows[order], np.searchsorted(keys[order], np.arange(1, len(calls.keys))))


def _answered(calls: Calls, model: Model) -> npt.NDArray[np.bool_]:
    if model.fs.issuperset(calls.fs):
        return np.ones(len(calls), np.bool_)
    return calls.named(sorted(model.fs))


def problem(calls: Calls, model: Model, key: int, rows: Ints | None = None) -> Problem:
    """The calls of ``key`` that ``model`` answers for; ``rows`` are those, if they are known (:func:`rows_by_key`)."""
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
    return Problem(calls.invoked[rows], returned, kind, which.astype(np.int32), operations, rows)


def _folded(columns: list[npt.NDArray[Any]]) -> Ints:
    """One number for each row of ``columns``, the same only for equal rows."""
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
    """The same with small numbers from 0 on, and how many there are."""
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
