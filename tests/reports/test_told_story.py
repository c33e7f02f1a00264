"""The story of a hunt's finding in the report of its run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.reports import run_report
from tests.reports.opened import CANVAS, wait_until
from tests.reports.test_browser import first_red_row
from tests.reports.test_run_page import Page as Parsed
from tests.reports.watched import watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

STEPS = (
    (0.0, "c3 is cut off from n4 and n5"),
    (14.5, "c3 acquires k0 on n1, n2 and n3"),
    (14.55, "n3's wall clock jumps +3 s, just after c3's read: c3's key is lost there (but remains on n1 and n2)"),
    (14.592, "c1 acquires k0 on n3, n4 and n5"),
)
ENDING = "Both hold k0 from 14.592 s to 14.605 s."


def report_with_story(folder: Path, steps: tuple[tuple[float, str], ...] = STEPS) -> Path:
    """Return the report of the run in ``folder`` with this story."""
    path = folder / "results.json"
    results: dict[str, Any] = json.loads(path.read_text())
    numbered = [{"number": number, "at": at, "text": text} for number, (at, text) in enumerate(steps, 1)]
    path.write_text(json.dumps({**results, "story": {"steps": numbered, "ending": ENDING}}))
    return run_report.write(folder)


def test_the_steps_directly_follow_the_verdict(folder: Path) -> None:
    page = Parsed(report_with_story(folder).read_text())
    begin = page.words.index("How it breaks")
    assert begin < page.words.index("Lock"), "before what the run was of"
    assert page.words[begin + 1 : begin + 5] == ["0.000 s", STEPS[0][1], "14.500 s", STEPS[1][1]]
    assert page.words[begin + 9] == ENDING


def test_a_run_without_a_story_has_no_heading_for_it(folder: Path) -> None:
    assert "How it breaks" not in run_report.write(folder).read_text()


def test_text_of_a_step_is_escaped(folder: Path) -> None:
    text = report_with_story(folder, ((0.5, "<script>alert(1)</script> & so on"),)).read_text()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; so on" in text


@pytest.mark.browser
@pytest.mark.slow
def test_the_violation_is_in_view_under_a_story_of_eight_steps(folder: Path, browser: Browser) -> None:
    report = report_with_story(folder, (*STEPS, *STEPS))
    with watched(browser) as (open_page, _):
        page = open_page(report.as_uri(), 1280, "light")
        wait_until(page, "performance.getEntriesByName('timeline-painted').length > 0")
        box = page.locator(CANVAS).bounding_box()
        assert box is not None
        assert page.locator("ol.steps li").count() == 8
        assert box["y"] + first_red_row(page) < 800, "the reader has to scroll to what broke"
