"""Definite holds, compared with brute force on all small histories and on many larger ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np
import pytest

from harness.checkers.linearizability import definite
from harness.checkers.linearizability.problem import QuickResult, problem, until
from harness.checkers.models import (
    FencedMutex,
    LeaseMutex,
    Model,
    OwnerMutex,
    ReadWriteLock,
    ReentrantFencedMutex,
    ReentrantMutex,
)
from harness.history.calls import Calls
from tests.checkers.linear.brute import linearizable
from tests.checkers.linear.build import Entry, calls, without_grants
from tests.checkers.linear.draw import draw_history, seeds
from tests.checkers.linear.enumerate import Doing, histories

RELEASE: Doing = ("release", None, None)
PLAIN: list[Doing] = [("acquire", None, None), RELEASE]
TOKENS: list[Doing] = [("acquire", None, {"fence": 1}), ("acquire", None, {"fence": 2}), RELEASE]
MODES: list[Doing] = [("acquire", "read", None), ("acquire-write", None, None), RELEASE, ("release-read", None, None)]
LEASES: list[Doing] = [
    ("acquire", None, {"valid_for": 1.0}),
    ("acquire", None, {"valid_for": None}),
    RELEASE,
    ("extend", None, {"extended": True}),
    ("check", None, {"valid": False}),
]
KINDS: dict[str, tuple[Model, list[Doing]]] = {
    "owner": (OwnerMutex(), PLAIN),
    "reentrant": (ReentrantMutex(2), PLAIN),
    "fenced": (FencedMutex(), TOKENS),
    "reentrant-fenced": (ReentrantFencedMutex(2), TOKENS),
    "rw": (ReadWriteLock(), MODES),
    "lease": (LeaseMutex(), LEASES),
}
SLOW = ("fenced", "reentrant-fenced", "rw", "lease")
"""They have the most histories."""
MORE: dict[str, list[Doing]] = {
    "fenced": [*TOKENS, ("acquire", None, {"fence": None}), ("acquire", None, {"fence": 3})],
    "reentrant-fenced": [*TOKENS, ("acquire", None, {"fence": None}), ("acquire", None, {"fence": 3})],
    "rw": [*MODES, ("acquire", {"mode": "write"}, None), ("release-write", None, None)],
    "lease": [
        *LEASES,
        ("acquire", None, {"valid_for": 3.0}),
        ("acquire", None, {"valid_for": 0.0}),
        ("acquire", None, {"valid_for": -1.0}),
        ("extend", None, {"extended": False}),
        ("check", None, {"valid": True}),
    ],
}


def quick_verdict(history: Calls, model: Model) -> bool | None:
    """Return the verdict (right, wrong or undecided), and assert that the evidence of a wrong one fails by itself."""
    outcome = definite.check(history, model)
    if outcome.failures:
        (failure,) = outcome.failures
        part = problem(history.pick(np.array(failure.rows)), model, failure.key)
        assert not linearizable(until(part, failure.position), model), "the part is no proof"
        return False
    return None if outcome.undecided else True


def count_verdicts(every: Iterable[Calls], model: Model, asked: Model | None = None) -> tuple[int, int, int]:
    """Return the number of histories, of failing ones and of undecided ones. For mutants the algorithm gets another
    model."""
    count = wrong = undecided = 0
    for history in every:
        if model.wants not in ("leases", "grants"):
            without_grants(history)
        said, truth = quick_verdict(history, asked or model), linearizable(problem(history, model, 0), model)
        assert said is None or said is truth, history
        count, wrong, undecided = count + 1, wrong + (not truth), undecided + (said is None)
    return count, wrong, undecided


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW else []) for kind in KINDS]
)
def test_brute_force_agrees_on_a_sample_of_small_histories(kind: str) -> None:
    """A sample of the histories of two clients with two calls each; ``test_all_small_histories`` has the others."""
    model, doings = KINDS[kind]
    step = 97 if len(doings) == 2 else 397
    count, wrong, undecided = count_verdicts(islice(histories((2, 2), doings), 0, step * 60, step), model)
    assert count == 60
    assert 0 < wrong < count
    assert undecided <= count // 2


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
def test_known_outcomes_are_always_decided(kind: str) -> None:
    model, doings = KINDS[kind]
    _, wrong, undecided = count_verdicts(islice(histories((2, 2), doings, unknown=False), 0, 20 * 200, 20), model)
    assert wrong
    assert undecided == 0 or kind == "lease"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_all_small_histories(kind: str) -> None:
    model, doings = KINDS[kind]
    if len(doings) > 4:
        doings = doings[:1] + doings[2:]
    step = STEP // 4 if len(doings) < 4 else STEP
    count, wrong, undecided = count_verdicts(islice(histories((2, 2), doings), 0, None, step), model)
    assert count == ALL[len(doings)] // step
    assert 0 < wrong < count
    assert undecided < count // 2


ALL = {2: 5_856, 3: 29_646, 4: 93_696}
"""Histories of two clients with two calls each, of 2, 3 or 4 kinds of call, of known and unknown outcome."""
STEP = 12
"""Of the largest enumerations one in 12 is tried here, of the others one in 3; all have been, with 1 in its place."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["owner", "reentrant"])
def test_brute_force_agrees_on_all_histories_of_three_calls_and_two(kind: str) -> None:
    model, doings = KINDS[kind]
    count, wrong, _ = count_verdicts(islice(histories((3, 2), doings), 0, None, 5), model)
    assert count > 10_000
    assert wrong


