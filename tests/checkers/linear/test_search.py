"""The general search, compared with brute force on all small problems, on random ones and on those that Hypothesis
draws."""

from __future__ import annotations

import itertools
import random
import time
import tracemalloc
from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checkers.linearizability import search as searching
from harness.checkers.linearizability import table
from harness.checkers.linearizability.arrays import CONSTANT
from harness.checkers.linearizability.problem import MAY, MUST, Budget, KeyProblem, SearchAnswer, problem, rows_by_key
from harness.checkers.linearizability.search import Searcher, search
from harness.checkers.models import CasRegister, FencedMutex, FifoLock, LeaseMutex, Model, Mutex, Operation, Register
from harness.history import SECOND
from harness.history.calls import NEVER
from tests.checkers.linear.brute import linearizable
from tests.checkers.linear.build import Entry, calls, without_grants
from tests.checkers.linear.problems import (
    ALPHABETS,
    BUDGET,
    Sum,
    Window,
    agree,
    draw_ordered_problem,
    draw_problem,
    put,
    replay,
    shapes,
)


def count_all(name: str, count: int, step: int = 1) -> int:
    """Try one in ``step`` of all problems of this many calls, and return their number."""
    model, operations = ALPHABETS[name]
    searcher, tried = Searcher(model, operations), 0
    choices = itertools.product(shapes(count), itertools.product(range(len(operations)), repeat=count))
    for windows, which in itertools.islice(choices, 0, None, step):
        part = put(windows, which, operations)
        assert agree(part, model, searcher), (name, windows, which)
        tried += 1
    return tried


@pytest.mark.slow
def test_brute_force_agrees_on_all_problems_of_two_calls() -> None:
    """All kinds, all windows, all models. Two calls can lie in time in 19 ways."""
    assert len(shapes(2)) == 19
    counts = {name: count_all(name, 2) for name in ALPHABETS}
    assert counts["cas-register"] == 19 * 9**2
    assert sum(counts.values()) == 19 * sum(len(operations) ** 2 for _, operations in ALPHABETS.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ALPHABETS if len(ALPHABETS[name][1]) < 4])
def test_brute_force_agrees_on_all_problems_of_three_calls(name: str) -> None:
    """Three calls can lie in time in 193 ways."""
    assert count_all(name, 3) == 193 * len(ALPHABETS[name][1]) ** 3


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ALPHABETS if len(ALPHABETS[name][1]) >= 4])
def test_brute_force_agrees_on_a_third_of_the_problems_of_three_calls_of_many_kinds(name: str) -> None:
    """All have been tried, with 1 in place of 3."""
    assert count_all(name, 3, 3) >= 193 * len(ALPHABETS[name][1]) ** 3 // 3


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["mutex", "semaphore", pytest.param("owner-mutex", marks=pytest.mark.long)])
def test_brute_force_agrees_on_all_problems_of_four_calls(name: str) -> None:
    """Four calls can lie in time in 2721 ways."""
    assert count_all(name, 4) == 2721 * len(ALPHABETS[name][1]) ** 4


LEASES: Final = [
    *((f, {"valid_for": 1.0}, client) for f, client in itertools.product(["acquire"], ["c0", "c1"])),
    *((f, None, client) for f, client in itertools.product(["acquire", "release"], ["c0", "c1"])),
    *(("extend", {"good": good, "valid_for": 2.0}, "c0") for good in (True, False)),
]


def lease_problem(windows: Sequence[Window], which: Sequence[int]) -> KeyProblem:
    """Return the problem with entries one second apart."""
    operations = []
    for (kind, begin, end), (f, result, client) in zip(windows, (LEASES[i] for i in which), strict=True):
        ended = NEVER if end == NEVER else end * SECOND
        known = kind != MAY
        operations.append(Operation(f, None, result if known else None, known, client, begin * SECOND, ended))
    return put(windows, range(len(windows)), operations)


def count_leases(count: int, *, every: int = 1) -> int:
    model, tried = LeaseMutex(), 0
    for number, windows in enumerate(shapes(count)):
        for which in itertools.product(range(len(LEASES)), repeat=count):
            tried += 1
            if (number + tried) % every == 0:
                part = lease_problem(windows, which)
                assert agree(part, model, Searcher(model, part.operations)), (windows, which)
    return tried


def test_brute_force_agrees_on_all_problems_of_two_calls_on_a_lease() -> None:
    """From the end of a lease on two states are possible: held or not held."""
    assert count_leases(2) == 19 * len(LEASES) ** 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_brute_force_agrees_on_all_problems_of_three_calls_on_a_lease() -> None:
    assert count_leases(3) == 193 * len(LEASES) ** 3


