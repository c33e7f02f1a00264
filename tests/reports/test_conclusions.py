"""The first sentences of pages: the conclusion, and how sure it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.documents import SweepDocument
from harness.documents.sweep import SweepPoint
from harness.reports import certainty, comparison, hunt_report, nightly_report, sweep_report
from harness.reports.sweep_finding import finding
from tests.reports import comparisons, hunted, nights


def point(ttl: float, pause: float, violated: int, valid: int, **changed: Any) -> SweepPoint:
    runs = violated + valid + changed.get("unknown", 0)
    given: dict[str, Any] = {
        "cluster": "sim", "ttl": ttl, "hold": 0.1, "pause": pause, "asked": runs, "runs": runs, "violated": violated,
        "valid": valid, "unknown": 0, "stalled": 0, "rate": 0.5, "rate_low": 0.4, "rate_high": 0.6,
        "writes": 0, "lost": 0,
        "lost_fraction": None, "lost_least": None, "lost_most": None, "first_s": None, "overlaps": 0,
        "acquires_per_second": None, "lease_s": None,
    }  # fmt: skip
    return SweepPoint(**{**given, **changed})


def sweep_of(*points: SweepPoint) -> SweepDocument:
    return SweepDocument(
        schema=1, lock="redis-token", kind="redis-single", nodes=1, workload="mutex", clients=3, keys=1, rest=0.1,
        discipline="trusting", fencing="off", fault="client-pause", target="one", every=5.0, time_limit=60.0, seeds=2,
        seed=0, points=points, started_at="2026-11-21T20:00:00Z",
    )  # fmt: skip


def test_a_sweep_states_where_the_lock_is_violated() -> None:
    found = finding(sweep_of(point(1, 3, 2, 0, rate_low=0.3), point(2, 3, 1, 1), point(4, 3, 0, 5), point(2, 0, 0, 3)))
    assert found.headline == "redis-token was violated in 3 of 12 runs, at 2 of 4 points"
    assert "The violations are exactly where the pause is longer than the ttl." in found.where
    assert "Most often with ttl 2 s, hold 0.1 s and pause 3 s on sim: in 1 of 2 runs." in found.where
    assert "40 % to 60 % of such runs fail" in found.certainty
    assert "A point without a violation: 3 runs, no failure: below 63.2 %" in found.certainty
    assert found.judgement == "invalid"


@pytest.mark.parametrize(
    ("points", "where"),
    [
        ([point(2, 0, 0, 2), point(2, 1, 2, 0)], "exactly where something is paused"),
        ([point(2, 1, 0, 2), point(2, 2, 2, 0)], "exactly where hold and pause together are longer than the ttl"),
        ([point(4, 1, 0, 2), point(4, 2, 2, 0)], "exactly where the pause is 2 s or longer"),
        ([point(4, 1, 2, 0), point(5, 1, 0, 2)], "exactly where the ttl is 4 s or shorter"),
        ([point(2, 3, 2, 0)], "Every point of the grid has a violation."),
    ],
)
def test_what_separates_the_violated_points_is_named(points: list[SweepPoint], where: str) -> None:
    assert where in finding(sweep_of(*points)).where


def test_points_that_nothing_simple_separates_are_not_explained() -> None:
    mixed = [point(2, 1, 1, 1), point(3, 1, 0, 2), point(4, 1, 1, 1)]
    assert "exactly" not in finding(sweep_of(*mixed)).where


def test_a_sweep_without_a_violation_says_how_sure_that_is() -> None:
    found = finding(sweep_of(point(2, 1, 0, 3), point(3, 1, 0, 2, unknown=1)))
    assert found.headline == "redis-token was not violated in 5 runs at 2 points"
    assert found.certainty == (
        "A point without a violation: 2 runs, no failure: below 77.7 % of such runs fail, with 95 % confidence. "
        "1 run gave no verdict."
    )
    assert found.judgement == "unknown"
    assert finding(sweep_of(point(2, 1, 0, 3))).judgement == "valid"


def test_a_sweep_without_a_verdict_concludes_nothing() -> None:
    found = finding(sweep_of(point(2, 1, 0, 0, unknown=2, asked=5)))
    assert (found.headline, found.judgement) == ("No run gave a verdict", "unknown")
    assert found.certainty == "Nothing was proved. 2 runs gave no verdict and 3 runs were not made."


def beginning(page: str) -> str:
    """Return the text of the first box of a page, without tags."""
    box = re.search(r'<div class="verdict.*?</div>', page, re.DOTALL)
    assert box is not None
    return " ".join(re.sub(r"<[^>]*>", " ", box[0]).split())


def test_the_page_of_a_sweep_begins_with_the_finding_and_explains_empty_cells(tmp_path: Path) -> None:
    document = sweep_of(
        point(1, 3, 2, 0), point(4, 3, 0, 2), point(4, 5, 0, 0, unknown=2, rate_low=None, rate_high=None)
    )
    page = sweep_report.write(document, tmp_path).read_text()
    assert beginning(page).startswith("redis-token was violated in 2 of 4 runs, at 1 of 2 points")
    assert "How sure: Each violation is proved" in beginning(page)
    assert "<dt>Started</dt><dd>2026-11-21 20:00:00 UTC</dd>" in page
    table = page[page.index("<tbody>") :]
    for words in ("no violation", "no verdict", "no update"):
        assert f'<span class="muted">{words}</span>' in table
    assert "–" not in table.partition("</tbody>")[0]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("kind", "sure"),
    [
        ("violation", "This run proves it"),
        ("valid", "1 run says little: up to 95 %"),
        ("unknown", "Nothing was proved"),
    ],
)
def test_the_page_of_a_run_says_how_sure_its_verdict_is(reported: Callable[[str], Path], kind: str, sure: str) -> None:
    assert f"How sure: {sure}" in beginning(reported(kind).read_text())


def test_the_page_of_a_comparison_says_how_sure_it_is_and_that_times_are_virtual(tmp_path: Path) -> None:
    page = comparison.write(comparisons.write(tmp_path, comparisons.sample())).read_text()
    assert "How sure: An unsafe cell is proved by its run. A safe cell:" in beginning(page)
    tables = re.findall(r"<table[^>]*>(?:<caption>|\n<caption>)(.*?)</caption>\n(.*?)</thead>", page)
    times = [caption for caption, heads in tables if re.search(">Acquire|99 %|>Release|[Gg]rants|Free|>Time", heads)]
    assert len(times) == 2
    assert all("virtual" in caption for caption in times)


def test_a_nightly_run_says_how_sure_it_is(tmp_path: Path) -> None:
    page = nightly_report.write(nights.read(nights.explored()), tmp_path).read_text()
    assert "How sure: A failure that was found is proved by its run." in beginning(page)
    assert '<span class="muted">–</span>' not in page


def test_a_hunt_says_how_sure_it_is(tmp_path: Path) -> None:
    folder = hunted.stored(tmp_path, hunted.hunt(hunted.finding()))
    page = hunt_report.write(folder).read_text()
    assert "How sure: Proved: the counterexample repeats the failure" in beginning(page)
    assert certainty.of_hunt(1, 10, 2.0).startswith("Proved:")
    assert certainty.of_hunt(0, 1_000, 0.52) == (
        "Not proved: 1,000 schedules of a space without end. The nearest miss is 0.52, and 2 means two holders at once."
    )
    assert certainty.of_hunt(0, 0, 0.0).startswith("Nothing was proved")
