"""The page of a comparison in a real browser, from a file, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from harness.reports import comparison
from tests.reports import axe, comparisons

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the sample, in a store with a run that it links to."""
    store = tmp_path_factory.mktemp("store")
    run = store / comparisons.run_of("redlock").removeprefix("../../")
    run.mkdir(parents=True)
    (run / "report.html").write_text("<title>the run</title>")
    found = comparisons.sample()
    found["locks"][2]["cells"]["kill"] |= {"runs": 15, "counts": {"unavailable": 13}}
    return comparison.write(comparisons.write(store / "comparisons" / "20261121T200000Z", found))


@pytest.fixture
def opened(browser: Browser, written: Path) -> Iterator[Open]:
    """Return a function: ``opened(width=..., scheme=...)`` is the page, which must send no request and log no
    complaint."""
    requests: list[str] = []
    complaints: list[str] = []
    contexts: list[BrowserContext] = []

    def open_page(width: int = 1280, scheme: str = "light", anchor: str = "") -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(written.as_uri() + anchor)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [url for url in requests if not url.startswith(written.as_uri())] == []
    assert complaints == []


def visible_names(page: Page) -> list[str]:
    return page.locator("#row-table tr:visible .name").all_inner_texts()


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_opens_with_the_answer_and_fits_every_width(opened: Open, width: int) -> None:
    page = opened(width=width)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    pick = page.locator(".pick").first.bounding_box()
    assert pick is not None
    assert pick["y"] < 500
    assert page.locator(".answers .card").count() == 3


def test_tables_of_costs_show_all_their_columns_on_a_usual_screen(opened: Open) -> None:
    page = opened(width=1280)
    for name in ("Cheapest locks for each situation, table", "Costs, table"):
        hidden = page.get_by_role("group", name=name).evaluate("(e) => e.scrollWidth - e.clientWidth")
        assert hidden <= 0, name


def test_the_matrix_scrolls_under_fixed_names_and_faults(opened: Open) -> None:
    page = opened(width=400)
    page.set_viewport_size({"width": 400, "height": 500})
    region = page.locator(".matrix")
    region.evaluate("(e) => e.scrollTo(300, 200)")
    assert region.evaluate("(e) => [e.scrollLeft > 200, e.scrollTop > 150]") == [True, True]
    at = region.evaluate(
        """(e) => { const box = e.getBoundingClientRect(), name = e.querySelector('tbody th').getBoundingClientRect(),
        head = e.querySelector('thead th:last-child').getBoundingClientRect();
        return [name.left - box.left, head.top - box.top]; }"""
    )
    assert all(abs(distance) < 3 for distance in at)


def test_the_matrix_fades_at_an_edge_that_hides_columns(opened: Open) -> None:
    page = opened(width=400)
    beyond = "() => document.querySelector('.matrix').classList.contains('beyond')"
    page.wait_for_function(beyond)
    page.eval_on_selector(".matrix", "box => { box.scrollLeft = box.scrollWidth; }")
    page.wait_for_function(beyond.replace("document", "!document"))
    assert not opened(width=1280).evaluate(beyond)


def test_a_long_name_wraps_only_between_its_parts(browser: Browser, tmp_path: Path) -> None:
    found = comparisons.document(comparisons.lock("package.mylock:MyLockOfTheHouse", "ssssss"))
    page = browser.new_page(viewport={"width": 400, "height": 900})
    page.goto(comparison.write(comparisons.write(tmp_path, found)).as_uri())
    lines = """box => {
      const range = document.createRange(), tops = [];
      for (const node of box.querySelector("a").childNodes) if (node.nodeType === 3) {
        range.selectNode(node);
        tops.push(new Set([...range.getClientRects()].map(one => one.top)).size);
      }
      return tops;
    }"""
    assert page.eval_on_selector("#row-table .name", lines) == [1, 1, 1]
    page.close()


def test_the_head_of_the_matrix_stays_on_a_wide_screen(opened: Open) -> None:
    page = opened()
    page.set_viewport_size({"width": 1280, "height": 400})
    page.locator("#row-table tr").last.scroll_into_view_if_needed()
    head = page.locator(".matrix thead th").first.bounding_box()
    assert head is not None
    assert head["y"] == pytest.approx(0, abs=1)


def test_the_text_of_a_cell_fits_into_it(opened: Open) -> None:
    page = opened()
    assert page.get_by_text("13 of 15", exact=True).is_visible()
    wide = "[...document.querySelectorAll('.matrix td')].filter((e) => e.scrollWidth > e.clientWidth).length"
    assert page.evaluate(wide) == 0


def test_rows_are_filtered_by_words_and_state(opened: Open) -> None:
    page = opened()
    assert len(visible_names(page)) == 12
    page.fill("#filter-text", "REDIS setn")
    assert visible_names(page) == ["redis-setnx"]
    assert page.locator("#filter-shown").inner_text() == "1 of 12 rows"
    page.fill("#filter-text", "")
    page.select_option("#filter-state", "not-run")
    assert visible_names(page) == ["mysql-for-update", "mysql-ttl", "memcached-add"]


def test_a_cell_links_to_its_run(opened: Open, written: Path) -> None:
    page = opened()
    cell = page.locator("#row-table tr", has=page.get_by_text("redlock", exact=True)).locator("td a").first
    wanted = written.parent / comparisons.run_of("redlock") / "report.html"
    assert cell.evaluate("(a) => a.href") == wanted.resolve().as_uri()


def test_a_tooltip_shows_the_findings_for_mouse_and_keyboard(opened: Open) -> None:
    page = opened()
    tip, cells = page.locator(".tip"), page.locator("#row-table td a")
    assert tip.is_hidden()
    cells.nth(0).hover()
    assert tip.inner_text() == comparisons.WHY["fenced"]
    page.mouse.move(2, 2)
    assert tip.is_hidden()
    cells.nth(0).focus()
    page.keyboard.press("Tab")
    assert tip.inner_text() == comparisons.WHY["safe"]
    page.keyboard.press("Escape")
    assert tip.is_hidden()


def test_a_locks_name_unfolds_its_findings(opened: Open) -> None:
    page = opened()
    command = page.get_by_text("harness run redis-fenced --nemesis kill --cluster sim --seed 0")
    assert command.is_hidden()
    page.locator(".pick a").first.press("Enter")
    page.wait_for_function("location.hash !== ''")
    assert command.is_visible()
    assert opened(anchor="#why-5-3").get_by_text(comparisons.WHY["not-run"]).first.is_visible()


def test_scrolling_tables_can_be_reached_by_keyboard(opened: Open) -> None:
    page = opened(width=400)
    stuck = page.evaluate(
        """[...document.querySelectorAll('.scroll, .plot')].filter((e) => e.tabIndex < 0)
        .filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.className)"""
    )
    assert stuck == []


def test_the_page_has_no_serious_accessibility_fault(browser: Browser, written: Path) -> None:
    assert axe.in_every_look(browser, written.as_uri()) == []
