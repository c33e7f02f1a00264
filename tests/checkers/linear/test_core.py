"""The smallest non-linearizable part of a history, compared with its definition by brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from harness.checkers.linearizability.core import FEW, Core, core
from harness.checkers.linearizability.problem import LOOSE, MUST, Budget, KeyProblem, problem, until
from harness.checkers.linearizability.search import Searcher
from harness.checkers.models import CasRegister, Model, Mutex, OwnerMutex, Semaphore
from harness.history.calls import Calls
from tests.checkers.linear.brute import linearizable
from tests.checkers.linear.build import Entry, calls, without_grants
from tests.checkers.linear.draw import Draw, draw_history, lock_call, register_call, seeds

BUDGET = Budget(10, 2**26)
KINDS: list[tuple[Model, Draw]] = [
    (CasRegister(), register_call),
    (Mutex(), lock_call),
    (OwnerMutex(), lock_call),
    (Semaphore(2), lock_call),
]


def with_optional_calls(part: KeyProblem, kept: tuple[int, ...]) -> KeyProblem:
    """Return ``part`` in which every call but ``kept`` may or may not have taken effect."""
    kind = np.where(part.kind == MUST, LOOSE, part.kind).astype(np.int8)
    kind[list(kept)] = MUST
    return KeyProblem(part.invoked, part.returned, kind, part.operation, part.operations, part.rows)


def core_of(history: Calls, model: Model) -> tuple[KeyProblem, Core] | None:
    """Return the history up to its failure, and the core; None if it is linearizable."""
    whole = problem(history, model, 0)
    searcher = Searcher(model, whole.operations)
    answer = searcher.search(whole, BUDGET)
    if answer.valid:
        return None
    smallest = core(whole, answer, searcher, BUDGET)
    assert smallest is not None
    return until(whole, answer.stuck), smallest


def assert_core_is_minimal(part: KeyProblem, found: Core, model: Model) -> None:
    """Assert that the core fails whatever the other calls did, also by itself, and that no part with one call fewer
    does."""
    assert not linearizable(with_optional_calls(part, found.calls), model)
    assert not linearizable(part.pick(np.array(found.calls)), model)
    assert found.smallest
    sure = np.flatnonzero(part.kind == MUST).tolist()
    for smaller in combinations(sure, len(found.calls) - 1):
        assert linearizable(with_optional_calls(part, smaller), model)


@pytest.mark.parametrize(("model", "draw"), KINDS, ids=lambda item: type(item).__name__)
def test_the_core_fails_by_itself_and_no_smaller_part_does(model: Model, draw: Draw) -> None:
    wrong = 0
    for seed in seeds(60):
        if (found := core_of(without_grants(draw_history(seed, draw)), model)) is not None:
            assert_core_is_minimal(*found, model)
            wrong += 1
    assert wrong >= 15


@pytest.mark.slow
@pytest.mark.parametrize(("model", "draw"), KINDS, ids=lambda item: type(item).__name__)
def test_the_core_of_a_larger_history_is_minimal(model: Model, draw: Draw) -> None:
    wrong = 0
    for seed in seeds(300, 1000):
        if (found := core_of(without_grants(draw_history(seed, draw, clients=4, count=7)), model)) is not None:
            assert_core_is_minimal(*found, model)
            wrong += 1
    assert wrong >= 100


def test_a_core_does_not_depend_on_an_omitted_release() -> None:
    """Without c0's release the acquires of c0 and c1 contradict each other. With it they do not, so they are no
    core."""
    history: list[Entry] = [
        (0, "invoke", "acquire"),
        (0, "ok", "acquire"),
        (0, "invoke", "release"),
        (0, "ok", "release"),
    ]
    history += [(1, "invoke", "acquire"), (1, "ok", "acquire"), (2, "invoke", "acquire"), (2, "ok", "acquire")]
    found = core_of(without_grants(calls(history)), OwnerMutex())
    assert found is not None
    assert found[1].calls == (2, 3)


def test_overwritten_values_are_not_part_of_the_core() -> None:
    """The core has only the last of ten writes, and the read that misses it."""
    history: list[Entry] = [(0, kind, "write", value) for value in range(10) for kind in ("invoke", "ok")]
    history += [(1, "invoke", "read"), (1, "ok", "read", 3)]
    found = core_of(without_grants(calls(history)), CasRegister())
    assert found is not None
    assert found[1].calls == (9, 10)
    assert found[1].smallest


def test_a_core_found_when_time_ran_out_is_marked_as_possibly_not_minimal() -> None:
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
