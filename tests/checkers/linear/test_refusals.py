"""Failed calls as evidence: what a refused acquire and a failed compare-and-set say about the state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from harness import check
from harness.checkers.linearizability.check import check as checked
from harness.checkers.linearizability.problem import problem
from harness.checkers.models import CasRegister, Model, Mutex, OwnerMutex, Semaphore, WithRefusals
from harness.errors import UsageError
from harness.history import SECOND, History, Op
from tests.checkers.linear.brute import linearizable
from tests.checkers.linear.build import without_grants
from tests.checkers.linear.draw import Draw, draw_history, lock_call, register_call
from tests.checkers.linear.enumerate import Doing
from tests.checkers.linear.test_repair import KINDS as LOCKS

Kind = Literal["invoke", "ok", "fail", "info"]
Entry = tuple[int, Kind, str] | tuple[int, Kind, str, object]
"""Process, type, function, value; entries are one second apart."""

FREE: Sequence[Entry] = [(0, "invoke", "acquire"), (0, "fail", "acquire")]
HELD: Sequence[Entry] = [
    (1, "invoke", "acquire"), (1, "ok", "acquire"), *FREE, (1, "invoke", "release"), (1, "ok", "release"),
]  # fmt: skip
AFTER_RELEASE: Sequence[Entry] = [
    (1, "invoke", "acquire"), (1, "ok", "acquire"), (1, "invoke", "release"), (1, "ok", "release"), *FREE,
]  # fmt: skip
DURING_RELEASE: Sequence[Entry] = [
    (1, "invoke", "acquire"), (1, "ok", "acquire"), (1, "invoke", "release"), *FREE, (1, "ok", "release"),
]  # fmt: skip
UNKNOWN_BEFORE: Sequence[Entry] = [(1, "invoke", "acquire"), (1, "info", "acquire"), *FREE]
UNKNOWN_AFTER: Sequence[Entry] = [*FREE, (1, "invoke", "acquire"), (1, "info", "acquire")]
TWO_TRIES: Sequence[Entry] = [
    (0, "invoke", "acquire"), (1, "invoke", "acquire"), (0, "fail", "acquire"), (1, "fail", "acquire"),
]  # fmt: skip
BY_ITSELF: Sequence[Entry] = [(0, "invoke", "acquire"), (0, "ok", "acquire"), *FREE]
OTHER_VALUE: Sequence[Entry] = [
    (0, "invoke", "write", 1), (0, "ok", "write", 1), (1, "invoke", "cas", [2, 3]), (1, "fail", "cas", [2, 3]),
]  # fmt: skip
SAME_VALUE: Sequence[Entry] = [
    (0, "invoke", "write", 2), (0, "ok", "write", 2), (1, "invoke", "cas", [2, 3]), (1, "fail", "cas", [2, 3]),
]  # fmt: skip
OWNED = ("owner-mutex", "reentrant-mutex", "fenced-mutex", "reentrant-fenced-mutex", "rw-lock", "lease-mutex")


def history(entries: Sequence[Entry]) -> History:
    """Return a history of these entries."""
    return History(
        Op(
            number,
            (number + 1) * SECOND,
            0,
            process,
            kind,
            f,
            key="k",
            value=rest[0] if rest else None,
            node=f"c{process}",
        )
        for number, (process, kind, f, *rest) in enumerate(entries)
    )


@pytest.mark.parametrize("model", ["mutex", "fifo-lock", *OWNED])
@pytest.mark.parametrize(
    ("entries", "valid"),
    [
        pytest.param(FREE, False, id="free"),
        pytest.param(HELD, True, id="held"),
        pytest.param(AFTER_RELEASE, False, id="after release"),
        pytest.param(DURING_RELEASE, True, id="during release"),
        pytest.param(UNKNOWN_BEFORE, True, id="unknown acquire before"),
        pytest.param(UNKNOWN_AFTER, False, id="unknown acquire afterwards"),
        pytest.param(TWO_TRIES, False, id="two tries"),
    ],
)
def test_an_acquire_is_refused_only_while_somebody_holds_the_lock(
    model: str, entries: Sequence[Entry], valid: bool
) -> None:
    past = history(entries)
    found = check(past, model, failures="evidence").verdict
    assert found.valid is valid, found.explanation
    assert found.stats["refused_calls"] == sum(entry[1] == "fail" for entry in entries)
    assert check(past, model).verdict.valid in (True, None), "failed calls are ignored unless asked for"


def test_a_semaphore_refuses_when_all_permits_are_taken() -> None:
    one_taken = history([(1, "invoke", "acquire"), (1, "ok", "acquire"), *FREE])
    assert check(one_taken, Semaphore(1), failures="evidence").verdict.valid is True
    assert check(one_taken, Semaphore(2), failures="evidence").verdict.valid is False


def test_a_reentrant_lock_does_not_refuse_its_holder() -> None:
    past = history(BY_ITSELF)
    assert check(past, "owner-mutex", failures="evidence").verdict.valid is True
    assert check(past, "reentrant-mutex", failures="evidence").verdict.valid is False
    assert check(past, "reentrant-mutex", options={"limit": 1}, failures="evidence").verdict.valid is True


def test_a_queue_refuses_a_client_that_is_not_first() -> None:
    waits: Sequence[Entry] = [(1, "invoke", "enqueue"), (1, "ok", "enqueue")]
    assert check(history([*waits, *FREE]), "fifo-lock", failures="evidence").verdict.valid is True
    mine: Sequence[Entry] = [(0, "invoke", "enqueue"), (0, "ok", "enqueue")]
    assert check(history([*mine, *FREE]), "fifo-lock", failures="evidence").verdict.valid is False


def test_a_lease_may_refuse_after_its_end_until_it_is_released() -> None:
    granted: Sequence[Entry] = [(1, "invoke", "acquire"), (1, "ok", "acquire", {"fence": None, "valid_for": 0.5})]
    assert check(history([*granted, *FREE]), "lease-mutex", failures="evidence").verdict.valid is True


@pytest.mark.parametrize(("entries", "valid"), [(OTHER_VALUE, True), (SAME_VALUE, False)])
def test_a_compare_and_set_fails_only_if_the_value_is_another(entries: Sequence[Entry], valid: bool) -> None:
    past = history(entries)
    assert check(past, "cas-register", failures="evidence").verdict.valid is valid
    assert check(past, "cas-register").verdict.valid is True


def test_the_refused_call_is_named_in_the_explanation() -> None:
    found = check(history(AFTER_RELEASE), "owner-mutex", failures="evidence").verdict
    assert "c0's refused acquire returned: nobody holds it" in found.explanation
    refused = [call for call in found.evidence[0].involved if call["outcome"] == "fail"]
    assert [(call["f"], call["client"], call["indices"]) for call in refused] == [("acquire", "c0", [4, 5])]


TWICE: Sequence[Entry] = [
    (0, "invoke", "acquire"), (0, "ok", "acquire"), (1, "invoke", "acquire"), (1, "ok", "acquire"),
]  # fmt: skip


@pytest.mark.parametrize("entries", [[*TWICE, *FREE], [*FREE, *TWICE]])
def test_a_key_that_is_wrong_anyway_is_explained_without_its_refusals(entries: Sequence[Entry]) -> None:
    report = check(history(entries), "owner-mutex", failures="evidence")
    assert report.verdict.valid is False
    assert report.checked.searched == 0
    assert [call["client"] for call in report.verdict.evidence[0].involved] == ["c0", "c1"]


def test_files_of_both_kinds_keep_refusals(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "history.jsonl", tmp_path / "history.edn"
    history(SAME_VALUE).save(ours)
    theirs.write_text(
        "{:process 0 :type :invoke :f :write :value 2}\n{:process 0 :type :ok :f :write :value 2}\n"
        "{:process 1 :type :invoke :f :cas :value [2 3]}\n{:process 1 :type :fail :f :cas :value [2 3]}\n"
    )
    for path in (ours, theirs):
        assert check(path, "cas-register").verdict.valid is True
        assert check(path, "cas-register", failures="evidence").verdict.valid is False


def test_a_model_without_refusals_is_refused() -> None:
    with pytest.raises(UsageError, match="the model register does not say what a failed call means"):
        check(history(OTHER_VALUE), "register", failures="evidence")


DRAWN: dict[str, tuple[Model, Draw]] = {
    "mutex": (Mutex(), lock_call),
    "semaphore": (Semaphore(2), lock_call),
    "cas-register": (CasRegister(), register_call),
}


def drawn_from(doings: Sequence[Doing]) -> Draw:
    return lambda random_: random_.choice(doings)


DRAWN |= {name: (model, drawn_from(doings)) for name, (model, doings) in LOCKS.items()}


def compare(name: str, seeds: range, count: int) -> int:
    """Compare with brute force, and return how many histories are wrong only with their refusals."""
    model, draw = DRAWN[name]
    evidence, only = WithRefusals(model), 0
    for seed in seeds:
        found = draw_history(seed, draw, count=count, refused=0.4, refusals=model.refusals)
        if model.wants not in ("leases", "grants"):
            without_grants(found)
        truth = linearizable(problem(found, evidence, 0), evidence)
        assert checked(found, evidence, workers=1).verdict.valid in (None if not len(found) else truth, truth), seed
        only += not truth and linearizable(problem(found, model, 0), model)
    return only


@pytest.mark.few(5)
@pytest.mark.parametrize("name", DRAWN)
def test_brute_force_agrees_on_drawn_histories(name: str) -> None:
    assert compare(name, range(120), 5) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_brute_force_agrees_on_many_drawn_histories(name: str) -> None:
    assert compare(name, range(1_000, 2_000), 6) > 3


class LiesAboutRefusals(OwnerMutex):
    """A mutant: an acquire may be refused at any time."""

    def refuse(self, state: str | None, operation: object) -> str | None:  # type: ignore[override]
        return state


def test_a_model_that_allows_any_refusal_is_noticed() -> None:
    assert check(history(FREE), LiesAboutRefusals(), failures="evidence").verdict.valid is True
    assert check(history(FREE), OwnerMutex(), failures="evidence").verdict.valid is False
