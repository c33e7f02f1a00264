"""What is said of the place on the timeline that the pointer is at, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.reports.opened import CANVAS, Open, view

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
    assert "wall clock of n5" in tip.inner_text()
    page.mouse.move(5, 5)
    assert tip.is_hidden()


def hover_server(page: Page, server: int, seconds: float) -> str:
    """What is said at a moment where a server's key is."""
    where = "([i, t]) => ({ x: xOf(shownRun, t), y: serverTop(shownRun.layout, i) + 12 })"
    page.locator(CANVAS).hover(position=page.evaluate(where, [server, seconds * 1e6]))
    return page.locator("#timeline-tip").inner_text()


def hover_token(page: Page, verdict: int) -> str:
    """What is said at the first access in view of which the resource thought so."""
    where = """(verdict) => { const { shown } = shownRun.run.tokens;
    const row = tokenRows(shownRun, "shown").find((row) => shown.verdict[row] === verdict);
    return { x: xOf(shownRun, shown.time[row]), y: tokenY(shownRun, shown.token[row]) }; }"""
    page.locator(CANVAS).hover(position=page.evaluate(where, verdict))
    return page.locator("#timeline-tip").inner_text()


def test_pointing_at_a_servers_key_says_whose_it_is_and_how_it_went(opened: Open) -> None:
    page = opened("violation")
    view(page)
    jumped = hover_server(page, 1, 14.4)
    assert "n2 at 14.4" in jumped
    assert "has k0 for c3 from 13.8" in jumped
    assert "gone at 14.568744 s, 1.27 s early, though nobody had given it back" in jumped
    assert "wall clock of n2: +12 s" in jumped
    assert "clock: n2 +12 s, n3 +12 s, n5 +12 s" in jumped
    assert "given back at" in hover_server(page, 0, 14.4)
    assert "has k0 for c1 from 14.5" in hover_server(page, 1, 14.65)


def test_close_up_times_have_the_digits_that_tell_them_apart(opened: Open) -> None:
    """And of what the pointer is only near, here by two pixels, its own time is said."""
    page = opened("violation")
    page.evaluate("setView(shownRun, 14.568e6, 14.57e6)")
    view(page)
    assert page.locator("#timeline-shown").inner_text() == "14.5680 s to 14.5700 s"
    assert "n2 at 14.568744 s" in hover_server(page, 1, 14.5687475)


def test_pointing_at_a_client_says_what_was_seen_of_its_fault(opened: Open) -> None:
    page = opened("unknown")
    view(page)
    where = "() => ({ x: xOf(shownRun, 28e6), y: laneTop(shownRun.layout, 4) + 40 })"
    page.locator(CANVAS).hover(position=page.evaluate(where))
    said = page.locator("#timeline-tip").inner_text()
    assert "client-pause on c4: injected at 27.600 s" in said
    assert "not observed to take effect" in said


def test_pointing_at_a_stale_write_says_what_was_higher(opened: Open) -> None:
    page = opened("violation")
    view(page)
    said = hover_token(page, 1)
    assert "Token #130" in said
    assert "c3's write at 14." in said
    assert "accepted, though it was stale" in said
    assert "the highest token of another client by then: #133" in said


@pytest.mark.slow
def test_a_stale_write_that_was_refused_is_no_stale_write(opened: Open) -> None:
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


def test_what_moved_an_end_and_what_is_not_recorded_is_said_as_it_is_known(opened: Open) -> None:
    """A renewal is its client's own; where nobody says who sent what, an end that moved has only moved."""
    renewed, clock, real, unknown, nothing = opened("violation").evaluate(STAYS)
    assert ", renewed once; to end by itself" in renewed
    assert ", renewed 2 times; its end was moved once by the clock; to end" in clock
    assert "renewed" not in real
    assert "; its end moved 3 times; to end" in real
    assert "what became of it after" in unknown
    assert "moved" not in unknown
    assert nothing.startswith("what it has was not recorded after")
