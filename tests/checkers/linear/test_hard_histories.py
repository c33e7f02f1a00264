"""Histories of an owner mutex that have an order if and only if a formula can be satisfied.

``docs/concepts/algorithms.md`` has the proof.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

from harness.checkers.linearizability.problem import Budget, problem
from harness.checkers.linearizability.repair import decided
from harness.checkers.models import OwnerMutex
from harness.history.calls import Calls
from tests.checkers.linear.build import Entry, calls

Clause = tuple[int, ...]
"""Literals: a variable from 1 on, negated if it is negative."""


def draw_formula(random_: random.Random, variables: int, clauses: int) -> list[Clause]:
    """Draw a formula in which each variable occurs at most twice positively and at most once negatively."""
    free = [literal for variable in range(1, variables + 1) for literal in (variable, variable, -variable)]
    random_.shuffle(free)
    formula = []
    for _ in range(clauses):
        clause: list[int] = []
        for literal in list(free):
            if len(clause) < random_.choice((1, 2, 3)) and all(abs(literal) != abs(other) for other in clause):
                clause.append(literal)
                free.remove(literal)
        if clause:
            formula.append(tuple(clause))
    return formula


def satisfiable(formula: Sequence[Clause]) -> bool:
    variables = max(abs(literal) for clause in formula for literal in clause)
    return any(
        all(any((literal > 0) == values[abs(literal) - 1] for literal in clause) for clause in formula)
        for values in itertools.product((False, True), repeat=variables)
    )


def history(formula: Sequence[Clause]) -> Calls:
    """Return the history of a formula: a client for each clause, and a stretch of time for each variable."""
    entries: list[Entry] = []
    process = {client: client for client in range(len(formula))}
    for client, clause in enumerate(formula):
        for f in ("acquire", "release") * (len(clause) - 1):
            entries.append((process[client], "invoke", f))
            process[client] += len(formula)
    for variable in range(1, max(abs(literal) for clause in formula for literal in clause) + 1):
        entries += _stretch(
            [process[client] for client, clause in enumerate(formula) if variable in clause],
            [process[client] for client, clause in enumerate(formula) if -variable in clause],
        )
    return calls(entries, clients={number: number % len(formula) for number in range(20 * len(formula))})


def _stretch(positive: Sequence[int], negative: Sequence[int]) -> Iterator[Entry]:
    yield from ((process, "invoke", "acquire") for process in positive)
    for process in negative:
        yield from ((process, "invoke", "acquire"), (process, "ok", "acquire"))
    for process in positive:
        yield from ((process, "ok", "acquire"), (process, "invoke", "release"))
    for process in negative:
        yield from ((process, "invoke", "release"), (process, "ok", "release"))
    yield from ((process, "ok", "release") for process in positive)


def test_a_history_is_linearizable_if_and_only_if_its_formula_can_be_satisfied() -> None:
    counts = {False: 0, True: 0}
    for seed in range(100):
        random_ = random.Random(seed)
        formula = draw_formula(random_, random_.choice((3, 4)), random_.choice((4, 5, 6)))
        _, answer = decided(problem(history(formula), OwnerMutex(), 0), OwnerMutex(), Budget(60.0))
        assert answer.valid is satisfiable(formula), formula
        counts[satisfiable(formula)] += 1
    assert min(counts.values()) >= 5
