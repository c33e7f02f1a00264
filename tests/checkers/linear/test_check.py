"""The linearizability check as a whole: the choice of the algorithm, and its answers on keys, budgets and values."""

from __future__ import annotations

import pytest

from harness.checkers.linearizability import check as front
from harness.checkers.linearizability.check import ModelError, check
from harness.checkers.linearizability.problem import Budget, ProvedImpossible, QuickResult
from harness.checkers.models import (
    CasRegister,
    FencedMutex,
    FifoLock,
    Inconsistent,
    LeaseMutex,
    Model,
    Mutex,
    Operation,
    OwnerMutex,
    ReadWriteLock,
    ReentrantFencedMutex,
    ReentrantMutex,
    Register,
    Semaphore,
)
from harness.history.calls import Calls
from tests.checkers.linear.build import Entry, calls, without_grants
from tests.checkers.linear.draw import draw_history, grant_call, lock_call, register_call, seeds
from tests.checkers.linear.problems import Sum

DOUBLE: list[Entry] = [(0, "invoke", "acquire"), (0, "ok", "acquire"), (1, "invoke", "acquire"), (1, "ok", "acquire")]
LOCKS: list[Model] = [
    Mutex(), OwnerMutex(), ReentrantMutex(2), FencedMutex(), ReentrantFencedMutex(2), Semaphore(2), ReadWriteLock(),
    LeaseMutex(), FifoLock(),
]  # fmt: skip


@pytest.mark.few(4)
@pytest.mark.parametrize("model", LOCKS, ids=lambda model: model.name)
def test_quick_algorithm_and_search_give_the_same_verdict(model: Model) -> None:
    grants = model.wants in ("leases", "grants")
    wrong = 0
    for seed in seeds(60):
        history = draw_history(seed, grant_call if grants else lock_call, clients=2, count=2 + seed % 4, unknown=0.3)
        if not grants:
            history = without_grants(history)
        quick, searched = check(history, model), check(history, model, quick=False)
        assert quick.verdict.valid is searched.verdict.valid
        assert quick.verdict.valid is not None
        wrong += quick.verdict.valid is False
    assert 5 < wrong < 55


def two_keys() -> Calls:
    """A history that is linearizable on key a, and not on key b."""
    entries: list[Entry] = [(0, kind, "acquire", None, "a") for kind in ("invoke", "ok")]
    entries += [(process, kind, "acquire", None, "b") for process in (0, 1) for kind in ("invoke", "ok")]
    return without_grants(calls(entries))


def test_each_key_is_checked_by_itself() -> None:
    found = check(two_keys(), OwnerMutex(), name="owner-mutex").verdict
    assert found.valid is False
    assert found.evidence[0].key == "b"
    assert found.stats["keys"] == 2
    assert found.stats["violations"] == 1
    again = check(two_keys(), OwnerMutex(), workers=2, quick=False).verdict
    assert again.evidence == found.evidence


def test_an_exhausted_budget_gives_unknown_and_the_position_reached() -> None:
    """Forty concurrent additions, and a read of an impossible final sum: the budget is too small for that many
    orders."""
    entries: list[Entry] = [(p, "invoke", "add", p + 1) for p in range(40)]
    entries += [(p, "ok", "add") for p in range(40)]
    entries += [(0, "invoke", "read"), (0, "ok", "read", (sum(range(41)) - 1) % 97)]
    found = check(without_grants(calls(entries)), Sum(), budget=Budget(0.05, 2**20)).verdict
    assert found.valid is None
    assert "used up its budget" in found.explanation
    assert "configurations" in found.explanation


def test_calls_unknown_to_the_model_are_ignored_or_refused() -> None:
    entries: list[Entry] = [(0, "invoke", "write", 1), (0, "ok", "write", 1)]
    with pytest.raises(ModelError, match="expected calls of acquire, lock, release, unlock, got only write"):
        check(without_grants(calls(entries)), Mutex(), name="mutex")
    entries += [(0, "invoke", "acquire"), (0, "ok", "acquire")]
    found = check(without_grants(calls(entries)), Mutex())
    assert (found.verdict.valid, found.verdict.stats["calls"], found.ignored) == (True, 1, {"write": 1})
    with pytest.raises(ModelError, match="does not define what cas does"):
        check(without_grants(calls([(0, "invoke", "cas", (1, 2)), (0, "ok", "cas", (1, 2))])), Register())
    with pytest.raises(ModelError, match=r"the value of a cas is \[old, new\], got 5"):
        check(without_grants(calls([(0, "invoke", "cas", 5), (0, "ok", "cas", 5)])), CasRegister())
    with pytest.raises(ModelError, match="not for 'append'"):
        check(without_grants(calls([(0, "invoke", "acquire", "append"), (0, "ok", "acquire")])), ReadWriteLock())


def test_history_without_effective_calls_is_unknown_and_says_why() -> None:
    failed = check(without_grants(calls([(0, "invoke", "acquire"), (0, "fail", "acquire")])), Mutex()).verdict
    assert failed.valid is None
    assert "every call that the model Mutex describes failed" in failed.explanation
    assert "Knossos calls such a history valid" in failed.explanation
    empty = check(without_grants(calls([])), Mutex()).verdict
    assert empty.valid is None
    assert "the history has no call that the model Mutex describes" in empty.explanation


def test_disagreement_of_two_algorithms_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that only a quick algorithm reports is not believed."""
    history = without_grants(calls(DOUBLE[:2]))
    monkeypatch.setattr(
        front, "quick_algorithm", lambda model: lambda calls: QuickResult((ProvedImpossible(0, 1, (0,)),))
    )
    with pytest.raises(AssertionError, match="disagree"):
        check(history, OwnerMutex())


def test_a_derived_model_uses_the_search() -> None:
    """Its meaning may differ from that of its base class, for which a quick algorithm exists."""

    class Anything(OwnerMutex):
        def step(self, state: str | None, operation: Operation) -> str | Inconsistent | None:
            return state

    found = check(without_grants(calls(DOUBLE)), Anything())
    assert found.verdict.valid is True
    assert not found.quick


def test_the_picture_shows_the_order_and_the_core() -> None:
    found = check(without_grants(calls(DOUBLE)), OwnerMutex(), name="owner-mutex")
    (picture,) = found.pictures
    assert [(bar.client, bar.place, bar.core, bar.stuck) for bar in picture.bars] == [
        ("c0", 1, True, False),
        ("c1", 0, True, True),
    ]
    assert picture.initial == "free"
    assert picture.bars[0].state == "held by c0"
    assert not check(without_grants(calls(DOUBLE[:2])), OwnerMutex()).pictures


def test_the_same_history_gets_the_same_explanation() -> None:
    histories = [without_grants(draw_history(seed, register_call, count=8)) for seed in seeds(10)]
    once, twice = ([check(history, CasRegister()).verdict for history in histories] for _ in range(2))
    assert once == twice
