"""The repair of guessed orders and the small wrong parts, compared with the search and with brute force."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from harness.checkers import linearizable
from harness.checkers.linearizability import parts, repair
from harness.checkers.linearizability.problem import MUST, Budget, KeyProblem, QuickResult, problem
from harness.checkers.linearizability.search import search
from harness.checkers.models import FifoLock, Inconsistent, LeaseMutex, Model, Operation, OwnerMutex
from harness.history.calls import Calls
from tests.checkers.linear.brute import linearizable as by_definition
from tests.checkers.linear.build import Entry, calls, without_grants
from tests.checkers.linear.draw import draw_history, draw_likely_history, seeds
from tests.checkers.linear.enumerate import Doing
from tests.checkers.linear.test_definite import KINDS as OWNED
from tests.checkers.linear.test_definite import MORE
from tests.checkers.linearizable_stories import tokens_fall, tokens_grow

LIMITS = Budget(seconds=math.inf, configurations=20_000)
QUEUE: list[Doing] = [(f, None, None) for f in ("enqueue", "acquire", "release", "cancel")]
LEASES: list[Doing] = [
    *(("acquire", None, {"valid_for": seconds}) for seconds in (None, None, 1.0, 12.0)),
    *(("release", None, None) for _ in range(3)),
    ("extend", None, {"extended": True}),
    ("check", None, {"valid": False}),
]
KINDS: dict[str, tuple[Model, list[Doing]]] = {
    **{name: (model, MORE.get(name, doings)) for name, (model, doings) in OWNED.items()},
    "lease": (LeaseMutex(), LEASES),
    "fifo": (FifoLock(), QUEUE),
}


def draw(kind: str, seed: int, count: int = 12) -> KeyProblem:
    model, doings = KINDS[kind]
    history = draw_likely_history(seed, model, doings, count=count)
    return as_problem(history, model)


def as_problem(history: Calls, model: Model) -> KeyProblem:
    if model.wants not in ("leases", "grants"):
        without_grants(history)
    return problem(history, model, 0)


def decided(whole: KeyProblem, model: Model) -> bool | None:
    """Return the verdict of the repair, and assert that an order respects the windows and the model."""
    found = repair.decide(whole, model, LIMITS)
    if found.order is None:
        return None if found.wrong is None else False
    assert len(set(found.order)) == len(found.order)
    assert set(np.flatnonzero(whole.kind == MUST).tolist()) <= set(found.order)
    state: Any = model.initial
    latest = -1
    for call in found.order:
        state = model.step(state, whole.operations[whole.operation[call]])
        assert not isinstance(state, Inconsistent)
        latest = max(latest, int(whole.invoked[call]))
        assert latest < whole.returned[call]
    return True


def count_verdicts(kind: str, some: range) -> Counter[str]:
    """Count right and wrong histories, those that were not decided, and proofs smaller than the history."""
    model = KINDS[kind][0]
    counts: Counter[str] = Counter()
    for seed in some:
        whole = draw(kind, seed)
        truth = search(whole, model, Budget(60.0)).valid
        said = decided(whole, model)
        assert said in (None, truth), (kind, seed)
        counts["right" if truth else "wrong"] += 1
        counts["undecided"] += said is None
        wrong = repair.decide(whole, model, LIMITS).wrong
        counts["smaller"] += wrong is not None and len(wrong[0]) < len(whole)
    return counts


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
def test_the_search_agrees_on_likely_histories(kind: str) -> None:
    counts = count_verdicts(kind, range(60))
    assert min(counts["right"], counts["wrong"], counts["smaller"]) >= 5
    assert counts["undecided"] <= 2


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_the_search_agrees_on_many_likely_histories(kind: str) -> None:
    counts = count_verdicts(kind, range(1_000, 2_000))
    assert counts["undecided"] <= 10


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
def test_brute_force_agrees_on_random_histories(kind: str) -> None:
    model, doings = KINDS[kind]
    wrong = 0
    for seed in seeds(100):
        history = draw_history(seed, lambda random_: random_.choice(doings), count=5, unknown=0.4)
        whole = as_problem(history, model)
        truth = by_definition(whole, model)
        assert decided(whole, model) in (None, truth), seed
        wrong += not truth
    assert 0 < wrong < 100


def check_parts(kind: str, some: range) -> tuple[int, int]:
    """Assert that every part of a right history is right; return the number of parts, and of those that leave out known
    calls of their clients."""
    model = KINDS[kind][0]
    count = smaller = 0
    for seed in some:
        whole = draw(kind, seed, count=24)
        known = np.flatnonzero(whole.kind == MUST).tolist()
        if not known or not search(whole, model, Budget(60.0)).valid:
            continue
        middle = len(known) // 2
        for acquires in (1, 2, 4):
            for part in parts.Parts(whole, model).near(known[middle:], known[:middle][::-1], acquires):
                assert search(part, model, Budget(60.0)).valid, (kind, seed)
                count += 1
                end = part.returned[part.kind == MUST].max()
                smaller += int((part.kind == MUST).sum()) < int(_returned(whole, part, end).sum())
    return count, smaller


def _returned(whole: KeyProblem, part: KeyProblem, end: int) -> Any:
    clients = {part.operations[number].client for number in part.operation.tolist()}
    mine = np.array([whole.operations[number].client in clients for number in whole.operation.tolist()])
    return mine & (whole.kind == MUST) & (whole.returned <= end)


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
def test_all_parts_of_a_right_history_are_right(kind: str) -> None:
    count, smaller = check_parts(kind, range(30))
    assert count > 50
    assert smaller > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_parts_of_many_right_histories_are_right(kind: str) -> None:
    assert check_parts(kind, range(1_000, 1_150))[0] > 300


@pytest.mark.parametrize(
    ("kind", "name", "instead"),
    [
        ("owner", "_alone", lambda self, known, unknown: [(call, 0) for call in known if unknown]),
        ("reentrant", "_once", property(lambda self: True, lambda self, once: None)),
        ("fifo", "_queues", property(lambda self: False, lambda self, queues: None)),
        ("fifo", "_beginnings", lambda self, known: known[self._joins[known]]),
        ("reentrant", "_beginnings", lambda self, known: known[self._acquires[known]]),
        ("lease", "_unknown", property(lambda self: defaultdict(list), lambda self, unknown: None)),
    ],
    ids=[
        "every-call-needs-another",
        "held-once",
        "no-queue",
        "joined-to-release",
        "nested-holds-divide",
        "no-unknown-calls",
    ],
)
def test_parts_that_leave_out_too_much_are_found(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str, instead: object
) -> None:
    monkeypatch.setattr(parts.Parts, name, instead, raising=False)
    with pytest.raises(AssertionError):
        check_parts(kind, range(300))


class Pinged(OwnerMutex):
    """A lock that also answers pings, which change nothing."""

    fs = OwnerMutex.fs | {"ping"}

    def step(self, state: str | None, operation: Operation) -> str | Inconsistent | None:
        return state if operation.f == "ping" else super().step(state, operation)


def used_too_early() -> KeyProblem:
    """c1's release needs c0's unknown release, which was invoked after c2 had been granted the lock."""
    entries: list[Entry] = [(0, "invoke", "acquire"), (0, "ok", "acquire")]
    entries += [(1, "invoke", "acquire"), (11, "invoke", "release")]  # c1's acquire has an unknown outcome
    entries += 2 * [(3, "invoke", "ping"), (3, "ok", "ping")]
    entries += [(2, "invoke", "acquire"), (2, "ok", "acquire"), (0, "invoke", "release"), (11, "ok", "release")]
    return problem(calls(entries, clients={0: 0, 1: 1, 2: 2, 3: 3, 11: 1}), Pinged(), 0)


def any_unused(walk: repair._Walk, clients: set[str], used: set[int], end: int) -> list[int]:
    return [call for calls in walk.unknown for call in calls if walk.client[call] in clients and call not in used]


def test_an_unknown_call_is_not_used_before_its_invocation(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decided(used_too_early(), Pinged()) is False
    monkeypatch.setattr(repair._Walk, "_unused", any_unused)
    with pytest.raises(AssertionError):
        decided(used_too_early(), Pinged())


def test_a_run_that_is_not_decided_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = linearizable.LinearizabilityChecker()
    monkeypatch.setattr("harness.checkers.linearizability.definite.check", lambda *_: QuickResult(undecided=(0,)))
    assert checker.check(tokens_fall()).valid is False
    assert checker.check(tokens_grow()).valid is True
    monkeypatch.setattr(linearizable, "LIMITS", Budget(seconds=math.inf, configurations=0))
    verdict = checker.check(tokens_fall())
    assert verdict.valid is None
    assert "only by a search" in verdict.explanation
