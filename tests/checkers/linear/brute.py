"""Linearizability by its definition: every order of the calls is tried. What all algorithms are held against."""

from __future__ import annotations

from typing import Any

from checkers.linearizability.problem import MUST, Problem
from checkers.models import Either, Inconsistent, Model


def linearizable(problem: Problem, model: Model) -> bool:
    """Is there an order of the calls, with all that must be in it, that respects their windows and the model?"""
    windows = list(zip(problem.invoked.tolist(), problem.returned.tolist(), problem.kind.tolist(), strict=True))

    def tried(left: frozenset[int], state: Any) -> bool:
        if not any(windows[call][2] == MUST for call in left):
            return True
        for call in left:
            begin = windows[call][0]
            late = {other for other in left if windows[other][1] < begin}
            if any(windows[other][2] == MUST for other in late):
                continue
            if any(tried(left - late - {call}, after) for after in _after(model, state, problem, call)):
                return True
        return False

    return tried(frozenset(range(len(problem))), model.initial)


def _after(model: Model, state: Any, problem: Problem, call: int) -> list[Any]:
    found = model.step(state, problem.operations[problem.operation[call]])
    if isinstance(found, Inconsistent):
        return []
    return list(found.states) if isinstance(found, Either) else [found]