def count_drawn(seed: int, problems: int, most: int) -> int:
    """Try this many problems of each model, and return how many of them have an order."""
    rng, valid = random.Random(seed), 0
    for name, (model, operations) in ALPHABETS.items():
        searcher = Searcher(model, operations)
        for number in range(problems):
            part = (draw_problem, draw_ordered_problem)[number % 2](rng, model, operations, most)
            assert agree(part, model, searcher), (name, seed, number)
            valid += bool(searcher.search(part, BUDGET).valid)
    return valid


def test_brute_force_agrees_on_random_problems() -> None:
    """2,000 problems of up to seven calls."""
    assert 400 < count_drawn(1, 200, 7) < 1600


def count_barred(seed: int, problems: int) -> tuple[int, int]:
    """Search problems too large for brute force, with and without the rule on unobserved writes. Return the number of
    configurations tried each way."""
    rng, (model, operations) = random.Random(seed), ALPHABETS["cas-register"]
    operations = [*operations[:7], *(Operation("write", value) for value in (2, 3)), Operation("read", result=2)]
    ruled, plain = Searcher(model, operations), Searcher(model, operations)
    plain._table.nature = np.where(plain._table.nature == CONSTANT, 0, plain._table.nature).astype(np.int8)
    tried = [0, 0]
    for number in range(problems):
        part = draw_ordered_problem(rng, model, operations, 25)
        answers = [ruled.search(part, BUDGET), plain.search(part, BUDGET)]
        assert len({(answer.valid, answer.stuck) for answer in answers}) == 1, (seed, number)
        replay(part, model, answers[0])
        tried = [so_far + answer.tried for so_far, answer in zip(tried, answers, strict=True)]
    return tried[0], tried[1]


@pytest.mark.slow
def test_the_rule_on_unobserved_writes_keeps_the_verdict() -> None:
    fewer, more = count_barred(3, 1000)
    assert fewer < 0.98 * more


@pytest.mark.slow
def test_the_rule_on_unobserved_writes_keeps_the_verdict_of_many_problems() -> None:
    count_barred(4, 50_000)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_brute_force_agrees_on_many_random_problems() -> None:
    """30,000 problems of up to eight calls; 100,000 have been tried."""
    assert 6_000 < count_drawn(2, 3_000, 8) < 24_000


@given(seed=st.integers(0, 2**32), name=st.sampled_from(sorted(ALPHABETS)), room=st.sampled_from([1, 2, 1024]))
@settings(max_examples=150)
def test_the_verdict_is_the_same_without_memory_and_with_lazy_tables(seed: int, name: str, room: int) -> None:
    model, operations = ALPHABETS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "ENTRIES", room)
        patch.setattr(table, "WHOLE_CELLS", seed % 2 * 4096)
        patch.setattr(table, "FIRST_CELLS", 2)
        searcher = Searcher(model, operations)
        part = draw_problem(random.Random(seed), model, operations, 7)
        answer = searcher.search(part, Budget(20.0, 0))
        assert answer.valid is linearizable(part, model)
        replay(part, model, answer)


def hopeless(calls_at_once: int) -> KeyProblem:
    """A problem of this many concurrent additions, and a read of a sum that is possible before the end, but not at
    the end."""
    count = calls_at_once
    wrong = (sum(range(count + 1)) - 1) % Sum().limit
    operations = [Operation("add", 1 + value) for value in range(count)] + [Operation("read", result=wrong)]
    windows = [(MUST, call, count + call) for call in range(count)] + [(MUST, 2 * count, 2 * count + 1)]
    return put(windows, range(count + 1), operations)


def test_running_out_of_time_is_reported() -> None:
    began = time.monotonic()
    answer = search(hopeless(40), Sum(), Budget(0.1, 2**26))
    assert time.monotonic() - began < 60, "the whole search would take years"
    assert answer.valid is None
    assert answer.why.startswith("the search used up its budget of 0.1 s after ")
    assert answer.stuck == NEVER
    replay(hopeless(40), Sum(), answer)


def test_the_longest_order_is_reported_when_the_budget_runs_out() -> None:
    """The table is filled on demand here, and the loop stops at each request."""
    count, end = 100, hopeless(30)
    windows = [(MUST, 2 * call, 2 * call + 1) for call in range(count)]
    spans = zip(end.invoked.tolist(), end.returned.tolist(), strict=True)
    windows += [(MUST, 2 * count + begin, 2 * count + over) for begin, over in spans]
    which = [*[0] * count, *range(len(end))]
    answer = search(put(windows, which, end.operations), Sum(2**31), Budget(600.0, 2**26, configurations=20_000))
    assert answer.valid is None
    assert answer.order[:count] == tuple(range(count))
    assert len(answer.order) == count + 30