def call_drawer(kind: str, rise: bool) -> Callable[[random.Random], tuple[str, Any, Any]]:
    """Draw a call; acquires and releases are the most frequent. With ``rise``, tokens mostly grow."""
    doings = MORE.get(kind, KINDS[kind][1])
    tokens = iter(range(1, 10_000))

    def draw(random_: random.Random) -> tuple[str, Any, Any]:
        f, argument, result = random_.choice(doings if random_.random() < 0.6 else [doings[0], RELEASE])
        if rise and isinstance(result, dict) and "fence" in result and random_.random() < 0.8:
            result = {"fence": next(tokens)}
        return f, argument, result

    return draw


def random_ones(kind: str, count: int, start: int = 0) -> Iterable[Calls]:
    for seed in seeds(count, start):
        clients, size = 2 + seed % 2, 4 + seed % 4
        yield draw_history(
            seed, call_drawer(kind, rise=seed % 3 > 0), clients=clients, count=size, unknown=(seed % 5) / 10
        )


@pytest.mark.parametrize("kind", KINDS)
def test_brute_force_agrees_on_random_histories(kind: str) -> None:
    count, wrong, undecided = count_verdicts(random_ones(kind, 150), KINDS[kind][0])
    assert 0 < wrong < count
    assert undecided < count // 3


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_brute_force_agrees_on_many_random_histories(kind: str) -> None:
    count, wrong, undecided = count_verdicts(random_ones(kind, 2_000, 10_000), KINDS[kind][0])
    assert 0 < wrong < count
    assert undecided < count // 3


@pytest.mark.parametrize("kind", ["owner", "fenced", "lease"])
def test_the_order_of_entries_decides_between_equal_times(kind: str) -> None:
    """All entries have the same time, or each pair has. Positions decide which came first, and a lease may expire at
    that instant."""
    for seed in seeds(100):
        history = draw_history(seed, call_drawer(kind, rise=True), count=5)
        for column in (history.began, history.ended):
            column[column < 2**62] //= 2_000_000_000 if seed % 2 else 10**12
        count_verdicts([history], KINDS[kind][0])


MUTANTS: dict[str, tuple[str, Model]] = {
    "holds may be nested": ("owner", ReentrantMutex(2)),
    "holds may not be nested": ("reentrant", OwnerMutex()),
    "the limit is one more": ("reentrant", ReentrantMutex(3)),
    "tokens do not matter": ("fenced", OwnerMutex()),
    "inner tokens are new ones": ("reentrant-fenced", FencedMutex()),
    "nobody shares": ("rw", OwnerMutex()),
    "leases do not end": ("lease", OwnerMutex()),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_comparison_catches_the_algorithm_of_another_model(mutant: str) -> None:
    """This shows that the comparison with brute force can fail."""
    kind, asked = MUTANTS[mutant]
    with pytest.raises(AssertionError):
        count_verdicts(random_ones(kind, 300), KINDS[kind][0], asked)


def ok_call(process: int, f: str, result: Any = None) -> list[Entry]:
    return [(process, "invoke", f), (process, "ok", f, result)]


def test_a_client_keeps_its_hold_after_an_unknown_outcome() -> None:
    """Process 2 is client 0 again: its release ends the hold that it began as process 0."""
    story: list[Entry] = [
        *ok_call(0, "acquire"),
        (0, "invoke", "release"),
        *ok_call(2, "release"),
        *ok_call(1, "acquire"),
    ]
    assert quick_verdict(without_grants(calls(story, clients={0: 0, 2: 0, 1: 1})), OwnerMutex()) is True
    assert quick_verdict(without_grants(calls(story)), OwnerMutex()) is False


def test_concurrent_known_calls_of_one_client_are_left_to_the_search() -> None:
    story: list[Entry] = [
        (0, "invoke", "acquire"),
        (1, "invoke", "release"),
        (1, "ok", "release"),
        (0, "ok", "acquire"),
    ]
    history = without_grants(calls(story, clients={0: 0, 1: 0}))
    assert definite.check(history, OwnerMutex()).undecided == (0,)


def test_the_earliest_failure_of_each_key_is_reported() -> None:
    story: list[Entry] = []
    for key in ("a", "b", "c"):
        story += [(process, kind, "acquire", None, key) for process in (0, 1) for kind in ("invoke", "ok")]
        if key == "a":
            story += [(2, kind, "acquire", None, key) for kind in ("invoke", "ok")]
    outcome = definite.check(without_grants(calls(story[:6] + story[6:])), OwnerMutex())
    assert [(failure.key, failure.position) for failure in outcome.failures] == [(0, 3), (1, 9), (2, 13)]


def test_an_unknown_mode_raises_value_error() -> None:
    with pytest.raises(ValueError, match="not for 'append'"):
        definite.check(
            without_grants(calls([(0, "invoke", "acquire", "append"), (0, "ok", "acquire")])), ReadWriteLock()
        )


def test_a_history_without_calls_has_no_failure() -> None:
    assert definite.check(without_grants(calls([])), OwnerMutex()) == QuickResult()


def test_a_history_that_only_an_unknown_release_allows_is_left_to_the_search() -> None:
    """c0 may release its write hold between acquiring to write and acquiring to read, so the algorithm must not
    report a failure."""
    story: list[Entry] = [(0, "invoke", "release-write"), *ok_call(2, "acquire-write")]
    story += [*ok_call(2, "acquire-read"), *ok_call(2, "release-read")]
    history = without_grants(calls(story, clients={0: 0, 2: 0}))
    assert quick_verdict(history, ReadWriteLock()) is None
    assert linearizable(problem(history, ReadWriteLock(), 0), ReadWriteLock())
