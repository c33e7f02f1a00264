"""The pages of a nightly run and of the trends in a real browser, from a file, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from harness.reports import nightly_report, trends_report
from harness.studies.trends import trends
from tests.reports import nights
from tests.reports.watched import watched

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
KINDS = ("nightly", "trends")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return both pages, and a run that the first one links to."""
    store = tmp_path_factory.mktemp("store")
    run = store / "redlock" / "20261121T020000Z-0"
    run.mkdir(parents=True)
    (run / "report.html").write_text("<title>the run</title>")
    document = nights.explored()
    for one in document["outcomes"]:
        one["folder"] = one["folder"] and str(run)
    for day in (20, 21):
        nights.add(store / "results.db", {**document, "started_at": f"2026-11-{day}T02:00:00Z"})
    return {
        "nightly": nightly_report.write(nights.read(document), store / "nightly"),
        "trends": trends_report.write(trends(store / "results.db", last=14), store / "trends.html"),
    }


@pytest.fixture
def opened(browser: Browser, pages: dict[str, Path]) -> Iterator[Open]:
    """Return a function: ``opened(kind, width=...)`` is a page that must send no request and log no complaint."""
    with watched(browser) as (open_page, requests):
        yield lambda kind, *looks, **more: open_page(pages[kind].as_uri(), *looks, **more)
    assert [url for url in requests if url not in {path.as_uri() for path in pages.values()}] == []


def visible_names(page: Page) -> list[str]:
    return page.locator("#row-table tr:visible .name").all_inner_texts()


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 400])
def test_both_pages_open_and_fit_every_width(opened: Open, kind: str, width: int) -> None:
    page = opened(kind, width=width)
    assert page.locator("h1").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#row-table").evaluate("(e) => e.closest('.scroll').scrollWidth") <= width
    first = page.locator(".verdict").bounding_box()
    assert first is not None
    assert first["y"] < 100


@pytest.mark.slow
def test_rows_are_filtered_by_words_and_state(opened: Open) -> None:
    page = opened("nightly")
    rows = ["clock-jump-redlock", "failover-lost-lock", "ttl-pause-write"]
    assert visible_names(page) == rows
    page.fill("#filter-text", "REDIS pause")
    assert visible_names(page) == ["ttl-pause-write"]
    assert page.locator("#filter-shown").inner_text() == "1 of 3 rows"
    page.fill("#filter-text", "")
    page.select_option("#filter-state", "not-run")
    assert visible_names(page) == ["failover-lost-lock"]
    page.select_option("#filter-state", "")
    assert visible_names(page) == rows


@pytest.mark.slow
def test_trends_can_be_filtered_on_a_narrow_screen(opened: Open) -> None:
    page = opened("trends", width=400)
    page.fill("#filter-text", "redlock-fenced docker")
    assert visible_names(page) == ["redlock-fenced"]


def test_a_failed_outcome_links_to_its_run(opened: Open, pages: dict[str, Path]) -> None:
    page = opened("nightly")
    href = page.get_by_role("link", name="Run in").evaluate("(a) => a.href")
    assert href == (pages["nightly"].parents[1] / "redlock/20261121T020000Z-0/report.html").as_uri()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_dark_mode_is_dark_and_readable(opened: Open, kind: str) -> None:
    page = opened(kind, scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 22, 26)"
    field = page.evaluate("(e => [e.color, e.backgroundColor])(getComputedStyle(document.querySelector('input')))")
    assert field == ["rgb(231, 233, 236)", "rgb(26, 30, 35)"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_control_has_a_name(opened: Open, kind: str) -> None:
    page = opened(kind)
    unnamed = page.evaluate(
        """[...document.querySelectorAll('a, input, select, [tabindex], [role=img], section, article')]
        .filter((e) => !(e.ariaLabel || e.getAttribute('aria-labelledby') || e.innerText.trim())).length"""
    )
    assert unnamed == 0
