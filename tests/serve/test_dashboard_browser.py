"""The live list of runs, the status of locks and two runs side by side, in a real browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.reports import axe, nights
from tests.serve import stores
from tests.serve.asking import serve_store
from tests.serve.watching import watched

pytestmark = pytest.mark.browser


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A store of three runs and two nightly runs, and the address of a server that shows it."""
    stores.fill(tmp_path, 3)
    stores.add(tmp_path, 5)
    for day in (20, 21):
        nights.add(tmp_path / "results.db", {**nights.explored(), "started_at": f"2026-11-{day}T02:00:00Z"})
    with serve_store(tmp_path) as base:
        yield tmp_path, base


@pytest.mark.slow
def test_a_new_run_appears_in_the_open_list_and_the_filter_is_kept(
    browser: Browser, dashboard: tuple[Path, str]
) -> None:
    store, base = dashboard
    with watched(browser, base, 1280) as page:
        page.goto("/?lock=redlock")
        expect(page.locator("#list-live")).to_have_text("Updates by itself")
        expect(page.locator("table.runs tbody tr")).to_have_count(2)
        page.locator("table.runs tbody tr a").first.focus()
        focused = page.evaluate("document.activeElement.getAttribute('href')")
        stores.add(store, 10)
        stores.add(store, 11)
        expect(page.locator("table.runs tbody tr")).to_have_count(3, timeout=60_000)
        expect(page.locator("#list-conclusion")).to_have_text(re.compile("^[56] runs: "))
        assert page.evaluate("document.activeElement.getAttribute('href')") == focused
        page.get_by_label("Text").fill("half typed")
        shutil.rmtree(store / "redlock" / stores.name(10))
        expect(page.locator("table.runs tbody tr")).to_have_count(2, timeout=60_000)
        assert page.get_by_label("Text").input_value() == "half typed"


@pytest.mark.slow
def test_the_lists_of_runs_and_locks_have_no_accessibility_fault_when_dark_and_narrow(
    browser: Browser, dashboard: tuple[Path, str]
) -> None:
    _, base = dashboard
    assert axe.in_hardest_look(browser, base + "/", base + "/status") == []


@pytest.mark.slow
def test_text_of_a_new_run_runs_no_script(browser: Browser, dashboard: tuple[Path, str]) -> None:
    store, base = dashboard
    with watched(browser, base, 1280) as page:
        page.goto("/")
        expect(page.locator("#list-live")).to_have_text("Updates by itself")
        folder = stores.add(store, 7)
        evil = "<img src=x onerror=\"document.title='ran'\"><script>document.title='ran'</script>"
        document = stores.results(7) | {"lock": evil, "summary": evil}
        (folder / "results.json").write_text(json.dumps(document))
        expect(page.get_by_role("rowheader", name=evil)).to_be_visible(timeout=60_000)
        assert page.locator("main img, main script").count() == 0
        assert page.title() == "Runs · harness"


@pytest.mark.slow
def test_explanations_of_checkers_have_the_whole_width_of_a_narrow_screen(
    browser: Browser, dashboard: tuple[Path, str]
) -> None:
    _, base = dashboard
    with watched(browser, base, 390) as page:
        page.goto(f"/runs/redlock/{stores.name(0)}/")
        row, why = page.locator("table.checkers tbody tr").first, page.locator("table.checkers td:last-child").first
        assert why.evaluate("(e) => e.offsetWidth") == row.evaluate("(e) => e.clientWidth")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["/", "/status", "/status?state=kept", "/compare", "run"])
def test_the_dashboard_is_accessible_and_fits_every_width(
    browser: Browser, dashboard: tuple[Path, str], target: str
) -> None:
    _, base = dashboard
    pair = f"/compare?a=redlock/{stores.name(0)}&b=redlock/{stores.name(5)}"
    address = {"/compare": pair, "run": f"/runs/redlock/{stores.name(0)}/"}.get(target, target)
    assert axe.in_every_look(browser, base + address) == []
    for width in (390, 800, 1280):
        with watched(browser, base, width) as page:
            page.goto(address)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator("h1").count() == 1
