"""The smallest part of a history that is still wrong.

A part must be wrong for the reason that the whole is wrong. Taking a release away from a right history makes a wrong
one, so taking calls away until nothing more can go proves nothing. Here a call is not taken away but *loosened*: it
may have happened within its window, or not. Loosening only ever allows more, hence

- a part whose calls cannot all have happened, *whatever the others did*, shows that the whole is wrong;
- without the others it is wrong too, for "they did not happen" is one of the things they may have done;
- if a part is wrong, every larger part is, so a part from which no call can be loosened is found by trying, and that
  there is none of a smaller size is shown by trying all of the next smaller size.

The search gets stuck at the return of one call: without that call the history up to there has an order. So that call
is in every part that is wrong by then, and nothing that was invoked later is. (What goes wrong only later may be a
smaller part; it is not looked for.) Removing by halves first is the idea of
delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from checkers.linearizability.problem import LOOSE, MUST, Answer, Problem, until
from checkers.linearizability.search import Budget, Searcher

FEW = 50
"""A part of so many calls is worth showing though the time ran out before it was smaller."""
TRIES = 3000
"""So many parts of the next smaller size are tried, at most, to show that there is none."""


@dataclass(frozen=True, slots=True)
class Core:
    """``calls`` are numbers of calls of the problem, in the order of their invocations. ``smallest``: it was shown
    that no smaller part is wrong; else no call of this one can be left out, or time ran out before that was known."""

    calls: tuple[int, ...]
    smallest: bool


def core(problem: Problem, answer: Answer, searcher: Searcher, budget: Budget) -> Core | None:
    """The smallest wrong part of ``problem``, which ``answer`` found to be wrong; calls are those of ``problem``. None
    if the time ran out while it was still large."""
    cut = until(problem, answer.stuck)
    shrink = _Shrink(cut, searcher, budget)
    kept = shrink.shrunk(_near(cut, answer.unplaced))
    if shrink.late and len(kept) > FEW:
        return None
    return Core(tuple(sorted(kept)), smallest=len(kept) == 1 or shrink.is_smallest(kept))


def _near(problem: Problem, unplaced: int) -> list[int]:
    """The calls that surely happened, the last to return first; the one in which every part meets is the first."""
    sure = np.flatnonzero(problem.kind == MUST)
    order = sure[np.argsort(-problem.returned[sure], kind="stable")].tolist()
    order.remove(unplaced)
    return [unplaced, *order]


class _Shrink:
    def __init__(self, problem: Problem, searcher: Searcher, budget: Budget) -> None:
        self.problem, self.searcher = problem, searcher
        self.deadline = time.monotonic() + budget.seconds
        self.memory = budget.memory
        self.late = False
        self.candidates: list[int] = []

    def wrong(self, kept: list[int]) -> bool:
        """Whether the calls ``kept`` cannot all have happened; false also if there is no time to find out."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            self.late = True
            return False
        kind = np.where(self.problem.kind == MUST, LOOSE, self.problem.kind).astype(np.int8)
        kind[np.array(kept, dtype=np.int64)] = MUST
        part = self.problem
        loosened = Problem(part.invoked, part.returned, kind, part.operation, part.operations, part.rows)
        answer = self.searcher.search(loosened, Budget(left, self.memory))
        self.late = self.late or answer.valid is None
        return answer.valid is False

    def shrunk(self, order: list[int]) -> list[int]:
        """A part from which nothing can be left out: first the last few calls only, then ever smaller pieces of
        what remains are left out."""
        self.candidates = order
        count = 1
        while count < len(order) and not self.wrong(order[:count]):
            if self.late:
                return order
            count *= 2
        kept = order[:count]
        piece = max(1, (len(kept) - 1) // 2)
        while True:
            at = 1  # the first is in every part
            while at < len(kept) and not self.late:
                fewer = kept[:at] + kept[at + piece :]
                if self.wrong(fewer):
                    kept = fewer
                else:
                    at += piece
            if piece == 1 or self.late:
                return kept
            piece = max(1, piece // 2)

    def is_smallest(self, kept: list[int]) -> bool:
        """Whether no part with one call fewer is wrong; every smaller wrong part would be inside a wrong one of that
        size. A smaller one that turns up takes the place of ``kept``."""
        while len(kept) > 1 and not self.late:
            if comb(len(self.candidates) - 1, len(kept) - 2) > TRIES:
                return False
            smaller = next((part for part in self._parts(len(kept) - 1) if self.wrong(part)), None)
            if smaller is None:
                return not self.late
            kept[:] = smaller
        return not self.late

    def _parts(self, size: int) -> Iterator[list[int]]:
        first, *others = self.candidates
        return ([first, *rest] for rest in combinations(others, size - 1))
