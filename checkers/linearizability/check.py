"""Is a history linearizable? The quick algorithm where the model has one, the search where it has none or cannot
tell; each key by itself (a history is linearizable if and only if each key's is: Herlihy and Wing, "Linearizability: a
correctness condition for concurrent objects", 1990, locality); and, where it is not, an explanation.

What a quick algorithm calls wrong is searched as well, on the part that it points to, before anybody is told.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.base import CAP, Verdict, Violation
from checkers.linearizability.core import core
from checkers.linearizability.explain import Finding, picture, violation
from checkers.linearizability.picture import Picture
from checkers.linearizability.problem import Answer, Failure, Outcome, Problem, problem, rows_by_key
from checkers.linearizability.search import Budget, Searcher
from checkers.models import (
    FencedMutex,
    FifoLock,
    LeaseMutex,
    Model,
    Mutex,
    OwnerMutex,
    ReadWriteLock,
    ReentrantFencedMutex,
    ReentrantMutex,
    Semaphore,
)
from harness.history.calls import Calls

OWNED: Final = (OwnerMutex, ReentrantMutex, FencedMutex, ReentrantFencedMutex, ReadWriteLock, LeaseMutex)
"""Locks whose holds have an owner."""
EXPLAINED = 5
"""Keys whose smallest wrong part is looked for; of the others only the call is told at which no order was left."""
LARGEST = 5000
"""Calls that are searched again, and of which the smallest wrong part is found, after a quick algorithm found them
wrong."""
SHRINKING = 10.0
"""Seconds for making one part smaller, at most."""


class ModelError(ValueError):
    """The model cannot be held against this history; the message says why."""


@dataclass(frozen=True, slots=True)
class Checked:
    """``pictures`` are of the keys that were explained. ``quick`` says whether an algorithm for this very model
    answered, ``searched`` on how many keys a search was needed; ``seconds`` is all the time it took."""

    verdict: Verdict
    pictures: tuple[Picture, ...]
    quick: bool
    searched: int
    seconds: float


def check(
    calls: Calls,
    model: Model,
    *,
    name: str = "",
    budget: Budget | None = None,
    workers: int = 0,
    quick: bool = True,
) -> Checked:
    """Holds ``calls`` against ``model``, called ``name``.

    ``budget`` is for all searches together; what they cannot decide within it is unknown. ``workers`` threads search
    (0: as many as there are processors). Without ``quick`` every key is searched. Raises :class:`ModelError` where the
    history has calls of which the model would have to know what they do, or values that it cannot read.
    """
    begin = time.monotonic()
    budget = budget or Budget()
    name = name or type(model).__name__
    refused = sorted(set(calls.fs) & set(model.refuses))
    if refused:
        raise ModelError(f"the model {name} does not know what {', '.join(refused)} does to the value")
    mine = calls.pick(calls.named(sorted(model.fs))) if not set(calls.fs) <= model.fs else calls
    algorithm = _quick(model) if quick else None
    try:
        checked = _Check(mine, model, name, budget, workers or os.cpu_count() or 1)
        outcome = algorithm(mine) if algorithm else Outcome(undecided=tuple(np.unique(mine.key).tolist()))
        verdict, pictures = checked.conclude(outcome)
    except (ValueError, TypeError) as error:
        raise ModelError(f"the model {name} cannot read this history: {error}") from error
    seconds = time.monotonic() - begin
    return Checked(verdict, pictures, algorithm is not None, len(outcome.undecided), seconds)


def _quick(model: Model) -> Callable[[Calls], Outcome] | None:
    """The algorithm for exactly this model; a class derived from it may mean something else."""
    from checkers.linearizability import deadlines, definite, fifo

    kind = type(model)
    if isinstance(model, Mutex | Semaphore) and kind in (Mutex, Semaphore):
        return lambda calls: deadlines.check(calls, model)
    if isinstance(model, FifoLock) and kind is FifoLock:
        return lambda calls: fifo.check(calls, model)
    return (lambda calls: definite.check(calls, model)) if kind in OWNED else None


class _Check:
    def __init__(self, calls: Calls, model: Model, name: str, budget: Budget, workers: int) -> None:
        self.calls, self.model, self.name, self.workers = calls, model, name, workers
        self.budget = budget
        self.deadline = time.monotonic() + budget.seconds
        self.tried = 0

    def conclude(self, outcome: Outcome) -> tuple[Verdict, tuple[Picture, ...]]:
        findings = [self._confirmed(failure) for failure in outcome.failures[:EXPLAINED]]
        unknown: list[str] = []
        wrong = max(0, len(outcome.failures) - EXPLAINED)
        for key, (part, answer) in zip(outcome.undecided, self._searched(outcome.undecided), strict=True):
            self.tried += answer.tried
            if answer.valid is None:
                unknown.append(f"{self.calls.keys[key] or 'the history'}: {answer.why}")
            elif not answer.valid and len(findings) < CAP:
                findings.append(self._explained(key, part, answer))
            elif not answer.valid:
                wrong += 1
        count = len(findings) + wrong
        violations = [violation(self.calls, self.model, finding) for finding in findings]
        pictures = tuple(picture(self.calls, self.model, self.name, finding) for finding in findings if finding.core)
        stats = {
            "calls": len(self.calls),
            "keys": len(np.unique(self.calls.key)),
            "unknown_outcomes": int((self.calls.known == 0).sum()),
            "failed_calls": self.calls.failed,
            "configurations": self.tried,
        }
        return _verdict(self.calls, self.name, violations, unknown, stats, count), pictures

    def _confirmed(self, failure: Failure) -> Finding:
        """Why a search finds the key wrong as well, or the part that the failure points to if the key is large; if that
        is too large, too, the call at which no order was left."""
        earlier = np.flatnonzero((self.calls.key == failure.key) & (self.calls.invoked < failure.position))
        rows = earlier if len(earlier) <= LARGEST else np.array(sorted(failure.rows), dtype=np.int64)
        found = problem(self.calls.pick(rows), self.model, failure.key)
        part = Problem(found.invoked, found.returned, found.kind, found.operation, found.operations, rows[found.rows])
        if len(part) <= LARGEST:
            answer = Searcher(self.model, part.operations).search(part, Budget(SHRINKING, self.budget.memory))
            self.tried += answer.tried
            if answer.valid:
                raise AssertionError(
                    f"two algorithms disagree on entry {failure.position} of key {self.calls.keys[failure.key]!r}: "
                    "please report it, with the history"
                )
            if answer.valid is False:
                return self._explained(failure.key, part, answer)
        unplaced = int(np.flatnonzero(part.returned == failure.position)[0])
        return Finding(failure.key, part, Answer(False, stuck=failure.position, unplaced=unplaced))

    def _searched(self, keys: Iterable[int]) -> Iterable[tuple[Problem, Answer]]:
        numbers = list(keys)
        if not numbers:
            return []
        workers = min(self.workers, len(numbers))
        memory = self.budget.memory // workers
        rows = rows_by_key(self.calls, self.model)

        def one(key: int) -> tuple[Problem, Answer]:
            part = problem(self.calls, self.model, key, rows[key])
            left = max(0.0, self.deadline - time.monotonic())
            return part, Searcher(self.model, part.operations).search(part, Budget(left, memory))

        if workers == 1:
            return map(one, numbers)
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, numbers))

    def _explained(self, key: int, part: Problem, answer: Answer) -> Finding:
        seconds = min(SHRINKING, max(1.0, self.deadline - time.monotonic()))
        found = core(part, answer, Searcher(self.model, part.operations), Budget(seconds, self.budget.memory))
        return Finding(key, part, answer, found)


def _verdict(
    calls: Calls, name: str, violations: list[Violation], unknown: list[str], stats: dict[str, int], count: int
) -> Verdict:
    if count:
        shown = tuple(sorted(violations, key=lambda found: found.involved[0]["indices"][0])[:CAP])
        more = f" (and {count - 1} more keys are not linearizable)" if count > 1 else ""
        return Verdict(False, shown[0].sentence + more, shown, {**stats, "violations": count})
    if unknown:
        return Verdict(None, "; ".join(unknown[:3]), (), {**stats, "violations": 0})
    if not len(calls):
        return Verdict(None, f"nothing to check: no call that a {name} answers for happened", (), stats)
    keys = stats["keys"]
    where = f" of {keys} keys, each by itself," if keys > 1 else ""
    fine = f"{len(calls)} calls{where} fit an order that a {name} allows"
    return Verdict(True, fine, (), {**stats, "violations": 0})
