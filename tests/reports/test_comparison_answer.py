"""The choice of a lock: each rule that the page states, on comparisons of a few locks."""

from __future__ import annotations

from typing import Any

import pytest

from harness.documents import ComparisonDocument, convert
from harness.reports import comparison_answer as answer
from harness.reports.comparison_view import ComparisonView, read
from tests.reports.comparisons import FAULTS, cell, document, lock

HARM_FENCED, HARM, WASTE = range(3)
TWO = ("client-pause", "kill")


def view(*locks: dict[str, Any], faults: tuple[str, ...] = TWO, **changed: Any) -> ComparisonView:
    return read(convert(document(*locks, faults=faults, **changed), ComparisonDocument, "comparison.json"))


def two(
    name: str, states: str, p50: float | None = 0.001, rate: float | None = 100.0, **changed: Any
) -> dict[str, Any]:
    """Return a lock under the faults of :data:`TWO`."""
    return lock(name, states, p50, rate, 2.0, TWO, **changed)


def best(*locks: dict[str, Any]) -> list[list[str]]:
    return [[one.name for one in found.best] for found in answer.answers(view(*locks))]


def reasoning(which: int, *locks: dict[str, Any]) -> str:
    return answer.answers(view(*locks))[which].reasoning


@pytest.mark.parametrize(
    ("states", "fits"),
    [
        ("ss", [True, True, True]),
        ("fs", [True, False, True]),
        ("us", [False, False, True]),
        ("as", [False, False, False]),
        ("?s", [False, False, False]),
        ("-s", [True, True, True]),
        ("--", [False, False, False]),
    ],
)
def test_each_state_rules_out_the_stated_uses(states: str, fits: list[bool]) -> None:
    assert [bool(names) for names in best(two("one", states))] == fits


def test_the_cheapest_fitting_lock_is_named_first() -> None:
    dear, cheap, unsafe = two("dear", "fs", 0.002), two("cheap", "fs", 0.001), two("unsafe", "us", 0.0005)
    assert best(dear, cheap, unsafe) == [["cheap"], [], ["unsafe"]]
    (harm, _, waste) = answer.answers(view(dear, cheap, unsafe))
    assert [one.name for one in harm.others] == ["dear"]
    assert [one.name for one in waste.others] == ["cheap", "dear"]
    assert harm.price == (
        "1 ms (virtual) per acquire, 100 grants per virtual second with 5 clients, "
        "free again 2 s (virtual) after its holder's crash"
    )


def test_ties_go_to_the_safer_lock_and_then_to_the_higher_grant_rate() -> None:
    quick, slow = two("quick", "ss", 0.001004, 300.0), two("slow", "ss", 0.001, 200.0)
    assert best(slow, quick)[HARM] == ["quick"]
    assert best(slow, two("fenced", "fs", 0.001, 900.0))[HARM_FENCED] == ["slow"]
    assert best(two("seldom", "u-", 0.001, 900.0), two("often", "uf", 0.001))[WASTE] == ["often"]
    assert best(two("one-safe", "su", 0.001, 900.0), two("all-fenced", "ff", 0.001))[WASTE] == ["all-fenced"]
    twin = two("twin", "ss", 0.001001, 301.0)
    assert best(twin, quick)[HARM] == ["quick", "twin"]
    assert "quick and twin are equal" in reasoning(HARM, twin, quick)


def test_locks_without_measurements_come_last() -> None:
    assert best(two("a", "ss", None), two("b", "ss", 1.0))[HARM] == ["b"]
    assert best(two("a", "ss", None, None, costs=[]))[HARM] == ["a"]
    assert answer.answers(view(two("a", "ss", costs=[], recovery={})))[HARM].price == ""


def test_a_lock_broken_without_faults_is_never_recommended() -> None:
    faults = ("none", "kill")
    seen = lock("seen", "us", faults=faults)
    told = lock("told", "ss", faults=faults, safety="X")
    sound = lock("sound", "ss", faults=faults)
    found = view(seen, told, sound, faults=faults)
    assert [answer.broken(one) for one in found.locks] == [
        f"unsafe without any fault: {seen['cells']['none']['why']}",
        "broken even without faults, by its own description", "",
    ]  # fmt: skip
    assert {one.name for an_answer in answer.answers(found) for one in an_answer.fit} == {"sound"}
    assert answer.headline(found) == "1 of 3 locks stayed safe under kill"
    alone = answer.answers(view(told, seen, faults=faults))
    assert [one.reasoning for one in alone] == ["None: every lock that ran is broken without any fault."] * 3


