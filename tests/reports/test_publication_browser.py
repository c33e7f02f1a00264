"""The published pages in a real browser, from files, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from harness.studies.publication import publish
from tests.reports import axe, publications
from tests.reports.watched import watched

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
LOCK_PAGES = ("index.html", "locks/redis-token.html", "locks/redis-py-lock.html", "locks/redlock.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    publish(folder / "site", store=publications.make(folder / "store"))
    return folder / "site"


@pytest.fixture
def opened(browser: Browser, site: Path) -> Iterator[Open]:
    """Return a function that opens a page, which must send no request and log no complaint."""
    with watched(browser) as (open_page, requests):
        yield lambda path, *looks, **more: open_page((site / path).as_uri(), *looks, **more)
    assert [url for url in requests if not url.startswith(site.as_uri())] == []


def visible_locks(page: Page) -> list[str]:
    return page.locator("#row-table tr:visible .name").all_inner_texts()


@pytest.mark.slow
def test_the_index_is_filtered_by_needs_and_its_cells_lead_to_the_runs(opened: Open) -> None:
    page = opened("index.html", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.select_option("#filter-service", "Redis")
    assert page.locator("#filter-shown").inner_text().endswith("of 94 locks")
    page.get_by_label("no fault").check()
    assert visible_locks(page) == ["redis-getset"]  # the only lock with a run without faults that found no violation
    page.get_by_label("client pause").check()
    assert visible_locks(page) == []
    page.get_by_label("client pause").uncheck()
    page.get_by_label("no fault").uncheck()
    page.fill("#filter-text", "read")
    page.select_option("#filter-service", "")
    page.get_by_label("read-write").check()
    assert visible_locks(page) == ["kazoo-read-write-lock"]
    page.get_by_label("read-write").uncheck()
    page.fill("#filter-text", "redis-token-getdel")
    cell = page.locator("#row-table tr:visible td a").get_by_text("broken")
    cell.click()
    page.wait_for_url("**/locks/redis-token-getdel.html#need-client-pause")
    assert "Two clients held k0" in page.locator("#need-client-pause").inner_text()


@pytest.mark.slow
def test_the_index_is_sorted_by_cost(opened: Open) -> None:
    page = opened("index.html")
    page.select_option("#filter-order", "cost")
    assert set(visible_locks(page)[:2]) == {"redis-token", "redlock"}


@pytest.mark.slow
@pytest.mark.parametrize("path", LOCK_PAGES)
@pytest.mark.parametrize("width", [390, 800, 1280])
def test_a_page_fits_every_width(opened: Open, path: str, width: int) -> None:
    page = opened(path, width=width)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
@pytest.mark.parametrize("path", LOCK_PAGES)
def test_a_page_has_no_fault_in_any_look(browser: Browser, site: Path, path: str) -> None:
    assert axe.in_every_look(browser, (site / path).as_uri()) == []