def test_memory_is_bounded() -> None:
    search(hopeless(4), Sum(), Budget(1.0, 2**20))
    tracemalloc.start()
    try:
        answer = search(hopeless(40), Sum(), Budget(0.3, 2**22))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.valid is None
    assert peak < 2**22 + 2**18


def test_an_endless_state_space_ends_the_search() -> None:
    """A model that creates new states for ever cannot use more memory than allowed."""

    class Counter(Model):
        fs = frozenset({"count"})
        initial = 0

        def step(self, state: int, operation: Operation) -> int:
            return state + 1

    count = 5000
    part = put([(MUST, 2 * i, 2 * i + 1) for i in range(count)], [0] * count, [Operation("count")])
    answer = search(part, Counter(), Budget(10.0, 0))
    assert answer.valid is None
    assert answer.why.startswith("the search used up its memory of 0 MiB after ")
    assert search(part, Counter(), BUDGET).states == tuple(range(1, count + 1))


def test_an_exception_of_the_model_passes_through() -> None:
    part = put([(MUST, 0, 1)], [0], [Operation("cas", "no pair")])
    with pytest.raises(ValueError, match="the value of a cas"):
        search(part, CasRegister(), BUDGET)


def test_an_empty_problem_has_an_order() -> None:
    assert search(put([], [], []), Register(), BUDGET) == SearchAnswer(True, tried=1)
    assert search(put([(MAY, 0, NEVER)], [0], [Operation("write", 1)]), Register(), BUDGET).order == ()


def test_the_rows_of_all_keys_are_found_at_once() -> None:
    entries: list[Entry] = []
    for number, name in enumerate("bacabcb"):
        f = "write" if number % 3 else "acquire"
        entries += [(number, "invoke", f, number, name), (number, "ok", f, number, name)]
    found = without_grants(calls(entries))
    for model in (Register(), Mutex(), FifoLock()):
        rows = rows_by_key(found, model)
        assert len(rows) == 3
        for key in range(3):
            alone, given = problem(found, model, key), problem(found, model, key, rows[key])
            assert alone.rows.tolist() == rows[key].tolist() == given.rows.tolist()
            assert alone.operations == given.operations
    assert [len(part) for part in rows_by_key(found, Register())] == [1, 1, 2]
    assert rows_by_key(found.pick(np.zeros(0, np.int64)), Register())[2].tolist() == []


@pytest.mark.parametrize("model", [Register(), FencedMutex(), LeaseMutex(), Mutex()])
def test_equal_calls_share_a_number_and_different_calls_do_not(model: Model) -> None:
    """The operations contain the names and values of the history."""
    entries: list[Entry] = [
        (0, "invoke", "acquire"),
        (0, "ok", "acquire", {"fence": 2**62, "valid_for": 3.0}),
        (1, "invoke", "acquire"),
        (1, "ok", "acquire", {"fence": -(2**62), "valid_for": 3.0}),
        (0, "invoke", "release"),
        (0, "invoke", "write", 7, "other"),
        (1, "invoke", "write", 7),
        (1, "ok", "write", 7),
        (2, "invoke", "write", 7),
        (2, "info", "write", 7),
        (3, "invoke", "write", 7),
        (3, "ok", "write", 7),
        (4, "invoke", "write", [7]),
        (4, "ok", "write", [7]),
    ]
    found = calls(entries)
    part = problem(found if model.wants in ("leases", "grants") else without_grants(found), model, 0)
    told = [part.operations[number] for number in part.operation.tolist()]
    assert [operation.f for operation in told] == [e[2] for e in entries if e[1] == "invoke" and e[2] in model.fs][
        : len(told)
    ]
    assert len(set(map(repr, told))) == len(part.operations) == len({*part.operation.tolist()})
    assert part.kind.tolist() == [MUST if operation.known else MAY for operation in told]
    assert ((part.returned == NEVER) == (part.kind == MAY)).all()
    if model.wants in ("leases", "grants"):
        assert [o.result["fence"] for o in told[:2]] == [2**62, -(2**62)]
    if isinstance(model, Register):
        assert [(o.argument, o.known) for o in told] == [(7, True), (7, False), (7, True), ([7], True)]


def test_an_impossible_read_is_reported_without_a_search() -> None:
    """A read of an impossible sum comes after too many concurrent calls to try all orders."""
    count = 40
    operations = [Operation("add", 2) for _ in range(count)] + [Operation("read", result=1)]
    windows = [(MUST, call, count + call) for call in range(count)] + [(MUST, 2 * count, 2 * count + 1)]
    unending = put(windows, range(count + 1), operations)
    answer = search(unending, Sum(limit=96), Budget(10.0, 2**26))
    assert (answer.valid, answer.stuck, answer.unplaced) == (False, 2 * count + 1, count)
    assert answer.tried < 10_000
    replay(unending, Sum(limit=96), answer)
