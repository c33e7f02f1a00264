"""The smallest wrong part, held against its definition by brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from checkers.linearizability.core import FEW, Core, core
from checkers.linearizability.problem import LOOSE, MUST, Problem, problem, until
from checkers.linearizability.search import Budget, Searcher
from checkers.models import CasRegister, Model, Mutex, OwnerMutex, Semaphore
from harness.history.calls import Calls
from tests.checkers.linear.brute import linearizable
from tests.checkers.linear.build import Entry, calls, without_grants
from tests.checkers.linear.draw import Draw, drawn, lock_call, register_call, seeds

BUDGET = Budget(10, 2**26)
KINDS: list[tuple[Model, Draw]] = [
    (CasRegister(), register_call),
    (Mutex(), lock_call),
    (OwnerMutex(), lock_call),
    (Semaphore(2), lock_call),
]


def loosened(part: Problem, kept: tuple[int, ...]) -> Problem:
    """``part`` with every call but ``kept`` free to have happened or not."""
    kind = np.where(part.kind == MUST, LOOSE, part.kind).astype(np.int8)
    kind[list(kept)] = MUST
    return Problem(part.invoked, part.returned, kind, part.operation, part.operations, part.rows)


def found_in(history: Calls, model: Model) -> tuple[Problem, Core] | None:
    """The history up to where it goes wrong, and the core; None if it is right."""
    whole = problem(history, model, 0)
    searcher = Searcher(model, whole.operations)
    answer = searcher.search(whole, BUDGET)
    if answer.valid:
        return None
    smallest = core(whole, answer, searcher, BUDGET)
    assert smallest is not None
    return until(whole, answer.stuck), smallest


def proved(part: Problem, found: Core, model: Model) -> None:
    """It is wrong whatever the others did; so it is by itself; and no part with one call fewer is."""
    assert not linearizable(loosened(part, found.calls), model)
    assert not linearizable(part.pick(np.array(found.calls)), model)
    assert found.smallest
    sure = np.flatnonzero(part.kind == MUST).tolist()
    for smaller in combinations(sure, len(found.calls) - 1):
        assert linearizable(loosened(part, smaller), model)


@pytest.mark.parametrize(("model", "draw"), KINDS, ids=lambda item: type(item).__name__)
def test_it_is_wrong_by_itself_and_nothing_smaller_is(model: Model, draw: Draw) -> None:
    wrong = 0
    for seed in seeds(60):
        if (found := found_in(without_grants(drawn(seed, draw)), model)) is not None:
            proved(*found, model)
            wrong += 1
    assert wrong >= 15


@pytest.mark.slow
@pytest.mark.parametrize(("model", "draw"), KINDS, ids=lambda item: type(item).__name__)
def test_so_it_is_in_larger_histories(model: Model, draw: Draw) -> None:
    wrong = 0
    for seed in seeds(300, 1000):
        if (found := found_in(without_grants(drawn(seed, draw, clients=4, count=7)), model)) is not None:
            proved(*found, model)
            wrong += 1
    assert wrong >= 100


def test_a_release_that_was_left_out_is_not_held_against_anybody() -> None:
    """Without c0's release its acquire and c1's are wrong together; with it they are not, so they are no reason."""
    history: list[Entry] = [
        (0, "invoke", "acquire"),
        (0, "ok", "acquire"),
        (0, "invoke", "release"),
        (0, "ok", "release"),
    ]
    history += [(1, "invoke", "acquire"), (1, "ok", "acquire"), (2, "invoke", "acquire"), (2, "ok", "acquire")]
    found = found_in(without_grants(calls(history)), OwnerMutex())
    assert found is not None
    assert found[1].calls == (2, 3)


def test_what_was_written_between_two_reads_does_not_matter() -> None:
    """Of ten writes only the last, and the read that does not see it, are shown."""
    history: list[Entry] = [(0, kind, "write", value) for value in range(10) for kind in ("invoke", "ok")]
    history += [(1, "invoke", "read"), (1, "ok", "read", 3)]
    found = found_in(without_grants(calls(history)), CasRegister())
    assert found is not None
    assert found[1].calls == (9, 10)
    assert found[1].smallest


def test_out_of_time_it_says_that_it_may_not_be_the_smallest() -> None:
    history: list[Entry] = [(0, kind, "write", value) for value in range(10) for kind in ("invoke", "ok")]
    history += [(1, "invoke", "read"), (1, "ok", "read", 3)]
    whole = problem(without_grants(calls(history)), CasRegister(), 0)
    searcher = Searcher(CasRegister(), whole.operations)
    found = core(whole, searcher.search(whole, BUDGET), searcher, Budget(0.0))
    assert found is not None
    assert not found.smallest
    assert set(found.calls) == set(range(11))
    many: list[Entry] = [(0, kind, "write", value) for value in range(FEW) for kind in ("invoke", "ok")]
    whole = problem(without_grants(calls([*many, *history[-2:]])), CasRegister(), 0)
    searcher = Searcher(CasRegister(), whole.operations)
    assert core(whole, searcher.search(whole, BUDGET), searcher, Budget(0.0)) is None
