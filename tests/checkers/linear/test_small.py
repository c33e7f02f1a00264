"""Small histories of registers: the plain search, compared with the search over arrays and with brute force."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from harness.checkers.linearizability import small
from harness.checkers.linearizability.check import check
from harness.checkers.linearizability.problem import Budget, problem
from harness.checkers.linearizability.search import search
from harness.checkers.models import CasRegister, Model, Register, WithRefusals
from harness.history.calls import Calls
from tests.checkers.linear.brute import linearizable
from tests.checkers.linear.build import Entry, calls, mutant, without_grants
from tests.checkers.linear.draw import draw_history, draw_likely_history, register_call, seeds
from tests.checkers.linear.enumerate import Doing

BUDGET = Budget(60.0)
LIKELY: list[Doing] = [
    *(("read", None, value) for value in (0, 1, 2, 3)),
    *(("write", value, value) for value in (1, 2, 3)),
    *(("cas", (old, new), (old, new)) for old, new in ((0, 1), (1, 2), (2, 3), (3, 1))),
]


def draw(seed: int, count: int) -> tuple[Calls, Model]:
    """Draw a history of a register, in half of them with failed calls of cas as evidence."""
    random_ = random.Random(seed)
    nil = random_.choice(("initial", "any"))
    model: Model = CasRegister(random_.choice((None, 0, 1)), nil)
    unknown, refused = random_.choice((0.0, 0.2)), 0.3 * (seed % 2)
    refusals = model.refusals if refused else frozenset()
    history = draw_history(
        seed, register_call, clients=4, count=count, unknown=unknown, refused=refused, refusals=refusals
    )
    return without_grants(history), WithRefusals(model) if refused else model


def draw_likely(seed: int) -> tuple[Calls, Model]:
    model = CasRegister(0)
    return without_grants(draw_likely_history(seed, model, LIKELY, count=14)), model


def compare(drawn: tuple[Calls, Model], module: Any = small) -> str:
    """Assert that the plain search finds the verdict and the position of the other one."""
    history, model = drawn
    found = module.check(history, model)
    if found is None:
        return "undecided"
    answer = search(problem(history, model, 0), model, BUDGET)
    assert (not found.failures) is answer.valid
    for failure in found.failures:
        assert failure.position == answer.stuck
        part = problem(history.pick(np.array(failure.rows)), model, 0)
        assert search(part, model, BUDGET).stuck == answer.stuck
    return "wrong" if found.failures else "right"


@pytest.mark.parametrize("some", [range(150), pytest.param(range(1_000, 6_000), marks=pytest.mark.slow)])
def test_the_search_over_arrays_agrees(some: range) -> None:
    counts = compare_all(some)
    assert min(counts["right"], counts["wrong"]) > len(some) // 5


def test_brute_force_agrees() -> None:
    counts: Counter[bool] = Counter()
    for seed in seeds(150):
        history, model = draw(seed, 5)
        found = small.check(history, model)
        if found is not None:
            assert (not found.failures) is linearizable(problem(history, model, 0), model), seed
            counts[not found.failures] += 1
    assert min(counts.values()) > 15


@pytest.mark.parametrize(
    "change",
    [
        ("if row[state] == state:", "if True:"),
        ("tried |= 1 << effect", "tried = -1"),
        ("not (may and after == state)", "after != state"),
        ("insort(pending[still]", "insort(pending[False]"),
        ("elif not still:  # rule (b)", "elif False:"),
        ("and calls[left][0] < end", ""),
        ("row[other] = IMPOSSIBLE", "pass"),
        ("[IMPOSSIBLE] * old + [row[old]]", "[row[old]] * old + [row[old]]"),
        ("if level > deepest:", "if True:"),
        ("name.startswith(REFUSED)", "False"),
    ],
)
def test_a_mutated_search_is_caught(change: tuple[str, str]) -> None:
    with pytest.raises((AssertionError, IndexError, KeyError, ValueError)):
        compare_all(range(2_000), mutant(small, change))


def compare_all(some: range, module: Any = small) -> Counter[str]:
    drawn = (one for seed in some for one in (draw(seed, 8), draw_likely(seed)))
    return Counter(compare(one, module) for one in drawn)


def plain(entries: list[Entry]) -> Calls:
    return without_grants(calls(entries))


def many_reads(count: int) -> list[Entry]:
    """One write of 1, and reads of 1."""
    entries: list[Entry] = [(0, "invoke", "write", 1), (0, "ok", "write", 1)]
    return entries + count * [(0, "invoke", "read", None), (0, "ok", "read", 1)]


def test_long_histories_and_long_searches_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert small.check(plain(many_reads(small.LARGEST - 1)), Register()) is not None
    assert small.check(plain(many_reads(small.LARGEST)), Register()) is None
    monkeypatch.setattr(small, "CONFIGURATIONS", 0)
    assert small.check(plain(many_reads(3)), Register()) is None


def test_keys_are_decided_by_themselves() -> None:
    entries: list[Entry] = []
    for key, seen in (("x", 1), ("y", 2), ("z", 1)):
        entries += [(0, "invoke", "write", 1, key), (0, "ok", "write", 1, key)] * 2
        entries += [(0, "invoke", "read", None, key), (0, "ok", "read", seen, key)]
    found = small.check(plain(entries), Register())
    assert found is not None
    assert [(failure.key, failure.position) for failure in found.failures] == [(1, 11)]
    verdict = check(plain(entries), Register(), name="register").verdict
    assert "No order of the calls on y gets past entry 11" in verdict.explanation


def test_an_unambiguous_history_that_is_wrong_keeps_its_small_proof() -> None:
    entries: list[Entry] = [(0, "invoke", "write", 1), (0, "ok", "write", 1)]
    entries += [(0, "invoke", "read", None), (0, "ok", "read", None)]
    assert small.check(plain(entries), Register()) is None


def test_a_cas_without_two_values_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the value of a cas is \[old, new\], got 3"):
        small.check(plain([(0, "invoke", "cas", 3), (0, "ok", "cas", 3)]), CasRegister())
