"""Is a history linearizable? The quick algorithm where the model has one, the search where it has none or cannot
tell; each key by itself (a history is linearizable if and only if each key's is: Herlihy and Wing, "Linearizability: a
correctness condition for concurrent objects", 1990, locality); and, where it is not, an explanation.

What a quick algorithm calls wrong is searched as well, on the part that it points to, before anybody is told.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

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
from harness.history.calls import Calls, Ints

OWNED: Final = (OwnerMutex, ReentrantMutex, FencedMutex, ReentrantFencedMutex, ReadWriteLock, LeaseMutex)
"""Locks whose holds have an owner."""
EXPLAINED = 5
"""Keys that a quick algorithm found wrong of which it is said why; the others are only counted."""
LARGEST = 5000
"""Calls that are searched again, and of which the smallest wrong part is found, after a quick algorithm found them
wrong."""
PICTURED = 500
"""So many calls of a key are all looked at once more, for the order that they had before it went wrong."""
SHRINKING = 10.0
"""Seconds for confirming and explaining what is wrong, at most, whatever the budget of the searches."""


class ModelError(ValueError):
    """The model cannot be held against this history; the message says why."""


class Disagreement(AssertionError):
    """Two algorithms do not agree: one of them is wrong, and nothing may be said."""


@dataclass(frozen=True, slots=True)
class Checked:
    """``pictures`` are of the keys that were explained. ``quick`` says whether an algorithm for this very model
    answered, ``searched`` on how many keys a search was needed."""

    verdict: Verdict
    pictures: tuple[Picture, ...]
    quick: bool
    searched: int


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
    budget = budget or Budget()
    name = name or type(model).__name__
    counts = np.bincount(calls.f, minlength=len(calls.fs))
    made = {f for f, count in zip(calls.fs, counts.tolist(), strict=True) if count}
    refused = sorted(made & set(model.refuses))
    if refused:
        raise ModelError(f"the model {name} does not know what {', '.join(refused)} does to the value")
    if model.timed and len(calls) and (calls.began == calls.invoked).all():
        raise ModelError(f"the model {name} asks when calls were made, and the history does not say")
    mine = calls if made <= model.fs else calls.pick(calls.named(sorted(model.fs)))
    algorithm = quick_algorithm(model) if quick else None
    try:
        checked = _Check(mine, model, name, budget, workers or os.cpu_count() or 1)
        outcome = algorithm(mine) if algorithm else Outcome(undecided=tuple(np.unique(mine.key).tolist()))
        verdict, pictures = checked.conclude(outcome)
    except (Disagreement, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # the model's, which may be anybody's
        what = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ModelError(f"the model {name} cannot read this history: {what}") from error
    return Checked(verdict, pictures, algorithm is not None, len(outcome.undecided))


def quick_algorithm(model: Model) -> Callable[[Calls], Outcome] | None:
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
        self.stop = threading.Event()
        self.budget = budget
        self.deadline = time.monotonic() + budget.seconds
        self.explaining = SHRINKING
        self.tried = 0

    def conclude(self, outcome: Outcome) -> tuple[Verdict, tuple[Picture, ...]]:
        findings = [self._explaining(self._confirmed, failure) for failure in outcome.failures[:EXPLAINED]]
        unknown: list[str] = []
        wrong = max(0, len(outcome.failures) - EXPLAINED)
        for key, part, answer in self._searched(outcome.undecided):
            self.tried += answer.tried
            if answer.valid is None:
                unknown.append(f"{self.calls.keys[key] or 'the history'}: {answer.why}")
            elif part is not None and len(findings) < CAP:
                findings.append(self._explaining(self._explained, key, part, answer))
            elif not answer.valid:
                wrong += 1
        count = len(findings) + wrong
        violations = [violation(self.calls, self.model, finding) for finding in findings]
        pictures = tuple(picture(self.calls, self.model, self.name, finding) for finding in findings if finding.core)
        stats = {
            "calls": len(self.calls),
            "keys": int(np.count_nonzero(np.bincount(self.calls.key))),
            "unknown_outcomes": int((self.calls.known == 0).sum()),
            "failed_calls": self.calls.failed,
            "configurations": self.tried,
        }
        return _verdict(self.calls, self.name, violations, unknown, stats, count), pictures

    def _confirmed(self, failure: Failure) -> Finding:
        """Why a search finds the part wrong as well that the failure points to; if that is too large, the call at which
        no order was left."""
        rows = np.array(sorted(failure.rows), dtype=np.int64)
        part = self._part(failure.key, rows)
        if len(part) <= LARGEST:
            answer = Searcher(self.model, part.operations).search(part, self._rest())
            self.tried += answer.tried
            if answer.valid:
                raise Disagreement(
                    f"two algorithms disagree on entry {failure.position} of key {self.calls.keys[failure.key]!r}: "
                    "please report it, with the history"
                )
            if answer.valid is False:
                return self._among_others(failure, self._explained(failure.key, part, answer))
        unplaced = int(np.flatnonzero(part.returned == failure.position)[0])
        return Finding(failure.key, part, Answer(False, stuck=failure.position, unplaced=unplaced))

    def _part(self, key: int, rows: Ints) -> Problem:
        found = problem(self.calls.pick(rows), self.model, key)
        return replace(found, rows=rows[found.rows])

    def _among_others(self, failure: Failure, finding: Finding) -> Finding:
        """The same with all that came before, so that it can be seen what led there, unless that is too much."""
        before = np.flatnonzero((self.calls.key == failure.key) & (self.calls.invoked < failure.position))
        if len(before) > PICTURED or finding.core is None:
            return finding
        whole = self._part(failure.key, before)
        answer = Searcher(self.model, whole.operations).search(whole, self._rest())
        if answer.valid is not False:
            return finding
        calls = np.searchsorted(whole.rows, finding.problem.rows[list(finding.core.calls)])
        return Finding(failure.key, whole, answer, replace(finding.core, calls=tuple(calls.tolist())))

    def _searched(self, keys: Sequence[int]) -> Sequence[tuple[int, Problem | None, Answer]]:
        """The answer for each key; of those that are right nothing but that is kept."""
        workers = max(1, min(self.workers, len(keys)))
        memory = self.budget.memory // workers
        rows = rows_by_key(self.calls, self.model) if keys else []

        def one(key: int) -> tuple[int, Problem | None, Answer]:
            left = self.deadline - time.monotonic()
            if left <= 0:
                return key, None, Answer(None, why=f"the time for the search, {self.budget.seconds:g} s, was over")
            part = problem(self.calls, self.model, key, rows[key])
            limits = Budget(max(0.0, left), memory, self.stop)
            answer = Searcher(self.model, part.operations).search(part, limits)
            return (key, None, Answer(True, tried=answer.tried)) if answer.valid else (key, part, answer)

        if workers == 1:
            return list(map(one, keys))
        with ThreadPoolExecutor(workers) as pool:
            try:
                return list(pool.map(one, keys))
            except BaseException:
                self.stop.set()  # the pool waits for what is being searched
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _explained(self, key: int, part: Problem, answer: Answer) -> Finding:
        return Finding(key, part, answer, core(part, answer, Searcher(self.model, part.operations), self._rest()))

    def _explaining(self, explain: Callable[..., Finding], *about: Any) -> Finding:
        begin = time.monotonic()
        found = explain(*about)
        self.explaining -= time.monotonic() - begin
        return found

    def _rest(self) -> Budget:
        """For explaining: what is left of its time."""
        return Budget(max(0.0, self.explaining), self.budget.memory, self.stop)


def _verdict(
    calls: Calls, name: str, violations: list[Violation], unknown: list[str], stats: dict[str, int], count: int
) -> Verdict:
    if count:
        shown = tuple(sorted(violations, key=lambda found: found.involved[0]["indices"][0])[:CAP])
        others = f" (and {count - 1} more key{'s are' if count > 2 else ' is'} not linearizable)" if count > 1 else ""
        return Verdict(False, shown[0].sentence + others, shown, {**stats, "violations": count})
    if unknown:
        return Verdict(None, "; ".join(unknown[:3]), (), {**stats, "violations": 0})
    if not len(calls):
        return Verdict(None, f"nothing to check: no call that the model {name} answers for happened", (), stats)
    keys = stats["keys"]
    where = f" of {keys} keys, each by itself," if keys > 1 else ""
    number = "1 call fits" if len(calls) == 1 else f"{len(calls)} calls{where} fit"
    return Verdict(True, f"{number} an order that the model {name} allows", (), {**stats, "violations": 0})