def test_a_lock_unsafe_in_the_fault_free_run_counts_as_broken() -> None:
    """All default columns are faults. The costs come from the run without a fault."""
    seen = two("seen", "ss", 0.0001, fault_free=cell("seen", "none", "unsafe", 9))
    sound = two("sound", "ss", 0.1, fault_free=cell("sound", "none", "safe", 9))
    found = view(seen, sound)
    assert [bool(answer.broken(one)) for one in found.locks] == [True, False]
    assert {one.name for an_answer in answer.answers(found) for one in an_answer.fit} == {"sound"}


def test_without_a_fitting_lock_the_nearest_is_named() -> None:
    twice, once, late = two("twice", "uu", 0.0001), two("once", "us", 0.0002), two("late", "aa", 0.1)
    assert (
        reasoning(HARM, twice, once)
        == "None was safe without fencing throughout. The nearest is once: unsafe under client-pause."
    )
    assert "The nearest is late: unavailable under client-pause and unavailable under kill." in reasoning(
        HARM, once, late
    )
    assert best(twice, once, late) == [[], [], ["twice"]]
    assert "The nearest is twice" in reasoning(HARM, twice, two("unknown", "??"))


def test_one_unavailable_run_rules_a_lock_out() -> None:
    mixed = two("mixed", "us")
    mixed["cells"]["client-pause"] = cell(
        "mixed", "client-pause", "unsafe", runs=3, counts={"unsafe": 2, "unavailable": 1}
    )
    assert best(mixed)[WASTE] == []
    assert reasoning(WASTE, mixed).endswith("The nearest is mixed: unavailable under client-pause.")
    mixed["cells"]["client-pause"]["counts"] = {"unsafe": 3}
    assert best(mixed)[WASTE] == ["mixed"]


def test_a_recommendation_states_its_caveats() -> None:
    fenced = reasoning(HARM_FENCED, two("one", "fs"))
    assert "It had two holders under client-pause, and the fencing token stopped the late one." in fenced
    assert "It was unsafe under client-pause and kill." in reasoning(WASTE, two("one", "uu"))
    twins = two("one", "us"), two("other", "su"), two("third", "us")
    assert reasoning(WASTE, *twins[:2]).endswith("one was unsafe under client-pause. other was unsafe under kill.")
    assert "one and third were unsafe under client-pause. other was unsafe under kill." in reasoning(WASTE, *twins)
    assert reasoning(WASTE, *twins[::2]).endswith("one and third are equal. Each was unsafe under client-pause.")
    met = "The only lock that was safe without fencing under every fault it met. It was not run under kill."
    assert reasoning(HARM, two("one", "s-")) == met
    assert (
        reasoning(HARM, two("one", "ss"), two("other", "us"))
        == "The only lock that was safe without fencing under both faults."
    )


def test_locks_ruled_out_only_by_unknown_cells_are_undecided() -> None:
    told = reasoning(HARM, two("sure", "ss"), two("maybe", "?s"), two("perhaps", "??"), two("bad", "?u"))
    assert told.endswith("Undecided because of an unknown cell: maybe and perhaps.")
    many = reasoning(HARM, *(two(f"maybe-{i}", "?s") for i in range(9)))
    assert "Undecided because of an unknown cell: maybe-0, maybe-1, maybe-2, maybe-3 and 5 more." in many
    assert "Undecided" not in reasoning(HARM, two("sure", "ss"), two("bad", "?u"))


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        (("none",), "without any fault"),
        (("none", "kill"), "under kill"),
        (TWO, "under both faults"),
        (tuple(FAULTS), "under all 6 faults"),
    ],
)
def test_the_fault_free_column_is_not_counted_as_a_fault(faults: tuple[str, ...], told: str) -> None:
    assert answer.under_all(view(faults=faults)) == told


