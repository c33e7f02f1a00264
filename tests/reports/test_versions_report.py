"""The report of a differential study: Markdown and a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser

from harness import documents
from harness.documents import VersionsDocument, load_versions
from harness.documents.story import Story, StoryStep
from harness.documents.versions import VersionCell, VersionDifference, VersionPlan, VersionRun
from harness.plan import Plan
from harness.reports import versions_report
from tests.reports import axe
from tests.reports.watched import watched

DIFFERENCE = VersionDifference(
    plan="slow-link", checker="mutual-exclusion", fails_in=("2.10.6",), holds_in=("3.5.3",), version="2.10.6", seed=4,
    summary="Two clients held k0.", sentence="mutual-exclusion fails with 2.10.6, and holds with 3.5.3.",
    story=Story(steps=(StoryStep(number=1, at=1.0, text="c0 releases k0"),), ending="Both hold k0."),
)  # fmt: skip
DOCUMENT = VersionsDocument(
    schema=1, lock="redis-py-lock", package="redis", releases=("2.10.6", "3.5.3", "9.9"),
    plans=(VersionPlan(name="slow-link", plan=Plan(lock="redis-py-lock")),),
    cells=(
        VersionCell(version="2.10.6", plan="slow-link", state="violated",
                    runs=(VersionRun(seed=4, invalid=("mutual-exclusion",)), VersionRun(seed=5))),
        VersionCell(version="3.5.3", plan="slow-link", state="valid", runs=(VersionRun(seed=4), VersionRun(seed=5))),
        VersionCell(version="9.9", plan="slow-link", state="missing", reason="no such release"),
    ),
    differences=(DIFFERENCE,), common=(replace(DIFFERENCE, checker="liveness", holds_in=()),),
    conclusion="redis: 1 failure differs between releases.", versions={"python": "3.11.7"}, command="harness run x",
)  # fmt: skip


def test_the_markdown_has_the_table_and_the_stories() -> None:
    lines = versions_report.text(versions_report.read(DOCUMENT)).splitlines()
    assert lines[0] == "# redis-py-lock with 3 releases of redis"
    assert "| plan | 2.10.6 | 3.5.3 | 9.9 |" in lines
    assert "| slow-link | violated: mutual-exclusion; 1 of 2 runs | valid | cannot be installed |" in lines
    assert lines.index("## What differs") < lines.index("### slow-link: mutual-exclusion")
    assert lines.index("## The same in every release") < lines.index("### slow-link: liveness")
    assert "With 2.10.6 and seed 4: Two clients held k0." in lines
    assert "1. 1.000 s c0 releases k0" in lines
    assert "- slow-link, 9.9: no such release" in lines
    assert "- found with `harness run x`" in lines


def test_a_result_that_was_not_reached_is_named_so() -> None:
    view = versions_report.read(replace(DOCUMENT, cells=DOCUMENT.cells[:1], interrupted=True))
    assert [one.word for one in view.rows[0][1]] == ["violated", "not run", "not run"]


def test_without_a_failure_unknown_results_decide_the_colour() -> None:
    calm = replace(DOCUMENT, differences=(), common=())
    assert versions_report.read(calm).judgement == "unknown"
    assert versions_report.read(replace(calm, cells=calm.cells[1:2])).judgement == "valid"
    assert versions_report.read(DOCUMENT).judgement == "invalid"


def test_a_document_is_stored_and_read_again(tmp_path: Path) -> None:
    (tmp_path / "versions.json").write_bytes(documents.indented(DOCUMENT))
    assert load_versions(tmp_path / "versions.json") == DOCUMENT


@pytest.mark.slow
def test_the_page_shows_the_result(tmp_path: Path, browser: Browser) -> None:
    path = versions_report.write(DOCUMENT, tmp_path)
    with watched(browser) as (open_page, requests):
        page = open_page(path.as_uri())
        assert page.locator("td .pill").count() == len(DOCUMENT.releases)
        assert page.locator("article h3").all_inner_texts() == ["slow-link: mutual-exclusion", "slow-link: liveness"]
    assert requests == [path.as_uri()]


@pytest.mark.slow
def test_the_page_is_accessible(tmp_path: Path, browser: Browser) -> None:
    assert axe.in_every_look(browser, versions_report.write(DOCUMENT, tmp_path).as_uri()) == []
