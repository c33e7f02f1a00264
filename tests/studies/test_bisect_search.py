"""The search of a bisection finds the first release with the change, or the releases that are left."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.documents.bisect import BisectOutcome, BisectTrial
from harness.errors import UNKNOWN, USAGE, UsageError
from harness.studies.bisect import Bisection, Range, UnsuitableEnd, bisect, conclusion


class Library:
    """A package whose releases have the failure or not; ``tried`` are the trials, ``ranges`` what was left."""

    def __init__(self, outcomes: Sequence[BisectOutcome]) -> None:
        self.outcomes = {f"1.{n}": outcome for n, outcome in enumerate(outcomes)}
        self.versions = tuple(self.outcomes)
        self.tried: list[str] = []
        self.ranges: list[Range] = []
        self.interrupted_at = math.inf

    def trial(self, version: str) -> BisectTrial:
        if len(self.tried) >= self.interrupted_at:
            raise KeyboardInterrupt
        self.tried.append(version)
        outcome = self.outcomes[version]
        reason = {"unknown": "no acquire succeeded", "missing": "no such file"}.get(outcome, "")
        return BisectTrial(version=version, outcome=outcome, summary=f"summary of {version}", reason=reason)

    def search(self, good: str, bad: str) -> Bisection:
        def on_trial(trial: BisectTrial, left: Range) -> None:
            assert trial.version == self.tried[-1]
            self.ranges.append(left)

        return bisect(self.versions, good=good, bad=bad, trial=self.trial, on_trial=on_trial)


def library_with(bad: int, good: int) -> Library:
    outcomes: list[BisectOutcome] = ["bad"] * bad
    return Library(outcomes + ["good"] * good)


def test_the_release_that_fixed_a_failure_is_found_in_few_trials() -> None:
    library = library_with(70, 30)
    found = library.search(good="1.99", bad="1.0")
    assert (found.first_changed, found.before, found.remaining) == ("1.70", "1.69", ("1.70",))
    assert library.tried[:2] == ["1.0", "1.99"], "the failure is shown first"
    assert len(library.tried) <= 2 + 7
    assert [one.version for one in found.trials] == library.tried
    assert conclusion(found, "locker", "1.0", library.versions) == (
        "locker 1.70 fixed the failure; 1.69 is the last release before it."
    )


def test_the_release_that_introduced_a_failure_is_found() -> None:
    library = Library(["good", "good", "bad", "bad", "bad"])
    found = library.search(good="1.0", bad="1.4")
    assert (found.first_changed, found.before) == ("1.2", "1.1")
    assert conclusion(found, "locker", "1.4", library.versions).startswith("locker 1.2 introduced the failure")


def test_two_neighbouring_releases_need_no_further_trial() -> None:
    library = Library(["bad", "good"])
    assert library.search(good="1.1", bad="1.0").first_changed == "1.1"
    assert library.tried == ["1.0", "1.1"]


@given(st.integers(1, 40), st.integers(1, 40), st.booleans(), st.data())
def test_skipped_releases_never_hide_the_change(before: int, after: int, introduced: bool, data: st.DataObject) -> None:
    first: BisectOutcome = "good" if introduced else "bad"
    last: BisectOutcome = "bad" if introduced else "good"
    outcomes: list[BisectOutcome] = [first] * before + [last] * after
    for n in data.draw(st.sets(st.integers(1, before + after - 2))) if before + after > 2 else ():
        outcomes[n] = data.draw(st.sampled_from(("unknown", "missing")))
    library = Library(outcomes)
    ends = (library.versions[0], library.versions[-1])
    good, bad = ends if introduced else ends[::-1]
    found = library.search(good=good, bad=bad)
    assert library.versions[before] in found.remaining
    assert (found.first_changed is None) == (len(found.remaining) > 1)
    assert all(outcomes[library.versions.index(version)] in ("unknown", "missing") for version in found.remaining[:-1])
    assert outcomes[library.versions.index(found.before)] == first
    assert len(library.tried) == len(set(library.tried))


def test_skipped_releases_that_leave_several_candidates_are_named() -> None:
    library = Library(["bad", "bad", "unknown", "missing", "good", "good"])
    found = library.search(good="1.5", bad="1.0")
    assert found.first_changed is None
    assert found.remaining == ("1.2", "1.3", "1.4")
    assert conclusion(found, "locker", "1.0", library.versions) == (
        "One of locker 1.2, 1.3 or 1.4 fixed the failure; 1.2 and 1.3 were skipped."
    )


@pytest.mark.parametrize(
    ("outcomes", "message", "status"),
    [
        (["good", "good", "good"], "1.0 was given as --bad, where the failure happens, but there the failure does not "
         "happen: summary of 1.0", USAGE),
        (["bad", "good", "bad"], "1.2 was given as --good, where the failure does not happen, but there the failure "
         "happens: summary of 1.2", USAGE),
        (["unknown", "good", "good"], "its runs do not tell: no acquire succeeded", UNKNOWN),
        (["bad", "good", "missing"], "it cannot be installed: no such file", UNKNOWN),
    ],
)  # fmt: skip
def test_an_end_that_is_not_as_claimed_is_named(outcomes: list[BisectOutcome], message: str, status: int) -> None:
    library = Library(outcomes)
    with pytest.raises(UnsuitableEnd) as caught:
        library.search(good="1.2", bad="1.0")
    assert message in str(caught.value)
    assert caught.value.exit_status == status
    assert caught.value.trial.version in str(caught.value)


def test_the_same_release_cannot_be_both_ends() -> None:
    with pytest.raises(UsageError, match="two releases"):
        Library(["bad", "good"]).search(good="1.0", bad="1.0")


def test_progress_says_what_is_left() -> None:
    library = library_with(5, 4)
    library.search(good="1.8", bad="1.0")
    assert [(left.unchanged, left.changed) for left in library.ranges] == [
        ("1.0", "1.8"), ("1.0", "1.8"), ("1.4", "1.8"), ("1.4", "1.6"), ("1.4", "1.5")
    ]  # fmt: skip
    assert [left.steps_left for left in library.ranges] == [3, 3, 2, 1, 0]


def test_an_interrupted_search_says_what_is_left() -> None:
    library = library_with(5, 4)
    library.interrupted_at = 3
    found = library.search(good="1.8", bad="1.0")
    assert found.interrupted
    assert (found.first_changed, found.remaining) == (None, ("1.5", "1.6", "1.7", "1.8"))
    assert conclusion(found, "locker", "1.0", library.versions) == (
        "The search was interrupted. One of the releases 1.5, 1.6, 1.7 or 1.8 fixed the failure."
    )


def test_a_search_interrupted_at_its_ends_knows_nothing() -> None:
    library = library_with(5, 4)
    library.interrupted_at = 1
    found = library.search(good="1.8", bad="1.0")
    assert (found.first_changed, len(found.remaining)) == (None, 8)
    assert "before both ends were tried" in conclusion(found, "locker", "1.0", library.versions)


def test_many_releases_that_are_left_are_not_all_named() -> None:
    library = library_with(5, 4)
    library.interrupted_at = 2
    found = library.search(good="1.8", bad="1.0")
    assert "One of the 8 releases from 1.1 to 1.8 fixed" in conclusion(found, "locker", "1.0", library.versions)
