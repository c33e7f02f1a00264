"""The report of a bisection: for an issue tracker and as a page."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser

from harness import documents
from harness.documents import BisectDocument, load_bisect
from harness.documents.bisect import BisectChangelog, BisectQuestion, BisectTrial
from harness.documents.story import Story, StoryStep
from harness.plan import Plan
from harness.reports import bisect_report, markdown
from tests.reports import axe
from tests.reports.watched import watched

TRIALS = (
    BisectTrial(version="2.10.6", outcome="bad", runs=1, seed=3, invalid=("mutual-exclusion",),
                summary="Two clients held k0 at the same time.", seconds=2.5),
    BisectTrial(version="3.2.0", outcome="good", runs=3, seconds=3.0),
    BisectTrial(version="3.0.1", outcome="missing", reason="no wheel | for <this> Python", seconds=1.0),
    BisectTrial(version="3.0.0", outcome="good", runs=3, seconds=2.0),
)  # fmt: skip


def document(**changes: object) -> BisectDocument:
    found = BisectDocument(
        schema=1,
        lock="redis-py-lock",
        package="redis",
        good="3.2.0",
        bad="2.10.6",
        question=BisectQuestion(plan=Plan(lock="redis-py-lock"), look_for=("mutual-exclusion",), seeds=(3,)),
        releases=("2.10.6", "3.0.0", "3.0.1", "3.1.0", "3.2.0"),
        trials=TRIALS,
        first_changed="3.0.0",
        before="2.10.6",
        remaining=("3.0.0",),
        conclusion="redis 3.0.0 fixed the failure; 2.10.6 is the last release before it.",
        story=Story(steps=(StoryStep(number=1, at=0.5, text="c0 releases `k0`"),), ending="Both hold k0 for 1.4 s."),
        story_version="2.10.6",
        changelog=BisectChangelog(source="redis-3.0.0.tar.gz: CHANGES", lines=("* 3.0.0", "    ```", "    * Lock"),
                                  omitted=7),
        repeat=("harness replay run --with 'redis==2.10.6'",),
        versions={"python": "3.11.7", "kazoo": None},
        command="harness bisect redis-py-lock",
        started_at="2026-11-21T20:00:00Z",
    )  # fmt: skip
    return msgspec.structs.replace(found, **changes)


def text(**changes: object) -> str:
    return bisect_report.text(bisect_report.read(document(**changes)))


def test_the_markdown_has_all_that_an_issue_needs() -> None:
    lines = text().splitlines()
    assert lines[0] == "# redis-py-lock: redis 3.0.0 fixes a failure"
    assert lines[2].startswith("redis 3.0.0 fixed the failure; 2.10.6 is the last release")
    assert lines[4] == "With redis 2.10.6: Two clients held k0 at the same time."
    assert "| 2.10.6 | the failure happens | mutual-exclusion, seed 3 | 2.5 s |" in lines
    assert "| **3.0.0** | no failure |  | 2.0 s |" in lines
    assert "1 of the 5 releases did not need to be tried." in lines
    assert "1. 0.500 s c0 releases \\`k0\\`" in lines
    assert "Both hold k0 for 1.4 s." in lines
    assert "harness replay run --with 'redis==2.10.6'" in lines
    assert "7 more lines are left out." in lines
    assert "- python 3.11.7" in lines
    assert "- found with `harness bisect redis-py-lock`" in lines


def test_releases_are_listed_in_their_order() -> None:
    rows = [line.split("|")[1].strip(" *") for line in text().splitlines() if line.startswith("| ")]
    assert rows == ["release", "---", "2.10.6", "3.0.0", "3.0.1", "3.2.0"]


def test_texts_of_strangers_do_not_become_markup() -> None:
    assert "| no wheel \\| for \\<this\\> Python |" in text()
    lines = text().splitlines()
    start = lines.index("````text")
    assert lines[start + 1 : start + 5] == ["* 3.0.0", "    ```", "    * Lock", "````"]


def test_inline_code_may_contain_backticks() -> None:
    assert markdown.code("a\nb") == "`a b`"
    assert markdown.code("a ``b`` c") == "``` a ``b`` c ```"


def test_a_range_that_is_left_is_named() -> None:
    view = bisect_report.read(document(first_changed=None, remaining=("3.0.0", "3.0.1")))
    assert view.title == "redis-py-lock: a failure changes between redis 2.10.6 and 3.0.1"
    assert view.judgement == "unknown"


def test_a_release_that_introduced_a_failure_is_bad_news() -> None:
    view = bisect_report.read(document(good="2.10.6", bad="3.2.0"))
    assert view.title == "redis-py-lock: redis 3.0.0 introduces a failure"
    assert view.judgement == "invalid"


def test_without_story_and_changelog_there_are_no_empty_sections() -> None:
    short = text(story=Story(), changelog=None, repeat=(), command="")
    assert [line for line in short.splitlines() if line.startswith("#")] == [
        "# redis-py-lock: redis 3.0.0 fixes a failure", "## Releases", "## Versions",
    ]  # fmt: skip


def test_a_document_is_stored_and_read_again(tmp_path: Path) -> None:
    (tmp_path / "bisect.json").write_bytes(documents.indented(document()))
    assert load_bisect(tmp_path / "bisect.json") == document()


CHANGES: list[dict[str, object]] = [{}, {"first_changed": None, "interrupted": True, "story": Story(), "repeat": ()}]


@pytest.mark.slow
@pytest.mark.parametrize("changes", CHANGES)
def test_the_page_shows_the_result(tmp_path: Path, browser: Browser, changes: dict[str, object]) -> None:
    path = bisect_report.write(document(**changes), tmp_path)
    assert (tmp_path / "bisect.md").read_text() == text(**changes)
    with watched(browser) as (open_page, requests):
        page = open_page(path.as_uri())
        assert page.locator("h1").inner_text() == bisect_report.read(document(**changes)).title
        assert page.locator("tbody tr").count() >= len(TRIALS)
    assert requests == [path.as_uri()]


@pytest.mark.slow
@pytest.mark.parametrize("changes", CHANGES)
def test_the_page_is_accessible(tmp_path: Path, browser: Browser, changes: dict[str, object]) -> None:
    assert axe.in_every_look(browser, bisect_report.write(document(**changes), tmp_path).as_uri()) == []
