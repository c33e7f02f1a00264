"""The report page in a real browser, from a file, without a network."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.reports.opened import CANVAS, Open, Reported, view, wait_until

pytestmark = pytest.mark.browser


PIXELS = """const c = document.querySelector('canvas'), copy = new OffscreenCanvas(c.width, c.height);
const pen = copy.getContext('2d', { willReadFrequently: true }); pen.drawImage(c, 0, 0);
const d = pen.getImageData(0, 0, c.width, c.height).data;"""


def pixel(page: Page, x: int, y: int) -> list[int]:
    """Return red, green and blue of one pixel of the canvas."""
    script = f"([x, y]) => {{ {PIXELS} const i = 4 * (y * c.width + x); return [...d.slice(i, i + 3)]; }}"
    return list(page.evaluate(script, [x, y]))


def reddish(page: Page) -> int:
    """Return how many pixels of the canvas are as red as a violation."""
    red = "n += d[i] > 180 && d[i + 1] < 40 && d[i + 2] < 50"
    return int(page.evaluate(f"() => {{ {PIXELS} let n = 0; for (let i = 0; i < d.length; i += 4) {red}; return n; }}"))


def first_red_row(page: Page) -> int:
    """Return how far down the canvas the first violation is drawn."""
    red = "d[i] > 180 && d[i + 1] < 40 && d[i + 2] < 50"
    look = f"for (let i = 0; i < d.length; i += 4) if ({red}) return i / 4 / c.width"
    return int(page.evaluate(f"() => {{ {PIXELS} {look}; return 1e6; }}"))


CUT_IN_PRINT = """[...document.querySelectorAll("main *")].filter((e) => e.className !== "unseen" &&
(e.getBoundingClientRect().right > innerWidth + 1
 || (e.scrollWidth > e.clientWidth + 1 && ["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX))
 || (e.scrollHeight > e.clientHeight + 1 && ["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowY))))
.map((e) => `${e.tagName} ${e.className}`)"""


@pytest.mark.parametrize(
    "kind",
    [
        "violation",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("valid", "unknown", "interrupted", "large")),
    ],
)
def test_every_report_opens_without_requests_or_complaints(opened: Open, kind: str) -> None:
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
    assert box["y"] + first_red_row(page) < 800, "the reader has to scroll to what broke"


@pytest.mark.slow
def test_a_valid_run_shows_the_whole_run_without_red(opened: Open) -> None:
    page = opened("valid")
    from_, until = view(page)
    assert from_ <= 0
    assert until >= 30_000_000
    assert reddish(page) == 0
    assert page.locator("[data-do=next]").count() == 0


@pytest.mark.slow
def test_buttons_step_through_the_violations(opened: Open) -> None:
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
    page.evaluate("shownRun.run.found = 38; showViolation(shownRun, 0);")
    assert page.locator("#timeline-said").inner_text().startswith("1 of 4 shown, of 38 found: c3 and c1")


@pytest.mark.slow
def test_the_view_moves_by_wheel_keys_and_dragging(opened: Open) -> None:
    page = opened("violation")
    page.locator(CANVAS).scroll_into_view_if_needed()
    box = page.locator(CANVAS).bounding_box()
    assert box is not None
    first = view(page)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 150)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["valid", "violation"])
def test_the_plain_wheel_scrolls_the_page_and_keeps_the_view(opened: Open, kind: str) -> None:
    page = opened(kind)
    page.locator(CANVAS).hover(position={"x": 300, "y": 100})
    before, scrolled = view(page), page.evaluate("scrollY")
    page.mouse.wheel(0, 300)
    wait_until(page, f"scrollY > {scrolled} + 200")
    assert view(page) == before
    page.mouse.wheel(0, -150)
    wait_until(page, f"scrollY < {scrolled} + 200")
    assert view(page) == before
    page.locator(CANVAS).hover(position={"x": 300, "y": 100})
    page.keyboard.down("Shift")
    page.mouse.wheel(0, 200)
    page.keyboard.up("Shift")
    assert view(page)[0] > before[0]


@pytest.mark.slow
def test_a_pinch_zooms(opened: Open) -> None:
    """A pinch on a touchpad is a wheel with Ctrl and small steps; two fingers on a screen are two pointers."""
    page = opened("violation")
    first = view(page)
    page.evaluate(
        "() => { const c = document.querySelector('canvas'); for (let i = 0; i < 8; i++)"
        " c.dispatchEvent(new WheelEvent('wheel', { deltaY: -4, ctrlKey: true, cancelable: true, clientX: 500 })); }"
    )
    touchpad = view(page)
    assert touchpad[1] - touchpad[0] < (first[1] - first[0]) * 0.8
    page.evaluate(
        """() => { const c = document.querySelector('canvas'), box = c.getBoundingClientRect();
        c.setPointerCapture = () => {};
        const send = (type, id, x) => c.dispatchEvent(new PointerEvent(type, { pointerId: id, bubbles: true,
          clientX: box.x + x, clientY: box.y + 120, pointerType: 'touch' }));
        send('pointerdown', 1, 400); send('pointerdown', 2, 500);
        for (let x = 500; x <= 800; x += 50) send('pointermove', 2, x);
        send('pointerup', 1, 400); send('pointerup', 2, 800); }"""
    )
    fingers = view(page)
    assert fingers[1] - fingers[0] < (touchpad[1] - touchpad[0]) * 0.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["violation", "unknown", "interrupted"])
def test_the_page_fits_a_narrow_screen(opened: Open, kind: str) -> None:
    page = opened(kind, width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.slow
def test_print_cuts_no_table_chart_or_text(opened: Open) -> None:
    """718 px is the width of a sheet of A4 with the usual margins."""
    page = opened("violation", width=718)
    assert page.evaluate(CUT_IN_PRINT)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate(CUT_IN_PRINT) == []
    for hidden in (".contents", "#timeline-help", "button"):
        assert not page.locator(hidden).first.is_visible(), hidden


@pytest.mark.slow
def test_dark_mode_applies_to_the_canvas(opened: Open) -> None:
    page = opened("violation", scheme="dark")
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert body == "rgb(19, 22, 26)"
    assert sum(pixel(page, 2, 2)) < 150
    page.emulate_media(color_scheme="light")
    view(page)
    assert pixel(page, 2, 2) == [255, 255, 255]


@pytest.mark.slow
def test_every_control_has_a_name_and_shows_its_focus(opened: Open) -> None:
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


@pytest.mark.slow
def test_the_canvas_is_also_available_as_text(opened: Open) -> None:
    page = opened("violation")
    page.get_by_text("The timeline as text").click()
    text = page.locator("details[open]").first.inner_text()
    assert "14.593 s to 14.696 s" in text
    assert all(f"c{i}" in text for i in range(5))


@pytest.mark.slow
def test_the_legend_has_exactly_the_shown_marks(opened: Open) -> None:
    bad, good = (opened(kind).get_by_role("group", name="Legend").inner_text() for kind in ("violation", "valid"))
    for said in ("gone before it expired", "stale, yet accepted", "violation"):
        assert said in bad
        assert said not in good
    for said in ("has the key for a client", "expiry that it announced", "wall clock", "granted"):
        assert said in good


@pytest.mark.slow
def test_servers_and_tokens_are_available_as_text(opened: Open) -> None:
    page = opened("violation")
    page.get_by_text("The timeline as text").click()
    text = page.locator("details[open]").first.inner_text()
    lost = [page.get_by_role("row", name=name).get_by_role("cell").nth(3).inner_text() for name in ("n1", "n2")]
    assert lost == ["0", "3"]
    assert "accepted 3 although stale, and refused 0" in text


FOUND = "const found = await decompress(document.getElementById('run-data').textContent);"


def view_after_update(page: Page, more: int, follow: bool) -> tuple[int, int]:
    """Return the view after the same run is shown again, grown by ``more`` µs."""
    grow = "found.data.end += more; showRun(readRun(found), { follow });"
    page.evaluate(f"async ([more, follow]) => {{ {FOUND} {grow} }}", [more, follow])
    return view(page)


@pytest.mark.slow
def test_an_update_of_the_run_keeps_the_view(opened: Open) -> None:
    page = opened("violation")
    first = view(page)
    assert view_after_update(page, 1_000_000, follow=False) == first
    assert view_after_update(page, 2_000_000, follow=True) == first
    page.click("[data-do=whole]")
    assert view_after_update(page, 3_000_000, follow=True)[1] > 33_000_000
    page.evaluate("setView(shownRun, 30e6, 34e6)")
    left, right = view(page)
    then = view_after_update(page, 9_000_000, follow=True)
    assert then[0] > left
    assert then[1] > 39_000_000
    assert then[1] - then[0] == pytest.approx(right - left, abs=2)
    page.click("[data-do=next]")
    assert page.locator("#timeline-said").inner_text().startswith("2 of 4")


@pytest.mark.slow
def test_a_browser_that_cannot_decompress_shows_why_the_timeline_is_missing(
    browser: Browser, reported: Reported
) -> None:
    page = browser.new_page()
    page.add_init_script("delete globalThis.DecompressionStream")
    page.goto(reported("violation").as_uri())
    said = page.locator("#timeline-said")
    expect(said).to_have_text("The timeline cannot be drawn: DecompressionStream is not defined")
    assert page.get_by_text("The timeline as text").is_visible()
    page.close()


ENDS = """() => {
  setView(shownRun, 14.3e6, 15.2e6);
  const painted = [], fillRect = (x, y, width) => painted.push([context.fillStyle, x + width]);
  const none = () => {}, path = { beginPath: none, moveTo: none, lineTo: none, fill: none, roundRect: none };
  const context = { fillRect, ...path, fillText: none, measureText: () => ({ width: 9 }) };
  const state = { ...shownRun, context }, { right } = state.layout;
  const furthest = (colour) => Math.max(...painted.filter(([one, x]) => one === colour && x < right).map(([, x]) => x));
  drawStays(state, stayLane(state, 1), 0);
  const { stays, holds } = state.run, lane = stayLane(state, 1);
  const row = lane.rows.find((one) => stays.ended[one] === EARLY), next = lane.rows[lane.rows.indexOf(row) + 1];
  const said = xOf(state, stays.start[row] + stays.until[row]);
  const gone = [furthest(state.colours.gone), xOf(state, stays.start[next]), said];
  const lease = (row, released) => {
    setView(shownRun, 14.3e6, 18e6);
    state.view = shownRun.view;
    painted.length = 0;
    holds.released[row] = released;
    drawLease(state, row, 0, 1);
    return furthest(state.colours.lease);
  };
  const held = state.run.lanes.flatMap((one) => [...one.holds.rows]).find((one) => holds.start[one] > 14.3e6);
  const released = lease(held, 1), died = lease(held, 0);
  const over = [xOf(state, holds.start[held] + holds.took[held]), xOf(state, holds.start[held] + holds.lease[held])];
  return { gone, over, released, died };
}"""


@pytest.mark.slow
def test_lost_keys_and_leases_end_at_the_next_one_or_at_the_release(opened: Open) -> None:
    """The dashes of c3's lost key do not lie under c1's key. The lease of a client that released has ended; that of a
    dead client has not."""
    drawn = opened("violation").evaluate(ENDS)
    furthest, following, said = drawn["gone"]
    assert said > following + 300
    assert following - 8 < furthest <= following + 5
    over, lease = drawn["over"]
    assert lease > over + 50
    assert drawn["released"] == pytest.approx(over)
    assert drawn["died"] == pytest.approx(lease)


NAMES = """() => {
  const drawn = [], context = { set fillStyle(_) {}, fillText: (name) => drawn.push(name) };
  drawNames({ ...shownRun, context, layout: { ...shownRun.layout, keyRow: KEY_ROW } });
  return drawn.filter((name) => /^n[15]/.test(name));
}"""


@pytest.mark.slow
def test_one_of_several_keys_can_be_chosen(opened: Open) -> None:
    page = opened("violation")
    chosen = page.get_by_label("Servers show")
    assert chosen.is_hidden()
    nothing = "for (const name of Object.keys(stays)) stays[name] = 'b:0:0'; keys.push('k1'); showRun(readRun(found));"
    page.evaluate(f"async () => {{ {FOUND} const {{ stays, keys }} = found.data; {nothing} }}")
    chosen.select_option("k1")
    assert page.evaluate("shownRun.key") == "k1"
    assert page.evaluate(NAMES) == ["n1 k1", "n5 k1"]
    page.click("[data-do=next]")
    assert page.evaluate("shownRun.key") == "k0"
    assert page.evaluate(NAMES) == ["n1 k0", "n5 k0"]
    assert chosen.input_value() == "k0"


CLOSER = """() => Array.from({ length: 25 }, () => {
  const pen = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const canvas = document.getElementById('timeline-canvas'), { layout } = shownRun;
  const closer = { deltaY: -400, ctrlKey: true, clientX: layout.width / 2, cancelable: true };
  canvas.dispatchEvent(new WheelEvent('wheel', closer));
  const took = [0, 1, 2].map(() => {
    const begun = performance.now();
    draw(shownRun);
    pen.drawImage(canvas, 0, 0);
    pen.getImageData(0, 0, 1, 1);
    return performance.now() - begun;
  });
  return [shownRun.view.until - shownRun.view.from, Math.min(...took)];
})"""


@pytest.mark.slow
def test_drawing_is_fast_at_every_zoom(opened: Open) -> None:
    """Leases, keys, dashes and faults may reach millions of pixels out of view. Only their visible part is drawn."""
    page = opened("violation")
    view(page)
    page.evaluate("setView(shownRun, 14.5e6, 14.7e6)")
    steps = page.evaluate(CLOSER)
    assert steps[-1][0] == pytest.approx(20), "the least view, in µs"
    assert max(took for _, took in steps) < 20 * FRAME_MS


FRAME_MS = 33.3
"""A frame at 30 a second, which a quiet machine keeps. Tests allow twenty of them: drawing every operation instead of
those in view takes longer, and a busy machine does not."""
PAN = """([middle, width]) => new Promise((done) => {
  setView(shownRun, middle - width / 2, middle + width / 2);
  const canvas = document.getElementById('timeline-canvas'), frames = [];
  let last = 0;
  const step = (now) => {
    if (last) frames.push(now - last);
    last = now;
    if (frames.length === 75) return done(frames.sort((a, b) => a - b));
    const deltaX = frames.length % 50 < 25 ? 12 : -12;
    canvas.dispatchEvent(new WheelEvent('wheel', { deltaX, cancelable: true }));
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""


@pytest.mark.slow
def test_a_hundred_thousand_operations_are_drawn_quickly(opened: Open, reported: Reported) -> None:
    """The run also has the state of five servers: a quarter of a million changes."""
    page = opened("large")
    size = reported("large").stat().st_size / 1e6
    painted = page.evaluate("performance.getEntriesByName('timeline-painted')[0].startTime")
    print(f"\n100,000 operations: file {size:.1f} MB, timeline painted after {painted:.0f} ms")
    assert page.evaluate("shownRun.run.calls.start.length") >= 100_000
    assert page.evaluate("shownRun.run.stays.start.length") >= 120_000
    assert painted < 20_000
    end = page.evaluate("shownRun.run.end")
    for share in (1.04, 0.3, 0.03, 0.003, 0.0003):
        frames = page.evaluate(PAN, [0.5 * end, share * end])
        median, rate = frames[len(frames) // 2], 1000 * len(frames) / sum(frames)
        print(f"panning over {share:.2%} of the run: {rate:.0f} frames a second, median {median:.1f} ms")
        assert median < 20 * FRAME_MS, f"{share:.2%} of the run in view"
