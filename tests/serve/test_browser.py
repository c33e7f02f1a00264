"""The pages in a real browser, from a real server on the loopback."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import pytest
from playwright.sync_api import Browser, Page, expect

from harness.reports import run_report
from tests.reports import axe, sample
from tests.serve import stores
from tests.serve.asking import serve_store
from tests.serve.watching import watched

pytestmark = pytest.mark.browser
RUN = f"/runs/redlock/{stores.name(0)}/"
LISTS = ("/comparisons/", "/sweeps/", "/hunts/", "/bisections/", "/versions/")
PAGES = ("/", "/?verdict=invalid&sort=-operations", "/?text=no+fit", RUN, *LISTS, "/trends", "/no")


@pytest.fixture(scope="module")
def base(store: Path) -> Iterator[str]:
    with serve_store(store) as address:
        yield address


@pytest.fixture
def page(browser: Browser, base: str) -> Iterator[Page]:
    with watched(browser, base, 1280) as opened:
        yield opened


def row_count(page: Page) -> int:
    return page.locator("table.runs tbody tr").count()


def query(page: Page) -> str:
    return urlparse(page.url).query


@pytest.mark.slow
def test_a_choice_filters_at_once_and_changes_the_address(page: Page) -> None:
    page.goto("/")
    page.get_by_label("Verdict").select_option("Violation")
    expect(page.locator(".found")).to_have_text(re.compile("1 to 83 of 83 runs that match, 250 in the store"))
    page.get_by_label("Lock", exact=True).select_option("redlock")
    expect(page.locator(".found")).to_have_text(re.compile("1 to 16 of 16 runs"))
    assert query(page) == "verdict=invalid&lock=redlock"
    assert page.get_by_label("Lock", exact=True).input_value() == "redlock"
    page.get_by_label("Text").fill("number 100.")
    page.keyboard.press("Enter")
    page.wait_for_url("**text=*")


@pytest.mark.slow
def test_columns_can_be_sorted_and_pages_turned(page: Page) -> None:
    page.goto("/?cluster=sim")
    assert row_count(page) == 100
    page.get_by_role("link", name="Next page").click()
    page.wait_for_url("**page=2")
    assert row_count(page) == 25
    page.get_by_role("link", name="Seed").click()
    page.wait_for_url("**sort=seed")
    assert query(page) == "cluster=sim&sort=seed"
    assert page.locator("table.runs tbody tr").first.locator("td").nth(5).inner_text() == "0"
    page.get_by_role("link", name="Seed").click()
    page.wait_for_url("**sort=-seed")
    assert page.locator("th[aria-sort=descending]").inner_text() == "Seed ↓"
    page.get_by_label("Fault").select_option("none")
    page.wait_for_url("**fault=none*")
    assert "sort=-seed" in query(page)  # a filter keeps the order
    page.get_by_role("link", name="Show all").first.click()
    page.wait_for_url("**/")
    assert row_count(page) == 100


@pytest.mark.slow
def test_runs_can_be_filtered_by_day(page: Page) -> None:
    page.goto("/")
    page.get_by_label("From (UTC)").fill("2026-11-02")
    expect(page.locator("table.runs tbody tr")).to_have_count(44)
    assert query(page) == "since=2026-11-02"


@pytest.mark.slow
def test_pages_work_without_scripts(browser: Browser, base: str) -> None:
    context = browser.new_context(base_url=base, java_script_enabled=False)
    page = context.new_page()
    page.goto("/")
    page.get_by_label("Verdict").select_option("Unknown")
    page.get_by_role("button", name="Filter").click()
    assert "verdict=unknown" in page.url
    assert page.locator(".found").inner_text() == "1 to 83 of 83 runs that match, 250 in the store"
    context.close()


@pytest.mark.slow
def test_a_run_links_to_its_report_whose_script_and_links_work(page: Page) -> None:
    page.goto(f"/?text={stores.name(5)}")
    page.locator("td.when a").click()
    page.get_by_role("link", name="Open the report").click()
    page.wait_for_url("**/report.html")
    assert page.locator("#said").inner_text() == "its script ran"
    page.locator("#other").click()
    page.wait_for_url(f"**/store/redlock/{stores.name(0)}/report.html")


@pytest.mark.slow
def test_a_report_has_an_origin_of_its_own(browser: Browser, base: str) -> None:
    page = browser.new_page()
    page.goto(f"{base}/store/redlock/{stores.name(0)}/report.html")
    assert page.evaluate("origin") == "null"
    assert page.evaluate("fetch('/').then(() => 'read', () => 'refused')") == "refused"
    page.close()


@pytest.mark.slow
def test_a_real_report_works_when_served(browser: Browser, tmp_path: Path) -> None:
    run_report.write(sample.write(tmp_path / "redlock" / "20261121T040000Z-7", "violation"))
    with serve_store(tmp_path) as base:
        page = browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{base}/store/redlock/20261121T040000Z-7/report.html")
        assert page.locator("h1").inner_text() == "Violation found"
        expect(page.locator("#timeline-canvas[data-until]")).to_be_visible()
        assert complaints == []
        page.close()


@pytest.mark.slow
def test_the_zip_can_be_downloaded(page: Page, store: Path) -> None:
    page.goto(f"/runs/redlock/{stores.name(0)}/")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download all files").click()
    assert download.value.suggested_filename == f"redlock-{stores.name(0)}.zip"
    with zipfile.ZipFile(io.BytesIO(Path(download.value.path()).read_bytes())) as archive:
        assert len(archive.namelist()) == 4


@pytest.mark.slow
def test_a_stored_picture_runs_no_script(browser: Browser, tmp_path: Path) -> None:
    run = stores.add(tmp_path, 0)
    script = "<script>document.documentElement.id = 'ran'</script>"
    (run / "x.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg"><text>seen</text>{script}</svg>')
    with serve_store(tmp_path) as base:
        page = browser.new_page()
        page.goto(f"{base}/store/redlock/{run.name}/x.svg")
        assert page.evaluate("[document.documentElement.tagName, document.documentElement.id]") == ["svg", ""]
        page.close()


@pytest.mark.slow
@pytest.mark.parametrize("target", PAGES)
def test_pages_fit_every_width_and_are_accessible(browser: Browser, base: str, target: str) -> None:
    assert axe.in_every_look(browser, base + target) == []
    for width in (400, 1280):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(base + target)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("h1").count() == 1
        page.close()
