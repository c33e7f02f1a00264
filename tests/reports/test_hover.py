"""The tooltip at the pointer's place on the timeline, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page

from tests.reports.opened import CANVAS, Open, Reported, view, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.slow]


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
    canvas.hover(position={"x": x, "y": canvas.evaluate("() => serverTop(shownRun.layout, 4) + 50")})
    assert "n5's clock is" in tip.inner_text()
    page.mouse.move(5, 5)
    assert tip.is_hidden()


def hover_server(page: Page, server: int, seconds: float) -> str:
    """Return the tooltip at a time on a server's key."""
    where = "([i, t]) => ({ x: xOf(shownRun, t), y: serverTop(shownRun.layout, i) + 12 })"
    page.locator(CANVAS).hover(position=page.evaluate(where, [server, seconds * 1e6]))
    return page.locator("#timeline-tip").inner_text()


def hover_token(page: Page, verdict: int) -> str:
    """Return the tooltip of the first access in view with this reaction of the resource."""
    where = """(verdict) => { const { shown } = shownRun.run.tokens;
    const row = tokenRows(shownRun, "shown").find((row) => shown.verdict[row] === verdict);
    return { x: xOf(shownRun, shown.time[row]), y: tokenY(shownRun, shown.token[row]) }; }"""
    page.locator(CANVAS).hover(position=page.evaluate(where, verdict))
    return page.locator("#timeline-tip").inner_text()


def test_the_tooltip_of_a_key_names_its_owner_and_its_end(opened: Open) -> None:
    page = opened("violation")
    view(page)
    jumped = hover_server(page, 1, 14.4)
    assert "n2 at 14.4" in jumped
    assert "has k0 for c3 from 13.8" in jumped
    assert "gone at 14.568744 s, 1.27 s early, although no client had released it" in jumped
    assert "n2's clock is 12 s ahead" in jumped
    assert "clock: n2 +12 s, n3 +12 s, n5 +12 s" in jumped
    assert "released at" in hover_server(page, 0, 14.4)
    assert "has k0 for c1 from 14.5" in hover_server(page, 1, 14.65)


def test_close_up_times_have_enough_digits(opened: Open) -> None:
    """A tooltip near a mark, here two pixels away, shows the mark's own time."""
    page = opened("violation")
    page.evaluate("setView(shownRun, 14.568e6, 14.57e6)")
    view(page)
    assert page.locator("#timeline-shown").inner_text() == "14.5680 s to 14.5700 s"
    assert "n2 at 14.568744 s" in hover_server(page, 1, 14.5687475)


def test_the_tooltip_of_a_client_describes_its_fault(opened: Open) -> None:
    page = opened("unknown")
    view(page)
    where = "() => ({ x: xOf(shownRun, 28e6), y: laneTop(shownRun.layout, 4) + 40 })"
    page.locator(CANVAS).hover(position=page.evaluate(where))
    said = page.locator("#timeline-tip").inner_text()
    assert "client-pause on c4: injected at 27.600 s" in said
    assert "not observed to take effect" in said


def test_the_tooltip_of_a_stale_write_names_the_higher_token(opened: Open) -> None:
    page = opened("violation")
    view(page)
    said = hover_token(page, 1)
    assert "Token #130" in said
    assert "c3's write at 14." in said
    assert "accepted although stale" in said
    assert "the highest token of another client by then: #133" in said


@pytest.mark.slow
def test_a_refused_stale_write_is_shown_as_refused(opened: Open) -> None:
    page = opened("fenced")
    view(page)
    assert "refused by the resource" in hover_token(page, 2)
    legend = page.get_by_role("group", name="Legend").inner_text()
    assert "stale, refused" in legend
    assert "stale, yet accepted" not in legend


STAYS = """() => {
  const { run } = shownRun, { stays } = run, lane = run.stayLanes[0], row = lane.rows[0];
  const said = (change) => {
    for (const [name, value] of Object.entries(change)) if (name in stays) stays[name][row] = value;
    run.told = change.told;
    run.offsets = change.clock ? { n1: [[0, 5]] } : {};
    return stayLines(shownRun, 0, row).join("; ");
  };
  return [
    said({ renewed: 1, moved: 0, told: true }),
    said({ renewed: 2, moved: 1, told: true, clock: true }),
    said({ renewed: 0, moved: 3, told: false, clock: true }),
    said({ moved: 0, ended: UNRECORDED }),
    said({ who: -1, ended: UNRECORDED }),
  ];
}"""


def test_the_tooltip_of_a_moved_end_claims_only_what_is_recorded(opened: Open) -> None:
    """A renewal is attributed to its client. If no sender is recorded, the tooltip says only that the end moved."""
    renewed, clock, real, unknown, nothing = opened("violation").evaluate(STAYS)
    assert ", renewed once; expires at" in renewed
    assert ", renewed 2 times; its end was moved once by the clock; expires" in clock
    assert "renewed" not in real
    assert "; its end moved 3 times; expires" in real
    assert "not recorded after" in unknown
    assert "moved" not in unknown
    assert nothing.startswith("its state was not recorded after")


SERVER = "(i) => [xOf(shownRun, 14.4e6), serverTop(shownRun.layout, i) + 12]"


def tap(page: Page, x: float, y: float) -> None:
    """Tap a place of the timeline."""
    box = page.locator(CANVAS).bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + x, box["y"] + y)


def test_a_tap_shows_the_tooltip_until_the_next_tap(browser: Browser, reported: Reported) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 1400}, has_touch=True)
    page = context.new_page()
    page.goto(reported("violation").as_uri())
    wait_until(page, "performance.getEntriesByName('timeline-painted').length > 0")
    tip = page.locator("#timeline-tip")
    for server in (1, 2):
        tap(page, *page.evaluate(SERVER, server))
        wait_until(page, f"document.getElementById('timeline-tip').textContent.includes('n{server + 1} at 14.4')")
        assert tip.is_visible()
    page.touchscreen.tap(5, 5)
    assert tip.is_hidden()
    tap(page, *page.evaluate(SERVER, 1))
    assert tip.is_visible()
    tap(page, 5, 5)
    assert tip.is_hidden(), "there is nothing to describe"
    context.close()
