"""The page in a real browser, from a file, with no network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
Reported = Callable[[str], Path]
Open = Callable[..., Page]
CANVAS = "#timeline-canvas"


def wait_until(page: Page, condition: str) -> None:
    """Wait, frame by frame; playwright's own way needs ``eval``, which the page forbids."""
    frame = f"(() => {{ const look = () => {condition} ? done() : requestAnimationFrame(look); look(); }})()"
    page.evaluate(f"() => new Promise((done) => {frame})")


@pytest.fixture
def opened(browser: Browser, reported: Reported) -> Iterator[Open]:
    """``opened(kind, width=...)`` is a report in a page that, to its end, asks for nothing and complains of nothing."""
    requests: list[str] = []
    complaints: list[str] = []
    contexts = []

    def open_report(kind: str, width: int = 1280, scheme: Any = "light") -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(reported(kind).as_uri())
        wait_until(page, "performance.getEntriesByName('timeline-painted').length > 0")
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert all(url.startswith("file://") for url in requests)
    assert len(requests) == len(contexts)
    assert complaints == []


def view(page: Page) -> tuple[int, int]:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    from_, until = page.evaluate(
        "[...['from', 'until']].map((n) => Number(document.querySelector('canvas').dataset[n]))"
    )
    return from_, until


PIXELS = """const c = document.querySelector('canvas'), copy = new OffscreenCanvas(c.width, c.height);
const pen = copy.getContext('2d', { willReadFrequently: true }); pen.drawImage(c, 0, 0);
const d = pen.getImageData(0, 0, c.width, c.height).data;"""


def pixel(page: Page, x: int, y: int) -> list[int]:
    """Red, green and blue of one pixel of the canvas."""
    script = f"([x, y]) => {{ {PIXELS} const i = 4 * (y * c.width + x); return [...d.slice(i, i + 3)]; }}"
    return list(page.evaluate(script, [x, y]))


def reddish(page: Page) -> int:
    """How many pixels of the canvas are as red as a violation."""
    red = "n += d[i] > 180 && d[i + 1] < 40 && d[i + 2] < 50"
    return int(page.evaluate(f"() => {{ {PIXELS} let n = 0; for (let i = 0; i < d.length; i += 4) {red}; return n; }}"))


@pytest.mark.parametrize(
    "kind", ["violation", "valid", "unknown", "interrupted", pytest.param("large", marks=pytest.mark.slow)]
)
def test_every_report_opens_without_a_request_or_a_complaint(opened: Open, kind: str) -> None:
    page = opened(kind)
    assert page.locator("h1").is_visible()
    assert page.locator(CANVAS).is_visible()


def test_the_first_violation_is_in_view_at_once(opened: Open) -> None:
    page = opened("violation")
    from_, until = view(page)
    assert from_ < 14_592_588 < until
    assert until - from_ < 5_000_000
    assert reddish(page) > 500
    assert "c3 and c1 both held k0" in page.locator("#timeline-said").inner_text()
    box = page.locator(CANVAS).bounding_box()
    assert box is not None
    assert box["y"] < 900


def test_a_valid_run_shows_the_whole_run_and_nothing_red(opened: Open) -> None:
    page = opened("valid")
    from_, until = view(page)
    assert from_ <= 0
    assert until >= 30_000_000
    assert reddish(page) == 0
    assert page.locator("[data-do=next]").count() == 0


def test_buttons_go_through_the_violations(opened: Open) -> None:
    page = opened("violation")
    first = view(page)
    page.click("[data-do=next]")
    second = view(page)
    assert second[0] > first[0]
    assert page.locator("#timeline-said").inner_text().startswith("2 of 4")
    page.click("[data-do=previous]")
    assert view(page) == first
    page.click("[data-do=whole]")
    assert view(page)[1] >= 30_000_000
    page.locator("[data-violation='2']").click()
    assert view(page) == second