def test_the_headline_counts_the_safe_locks() -> None:
    safe, unsafe = two("a", "ss"), two("c", "us")
    assert answer.headline(view(safe, unsafe, safe)) == "2 of 3 locks stayed safe under both faults"
    assert answer.headline(view(unsafe, unsafe)) == "None of 2 locks stayed safe under both faults"
    assert answer.headline(view(unsafe)) == "c did not stay safe under both faults"
    assert answer.headline(view()) == "No lock was compared"
    assert answer.headline(view(two("d", "s-"), safe)) == "2 of 2 locks stayed safe under every fault they met"
    assert answer.headline(view(two("d", "s-"), unsafe)) == "1 of 2 locks stayed safe under every fault it met"


def test_the_headline_names_the_fence_that_protected_the_resource() -> None:
    safe, fenced, unsafe = two("a", "ss"), two("b", "fs"), two("c", "us")
    kept = "kept the resource safe under both faults"
    assert answer.headline(view(fenced, unsafe)) == f"1 of 2 locks {kept}, by its fence"
    assert answer.headline(view(fenced, two("d", "ff"))) == f"2 of 2 locks {kept}, by their fences"
    assert answer.headline(view(safe, fenced, unsafe)) == f"2 of 3 locks {kept}, 1 of them by its fence"
    assert answer.headline(view(fenced)) == f"b {kept}, by its fence"
    assert answer.headline(view(fenced, lock_with_missed_cell("c", "s?"))).endswith(f"; it {kept}, by its fence")


def lock_with_missed_cell(name: str, states: str) -> dict[str, Any]:
    """Return a lock under :data:`TWO` whose last cell an interrupted comparison did not reach."""
    made = two(name, states)
    made["cells"]["kill"] |= {"state": "unknown", "runs": 0, "counts": {}, "run": None}
    return made


def test_an_interrupted_comparison_judges_only_fully_tested_locks() -> None:
    ran = "Interrupted: 1 of 2 locks was fully tested; it"
    safe, unsafe, cut = two("a", "ss"), two("b", "us"), lock_with_missed_cell("c", "s?")
    assert answer.headline(view(safe, cut)) == f"{ran} stayed safe under both faults"
    assert answer.headline(view(unsafe, cut)) == f"{ran} did not stay safe under both faults"
    assert answer.headline(view(safe, unsafe, cut)).endswith(
        "3 locks were fully tested; 1 stayed safe under both faults"
    )
    assert answer.headline(view(unsafe, unsafe, cut)).endswith("; none stayed safe under both faults")
    assert answer.headline(view(cut, cut)) == "Interrupted before any of 2 locks was fully tested"
    assert answer.headline(view(cut)) == "Interrupted before c was fully tested"
    undecided = "Undecided because of an unknown cell: c."
    assert reasoning(HARM, safe, cut) == (
        f"The only fully tested lock that was safe without fencing under both faults. {undecided}"
    )
    assert reasoning(HARM, safe, two("d", "ss"), cut).startswith("The cheapest of 2 fully tested locks that were safe")
    assert reasoning(HARM, unsafe, cut) == (
        "None of the fully tested locks was safe without fencing throughout. The nearest is b: "
        f"unsafe under client-pause. {undecided}"
    )
    assert reasoning(HARM, cut) == f"Unknown: the comparison ended before any lock was fully tested. {undecided}"


def test_a_cell_missing_in_the_document_was_not_reached() -> None:
    gone = two("a", "ss")
    del gone["cells"]["kill"]
    (lock_,) = view(gone).locks
    assert [(cell_.state, cell_.reached) for cell_ in lock_.cells] == [("safe", True), ("unknown", False)]
    assert not lock_.done


def test_the_short_table_has_each_recommended_lock_once() -> None:
    found = answer.answers(view(*(two(f"lock-{i}", "ss", i / 1000) for i in range(1, 6)), two("waste", "us", 0.0001)))
    rows = [(one.name, uses) for one, uses in answer.shortlist(found, most=2)]
    every = ["harm, tokens checked", "harm", "waste"]
    assert rows == [("lock-1", every), ("lock-2", every), ("waste", ["waste"])]
