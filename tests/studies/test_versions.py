"""A study of several releases says what fails in some and not in others."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness.documents import VersionsDocument
from harness.documents.versions import VersionCell, VersionChange, VersionPlan, VersionRun
from harness.errors import UNKNOWN, VALID, VIOLATION, UsageError
from harness.plan import Plan
from harness.studies import versions
from harness.studies.versions import cell, missing

ALL = ("mutual-exclusion", "liveness")


def run(seed: int, *invalid: str, unknown: tuple[str, ...] = ()) -> VersionRun:
    valid = tuple(name for name in ALL if name not in (*invalid, *unknown))
    return VersionRun(seed=seed, invalid=invalid, valid=valid, summary=f"summary {seed}")


CELLS = (
    cell("1.0", "pause", [run(0), run(1)]),
    cell("1.1", "pause", [run(0), run(1, "mutual-exclusion")]),
    missing("1.2", "pause", "no such wheel"),
    cell("1.3", "pause", [run(0, "mutual-exclusion"), run(1, "mutual-exclusion", "liveness")]),
    cell("1.4", "pause", [run(0), run(1)]),
    cell("1.0", "kill", [run(0, "liveness")]),
    cell("1.1", "kill", [run(0, "liveness")]),
    missing("1.2", "kill", "no such wheel"),
    cell("1.3", "kill", [run(0, "liveness")]),
    cell("1.4", "kill", [run(0, unknown=ALL)], "no acquire succeeded"),
)


def test_a_failure_of_some_releases_is_a_difference() -> None:
    found = versions.differences(versions.failures(CELLS))
    first, second = found
    assert (first.plan, first.checker) == ("pause", "mutual-exclusion")
    assert (first.fails_in, first.holds_in, first.unknown_in) == (("1.1", "1.3"), ("1.0", "1.4"), ("1.2",))
    assert first.changes == (
        VersionChange(before="1.0", version="1.1", appears=True),
        VersionChange(before="1.3", version="1.4", appears=False),
    )
    assert (first.version, first.seed, first.summary) == ("1.1", 1, "summary 1")
    assert first.sentence == (
        "mutual-exclusion fails with 1.1 and 1.3, and holds with 1.0 and 1.4: it appears in 1.1 (after 1.0) and "
        "disappears in 1.4 (after 1.3). Unknown with 1.2."
    )
    assert (second.checker, second.fails_in, second.version) == ("liveness", ("1.3",), "1.3")


def test_a_failure_of_all_releases_is_no_difference() -> None:
    (found,) = versions.common(versions.failures(CELLS))
    assert (found.plan, found.checker, found.changes) == ("kill", "liveness", ())
    assert found.unknown_in == ("1.2", "1.4")
    assert found.sentence == "liveness fails with 1.0, 1.1 and 1.3. Unknown with 1.2 and 1.4."


def test_a_run_without_a_verdict_does_not_count_as_holding() -> None:
    cells = (
        cell("1", "p", [run(0, "liveness")]),
        cell("2", "p", [run(0), run(1, unknown=("liveness",))], "too few acquires"),
    )
    (found,) = versions.failures(cells)
    assert (found.holds_in, found.unknown_in) == ((), ("2",))
    assert versions.differences((found,)) == ()


def test_a_violated_cell_gives_no_reason_for_being_unknown() -> None:
    assert cell("1", "p", [run(0, "liveness"), run(1, unknown=ALL)], "odd") == VersionCell(
        version="1", plan="p", state="violated", runs=(run(0, "liveness"), run(1, unknown=ALL))
    )
    assert cell("1", "p", []).state == "unknown"


def test_the_conclusion_counts_differences_and_unknown_results() -> None:
    found = versions.failures(CELLS)
    assert versions.conclusion(CELLS, found, "locker") == (
        "locker: 2 failures differ between releases and 1 failure is in every one that tells; 3 of 10 results are "
        "unknown."
    )
    assert versions.conclusion(CELLS[:1], (), "locker") == "locker: no release shows a failure."


def document(*cells: VersionCell) -> VersionsDocument:
    plans = tuple(VersionPlan(name=name, plan=Plan(lock="x")) for name in dict.fromkeys(one.plan for one in cells))
    return VersionsDocument(
        schema=1, lock="x", package="locker", releases=("1.0", "1.1"), plans=plans or (), cells=cells
    )


def test_the_exit_status_is_that_of_the_gravest_result() -> None:
    good = (cell("1.0", "pause", [run(0)]), cell("1.1", "pause", [run(0)]))
    assert versions.exit_status(document(*good)) == VALID
    assert versions.exit_status(document(good[0], missing("1.1", "pause", "x"))) == UNKNOWN
    assert versions.exit_status(document(good[0])) == UNKNOWN, "a result is missing"
    assert versions.exit_status(replace(document(*good), interrupted=True)) == UNKNOWN
    bad = cell("1.1", "pause", [run(0, "liveness")])
    assert versions.exit_status(document(missing("1.0", "pause", "x"), bad)) == VIOLATION


def test_versions_are_put_in_their_order() -> None:
    assert versions.parse_versions("redis==5.2.1, 2.10.6,3.5.3,10.0") == ("redis", ("2.10.6", "3.5.3", "5.2.1", "10.0"))


@pytest.mark.parametrize(
    "text", ["redis", "redis==", "redis==1.0", "redis==1.0,1.0.0", "redis==1.0,x", "==1,2", "redis>=1,2", "a b==1,2"]
)
def test_malformed_versions_are_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="expected a package and at least two releases"):
        versions.parse_versions(text)
