"""Search the keys that no fast algorithm decides, confirm what the fast algorithms found wrong, and explain it.

A history that a fast algorithm found correct needs none of this, so :mod:`.check` loads this module when it does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.checkers.base import CAP, Violation
from harness.checkers.models import Model
from harness.history.calls import Calls, Ints

from . import repair
from .core import core
from .explain import KeyFailure, picture, violation
from .picture import Picture
from .problem import Budget, Disagreement, KeyProblem, ProvedImpossible, QuickResult, SearchAnswer, problem, rows_by_key
from .search import Effort, Searcher

EXPLAINED = 5
"""The most keys proved wrong by a fast algorithm that are explained; further keys are only counted."""
LARGEST = 5000
"""The most calls on which the search confirms a failure of a fast algorithm and looks for the smallest wrong part."""
PICTURED = 500
"""The most calls of a key for which the search runs again, to find the longest valid order before the failure."""
SHRINKING = 10.0
"""The most seconds for confirming and explaining failures, whatever the budget of the searches is."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The keys that are not linearizable, and why.

    ``count`` is the number of these keys; only some of them have a violation, and only some of those a picture.
    ``unknown`` says of each key that was not decided which limit the search met, and ``tried`` is the number of
    configurations of all searches.
    """

    violations: tuple[Violation, ...]
    pictures: tuple[Picture, ...]
    unknown: tuple[str, ...]
    count: int
    tried: int


class Investigation:
    """Searches in one history, together within one budget; ``name`` is the model's name in pictures."""

    def __init__(self, calls: Calls, model: Model, name: str, *, budget: Budget, deadline: float, workers: int) -> None:
        self.calls, self.model, self.name, self.workers = calls, model, name, workers
        self.stop = threading.Event()
        self.budget = budget
        self.deadline = deadline
        self.explaining = SHRINKING
        self.tried = 0
        self.effort = Effort()

    def findings(self, outcome: QuickResult) -> Findings:
        """Search the undecided keys of ``outcome`` and explain its failures; raises :class:`Disagreement`."""
        findings = [self._explaining(self._confirmed, failure) for failure in outcome.failures[:EXPLAINED]]
        unknown: list[str] = []
        wrong = max(0, len(outcome.failures) - EXPLAINED)
        for key, part, answer in self._searched(outcome.undecided):
            self.tried += answer.tried
            if answer.valid is None:
                unknown.append(f"{self.calls.keys[key] or 'the history'}: {answer.why}")
            elif part is not None and len(findings) < CAP:
                finding = self._explaining(self._explained, key, part, answer)
                findings.append(self._explaining(self._among_others, finding))
            elif not answer.valid:
                wrong += 1
        violations = tuple(violation(self.calls, self.model, finding) for finding in findings)
        pictures = tuple(picture(self.calls, self.model, self.name, finding) for finding in findings if finding.core)
        return Findings(violations, pictures, tuple(unknown), len(findings) + wrong, self.tried)

    def _confirmed(self, failure: ProvedImpossible) -> KeyFailure:
        """Confirm a failure by a search on the part that it blames; if that part is too large, blame one call only."""
        rows = np.array(sorted(failure.rows), dtype=np.int64)
        part = self._part(failure.key, rows)
        if len(part) <= LARGEST:
            answer = self._searcher(part).search(part, self._rest())
            self.tried += answer.tried
            if answer.valid:
                raise Disagreement(
                    f"two algorithms disagree on entry {failure.position} of key {self.calls.keys[failure.key]!r}: "
                    "please report it, with the history"
                )
            if answer.valid is False:
                return self._among_others(self._explained(failure.key, part, answer))
        unplaced = int(np.flatnonzero(part.returned == failure.position)[0])
        return KeyFailure(failure.key, part, SearchAnswer(False, stuck=failure.position, unplaced=unplaced))

    def _searcher(self, part: KeyProblem) -> Searcher:
        return Searcher(self.model, part.operations, self.effort)

    def _part(self, key: int, rows: Ints) -> KeyProblem:
        found = problem(self.calls.pick(rows), self.model, key)
        return replace(found, rows=rows[found.rows])

    def _among_others(self, finding: KeyFailure) -> KeyFailure:
        """Return the finding with all earlier calls of the key, to show what led there, unless they are too many."""
        key, position = finding.key, finding.answer.stuck
        before = np.flatnonzero((self.calls.key == key) & (self.calls.invoked < position))
        if len(before) > PICTURED or finding.core is None or len(before) <= len(finding.problem):
            return finding
        whole = self._part(key, before)
        answer = self._searcher(whole).search(whole, self._rest())
        if answer.valid is not False:
            return finding
        calls = np.searchsorted(whole.rows, finding.problem.rows[list(finding.core.calls)])
        return KeyFailure(key, whole, answer, replace(finding.core, calls=tuple(calls.tolist())))

    def _searched(self, keys: Sequence[int]) -> Sequence[tuple[int, KeyProblem | None, SearchAnswer]]:
        """Return the answer for each key; the problems of valid keys are dropped, to save memory."""
        workers = max(1, min(self.workers, len(keys)))
        memory = self.budget.memory // workers
        rows = rows_by_key(self.calls, self.model) if keys else []

        def one(key: int) -> tuple[int, KeyProblem | None, SearchAnswer]:
            left = self.deadline - time.monotonic()
            if left <= 0:
                return (
                    key,
                    None,
                    SearchAnswer(None, why=f"the search used up its budget of {self.budget.seconds:g} s"),
                )
            part = problem(self.calls, self.model, key, rows[key])
            part, answer = repair.decided(part, self.model, Budget(left, memory, self.stop), self.effort)
            return (key, None, SearchAnswer(True, tried=answer.tried)) if answer.valid else (key, part, answer)

        if workers == 1:
            return list(map(one, keys))
        from concurrent.futures import ThreadPoolExecutor  # imported here because it loads the logging package

        with ThreadPoolExecutor(workers) as pool:
            try:
                return list(pool.map(one, keys))
            except BaseException:
                self.stop.set()  # the pool waits for the searches that are running
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _explained(self, key: int, part: KeyProblem, answer: SearchAnswer) -> KeyFailure:
        return KeyFailure(key, part, answer, core(part, answer, self._searcher(part), self._rest()))

    def _explaining(self, explain: Callable[..., KeyFailure], *about: Any) -> KeyFailure:
        begin = time.monotonic()
        found = explain(*about)
        self.explaining -= time.monotonic() - begin
        return found

    def _rest(self) -> Budget:
        """Return the time left for explanations."""
        return Budget(max(0.0, self.explaining), self.budget.memory, self.stop)