def test_wheel_keys_and_dragging(opened: Open) -> None:
    page = opened("violation")
    page.locator(CANVAS).scroll_into_view_if_needed()
    box = page.locator(CANVAS).bounding_box()
    assert box is not None
    first = view(page)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 150)
    page.mouse.wheel(0, -400)
    closer = view(page)
    assert closer[1] - closer[0] < (first[1] - first[0]) * 0.7
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 - 200, box["y"] + 150)
    page.mouse.up()
    assert view(page)[0] > closer[0]
    page.focus(CANVAS)
    moved = view(page)
    page.keyboard.press("ArrowLeft")
    assert view(page)[0] < moved[0]
    page.keyboard.press("+")
    assert view(page)[1] - view(page)[0] < moved[1] - moved[0]
    page.keyboard.press("Home")
    assert view(page)[1] >= 30_000_000


def test_the_page_scrolls_on_where_there_is_nothing_left_to_zoom_out(opened: Open) -> None:
    page = opened("valid")
    page.locator(CANVAS).hover(position={"x": 300, "y": 100})
    page.mouse.wheel(0, 300)
    wait_until(page, "scrollY > 0")


def test_pointing_at_a_hold_shows_its_entries(opened: Open) -> None:
    page = opened("violation")
    from_, until = view(page)
    canvas = page.locator(CANVAS)
    width = canvas.evaluate("(c) => c.clientWidth")
    x = 64 + (14_650_000 - from_) / (until - from_) * (width - 8 - 64)
    lane = canvas.evaluate("() => AXIS + FAULT_ROW + 6 + 1 * CLIENT_LANE + 20")
    canvas.hover(position={"x": x, "y": lane})
    tip = page.locator("#timeline-tip")
    tip.wait_for(state="visible")
    assert "c1 at 14.6" in tip.inner_text()
    assert "fence 131" in tip.inner_text()
    canvas.hover(position={"x": x, "y": lane + 4 * 46 + 40})
    assert "wall clock of n" in tip.inner_text()
    page.mouse.move(5, 5)
    assert tip.is_hidden()


@pytest.mark.parametrize("kind", ["violation", "unknown", "interrupted"])
def test_nothing_overflows_a_narrow_screen(opened: Open, kind: str) -> None:
    page = opened(kind, width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_dark_mode_is_dark_to_the_last_pixel(opened: Open) -> None:
    page = opened("violation", scheme="dark")
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert body == "rgb(19, 22, 26)"
    assert sum(pixel(page, 2, 2)) < 150
    page.emulate_media(color_scheme="light")
    view(page)
    assert pixel(page, 2, 2) == [255, 255, 255]


def test_everything_to_press_has_a_name_and_shows_its_focus(opened: Open) -> None:
    page = opened("violation")
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button, [tabindex], [role=img], section, figure')]
        .filter((e) => !(e.ariaLabel || e.getAttribute('aria-labelledby') || e.innerText.trim())).length"""
    )
    assert unnamed == 0
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    landmarks = page.evaluate(
        "['header', 'main', 'footer'].map((n) => document.querySelectorAll('body > ' + n).length)"
    )
    assert landmarks == [1, 1, 1]


def test_what_the_canvas_shows_is_there_as_text(opened: Open) -> None:
    page = opened("violation")
    page.get_by_text("The timeline as text").click()
    text = page.locator("details[open]").first.inner_text()
    assert "14.593 s to 14.696 s" in text
    assert all(f"c{i}" in text for i in range(5))


@pytest.mark.slow
def test_a_hundred_thousand_operations_are_quick(opened: Open, reported: Reported) -> None:
    """Prints, and does not judge: the numbers belong in the report of whoever runs it."""
    page = opened("large")
    painted = page.evaluate("performance.getEntriesByName('timeline-painted')[0].startTime")
    frames = page.evaluate(
        """() => { const times = [];
        for (let i = 0; i < 20; i++) { const t = performance.now(); document.querySelector('[data-do=whole]').click();
        times.push(performance.now() - t); } return Math.max(...times); }"""
    )
    size = reported("large").stat().st_size / 1e6
    print(f"\n100,000 operations: file {size:.1f} MB, timeline painted after {painted:.0f} ms, a click {frames:.1f} ms")
    assert int(page.locator("dd", has_text="101,").inner_text().replace(",", "")) >= 100_000
