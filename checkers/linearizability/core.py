"""Find the smallest part of a wrong history that is still wrong, to explain it.

A part must be wrong for the same reason as the whole. Removing a release from a correct history makes it wrong, so
removing calls as long as the rest is wrong proves nothing. Instead of removing a call, this module *loosens* it: the
call may have happened within its window, or not. Loosening only ever allows more orders. Hence:

- If the calls of a part cannot all have happened, *whatever the other calls did*, the whole is wrong.
- The part is then also wrong without the other calls, since "they did not happen" is one of the possibilities.
- If a part is wrong, every larger part is. So we find a part from which no call can be loosened by trying. To show that
  no smaller part is wrong, it is enough to try all parts with one call fewer.

The search gets stuck at the return of one call: without that call, the history up to there has an order. So that call
is in every part that is wrong by then, and no call that was invoked later is in it. (A part that goes wrong later may
be smaller; we do not look for it.) Removing by halves first is the idea of delta debugging (Zeller and Hildebrandt,
"Simplifying and isolating failure-inducing input", 2002).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from .problem import LOOSE, MUST, Budget, KeyProblem, SearchAnswer, until
from .search import Searcher

FEW = 50
"""The largest part that is shown although the time ran out before it was minimal, in calls."""
TRIES = 3000
"""The most parts with one call fewer that are tried, to show that none of them is wrong."""


@dataclass(frozen=True, slots=True)
class Core:
    """A wrong part of a problem.

    ``calls`` are the numbers of its calls in the problem, in the order of their invocations. ``smallest``: it is proved
    that no smaller part is wrong. Otherwise no single call can be left out of this part, or the time ran out before
    that was known.
    """

    calls: tuple[int, ...]
    smallest: bool


def core(problem: KeyProblem, answer: SearchAnswer, searcher: Searcher, budget: Budget) -> Core | None:
    """Return the smallest wrong part of ``problem``, which ``answer`` found to be wrong.

    Returns None if the time ran out while the part was still large.
    """
    cut = until(problem, answer.stuck)
    shrink = _Shrink(cut, searcher, budget)
    subset = shrink.shrunk(_near(cut, answer.unplaced))
    if shrink.late and len(subset) > FEW:
        return None
    return Core(tuple(sorted(subset)), smallest=len(subset) == 1 or shrink.is_smallest(subset))


def _near(problem: KeyProblem, unplaced: int) -> list[int]:
    """Return the calls that surely happened, the last to return first; the call that is in every wrong part comes
    first."""
    sure = np.flatnonzero(problem.kind == MUST)
    order = sure[np.argsort(-problem.returned[sure], kind="stable")].tolist()
    order.remove(unplaced)
    return [unplaced, *order]


class _Shrink:
    def __init__(self, problem: KeyProblem, searcher: Searcher, budget: Budget) -> None:
        self.problem, self.searcher = problem, searcher
        self.deadline = time.monotonic() + budget.seconds
        self.memory = budget.memory
        self.late = False
        self.candidates: list[int] = []

    def wrong(self, subset: list[int]) -> bool:
        """Return True if the calls ``subset`` cannot all have happened; False also if there is no time left."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            self.late = True
            return False
        kind = np.where(self.problem.kind == MUST, LOOSE, self.problem.kind).astype(np.int8)
        kind[np.array(subset, dtype=np.int64)] = MUST
        part = self.problem
        loosened = KeyProblem(part.invoked, part.returned, kind, part.operation, part.operations, part.rows)
        answer = self.searcher.search(loosened, Budget(left, self.memory))
        self.late = self.late or answer.valid is None
        return answer.valid is False

    def shrunk(self, order: list[int]) -> list[int]:
        """Return a part from which no call can be left out.

        It first tries only the last few calls; then it leaves out smaller and smaller pieces of the rest.
        """
        self.candidates = order
        count = 1
        while count < len(order) and not self.wrong(order[:count]):
            if self.late:
                return order
            count *= 2
        subset = order[:count]
        piece = max(1, (len(subset) - 1) // 2)
        while True:
            at = 1  # the first call is in every wrong part
            while at < len(subset) and not self.late:
                fewer = subset[:at] + subset[at + piece :]
                if self.wrong(fewer):
                    subset = fewer
                else:
                    at += piece
            if piece == 1 or self.late:
                return subset
            piece = max(1, piece // 2)

    def is_smallest(self, subset: list[int]) -> bool:
        """Return whether no part with one call fewer is wrong.

        Every smaller wrong part would be inside a wrong part of that size. If one is found, it replaces ``subset``.
        """
        while len(subset) > 1 and not self.late:
            if comb(len(self.candidates) - 1, len(subset) - 2) > TRIES:
                return False
            smaller = next((part for part in self._parts(len(subset) - 1) if self.wrong(part)), None)
            if smaller is None:
                return not self.late
            subset[:] = smaller
        return not self.late

    def _parts(self, size: int) -> Iterator[list[int]]:
        first, *others = self.candidates
        return ([first, *rest] for rest in combinations(others, size - 1))
