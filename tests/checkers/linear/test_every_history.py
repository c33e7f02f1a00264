"""Every small history of a lock with an owner, and many of twelve calls, compared with all orders at once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import islice

import numpy as np
import pytest

from harness.checkers.linearizability import repair
from harness.checkers.linearizability.check import quick_algorithm
from harness.checkers.linearizability.problem import Budget, problem
from harness.checkers.models import FifoLock, Model, OwnerMutex, ReentrantMutex
from tests.checkers.linear.brute import linearizable
from tests.checkers.linear.enumerate import Doing
from tests.checkers.linear.orders import History, every_history, has_order, together
from tests.checkers.linear.test_definite import KINDS as OWNED
from tests.checkers.linear.test_repair import KINDS as ALL
from tests.checkers.linear.test_repair import QUEUE, draw

LIMITS = Budget(seconds=math.inf)
AT_ONCE = 20_000
CLIENTS = 3
KINDS: dict[str, tuple[Model, Sequence[Doing]]] = {
    **{kind: found for kind, found in OWNED.items() if kind != "lease"},
    "fifo": (FifoLock(), QUEUE),
}
"""The models that do not look at the clock."""


def compare(histories: Sequence[History], model: Model, doings: Sequence[Doing], asked: Model) -> Counter[str]:
    """Compare the verdicts of the quick algorithm, and where that does not decide, of the repair and then the search.
    Mutants are ``asked`` for another model."""
    whole = together([rows for rows, _ in histories], model, doings, CLIENTS)
    algorithm = quick_algorithm(asked)
    assert algorithm is not None
    quick = algorithm(whole)
    said = {failure.key: False for failure in quick.failures}
    begins = np.searchsorted(whole.key, np.arange(len(histories) + 1))
    for key in quick.undecided:
        part = whole.pick(np.arange(begins[key], begins[key + 1]))
        said[key] = bool(repair.decided(problem(part, asked, key), asked, LIMITS)[1].valid)
    counts = Counter(undecided=len(quick.undecided))
    for key, (rows, right) in enumerate(histories):
        assert said.get(key, True) is right, rows
        counts["right" if right else "wrong"] += 1
    return counts


def compare_every(kind: str, count: int, asked: Model | None = None) -> Counter[str]:
    model, doings = KINDS[kind]
    every = every_history(model, doings, CLIENTS, count)
    counts: Counter[str] = Counter()
    while some := list(islice(every, AT_ONCE)):
        counts += compare(some, model, doings, asked or model)
    return counts


@pytest.mark.parametrize("kind", KINDS)
def test_brute_force_agrees_with_all_orders(kind: str) -> None:
    model, doings = KINDS[kind]
    histories = list(islice(every_history(model, doings, CLIENTS, 3), 0, None, 11))
    whole = together([rows for rows, _ in histories], model, doings, CLIENTS)
    verdicts = [linearizable(problem(whole, model, key), model) for key in range(len(histories))]
    assert verdicts == [right for _, right in histories]
    assert set(verdicts) == {True, False}


HISTORIES = {
    (2, 2): (560, 8_832, 144_192, 2_373_504),
    (3, 2): (1_235, 26_800, 601_765, 13_607_410),
    (4, 4): (4_480, 141_312, 4_614_144),
}
"""How many histories of three calls and more there are, by the number of kinds of calls of known and of unknown
outcome. They were counted without the enumeration."""


def number(kind: str, count: int) -> int:
    doings = KINDS[kind][1]
    return HISTORIES[len(doings), len({(f, argument) for f, argument, _ in doings})][count - 3]


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
def test_every_history_of_three_calls(kind: str) -> None:
    counts = compare_every(kind, 3)
    assert counts["right"] + counts["wrong"] == number(kind, 3)
    assert min(counts["right"], counts["undecided"]) > 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "fifo"])
def test_every_history_of_four_calls(kind: str) -> None:
    counts = compare_every(kind, 4)
    assert counts["right"] + counts["wrong"] == number(kind, 4)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("kind", "count"),
    [("owner", 6), ("reentrant", 6), ("fenced", 6), ("reentrant-fenced", 5), ("rw", 5), ("fifo", 4)],
)
def test_every_larger_history(kind: str, count: int) -> None:
    counts = compare_every(kind, count)
    assert counts["right"] + counts["wrong"] == number(kind, count)


@pytest.mark.parametrize(("kind", "asked"), [("owner", ReentrantMutex(2)), ("reentrant", OwnerMutex())])
def test_the_comparison_notices_another_model(kind: str, asked: Model) -> None:
    with pytest.raises(AssertionError):
        compare_every(kind, 3, asked)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "some", [range(20), pytest.param(range(50_000, 100_000), marks=[pytest.mark.long, pytest.mark.timeout(0)])]
)
def test_all_orders_agree_on_likely_histories_of_twelve_calls(kind: str, some: range) -> None:
    model = ALL[kind][0]
    verdicts: Counter[bool | None] = Counter()
    for seed in some:
        whole = draw(kind, seed)
        verdict = repair.decided(whole, model, LIMITS)[1].valid
        assert verdict is has_order(whole, model), seed
        verdicts[verdict] += 1
    assert min(verdicts[True], verdicts[False]) > len(some) // 20
