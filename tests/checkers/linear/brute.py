"""Linearizability by its definition: try every order of the calls. The tests compare every algorithm with this
one."""

from __future__ import annotations

from typing import Any

from harness.checkers.linearizability.problem import MUST, KeyProblem
from harness.checkers.models import Either, Inconsistent, Model, Operation


def linearizable(problem: KeyProblem, model: Model) -> bool:
    """Return whether some order of the calls respects their windows and the model, and has every call that must be in
    it."""
    windows = list(zip(problem.invoked.tolist(), problem.returned.tolist(), problem.kind.tolist(), strict=True))

    def tried(left: frozenset[int], state: Any) -> bool:
        if not any(windows[call][2] == MUST for call in left):
            return True
        for call in left:
            begin = windows[call][0]
            late = {other for other in left if windows[other][1] < begin}
            if any(windows[other][2] == MUST for other in late):
                continue
            operation = problem.operations[problem.operation[call]]
            if any(tried(left - late - {call}, after) for after in states_after(model, state, operation)):
                return True
        return False

    return tried(frozenset(range(len(problem))), model.initial)


def states_after(model: Model, state: Any, operation: Operation) -> list[Any]:
    """Return the states that may follow; none if the operation is impossible."""
    found = model.step(state, operation)
    if isinstance(found, Inconsistent):
        return []
    return list(found.states) if isinstance(found, Either) else [found]
