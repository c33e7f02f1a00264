"""The cursor of the timeline, which needs no pointer, and the search for calls, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.reports.opened import CANVAS, Open, view

pytestmark = pytest.mark.browser


def said(page: Page) -> str:
    return page.locator("#timeline-said").inner_text()


def press(page: Page, *keys: str) -> str:
    """Press keys on the timeline, and return what is announced."""
    page.focus(CANVAS)
    for key in keys:
        page.keyboard.press(key)
    return said(page)


def cursor(page: Page) -> float:
    return float(page.evaluate("shownRun.cursor.time"))


@pytest.mark.slow
def test_keys_walk_through_the_marks_of_a_violation_and_describe_them(opened: Open) -> None:
    page = opened("violation")
    first = press(page, "n", ".")
    tip = page.locator("#timeline-tip")
    assert tip.is_visible()
    assert first == "; ".join(tip.locator("> *").all_inner_texts())
    assert first.startswith("c0 at ")
    at = cursor(page)
    assert press(page, ".", ".", ",", ",").startswith("c0 at ")
    assert cursor(page) == at, "there and back"
    server = press(page, *["PageDown"] * 6)
    assert server.startswith("n2 at ")
    assert "n2's clock is" in server
    assert press(page, "Escape")
    assert tip.is_hidden()


@pytest.mark.slow
def test_every_row_is_reachable_and_its_end_is_announced(opened: Open) -> None:
    page = opened("violation")
    page.click("[data-do=whole]")
    names = [press(page, "PageUp") for _ in range(20)][-1:]
    for _ in range(13):
        names.append(press(page, "PageDown"))
    rows = page.evaluate("cursorRows(shownRun).map((row) => row.name)")
    assert rows == ["faults", *(f"c{i}" for i in range(5)), *(f"n{i}" for i in range(1, 6)), "tokens"]
    for row in rows[1:-1]:
        assert any(name.startswith(f"{row} at ") for name in names), row
    assert names[-1].startswith("Token ")
    page.evaluate("shownRun.cursor = { row: 1, time: 1e12 }")
    assert press(page, ".") == "No later mark in the row c0."
    page.evaluate("shownRun.cursor = { row: 1, time: -1 }")
    assert press(page, ",") == "No earlier mark in the row c0."


@pytest.mark.slow
def test_the_view_follows_the_cursor(opened: Open) -> None:
    page = opened("violation")
    page.evaluate("setView(shownRun, 14.6e6, 14.65e6)")
    for _ in range(30):
        press(page, ".")
        from_, until = view(page)
        assert from_ <= cursor(page) <= until
    assert until - from_ == pytest.approx(50_000, abs=2)


@pytest.mark.slow
def test_a_move_of_the_view_hides_the_tooltip_until_the_next_mark(opened: Open) -> None:
    page = opened("violation")
    tip = page.locator("#timeline-tip")
    for key in ("ArrowRight", "+", "n", "Home"):
        press(page, ".")
        assert tip.is_visible(), key
        press(page, key)
        assert tip.is_hidden(), key
        assert page.evaluate("shownRun.pointer") is None, key
    for button in ("next", "whole"):
        find(page, f"#{page.evaluate('shownRun.run.calls.invoked[100]')}")
        assert tip.is_visible(), button
        page.evaluate(f"document.querySelector('[data-do={button}]').click()")  # without a pointer that leaves
        assert tip.is_hidden(), button


@pytest.mark.slow
def test_an_update_of_the_run_that_keeps_the_view_keeps_the_tooltip(opened: Open) -> None:
    page = opened("violation")
    press(page, "n", ".")
    before = view(page)
    load = "const found = await decompress(document.getElementById('run-data').textContent);"
    page.evaluate(f"async () => {{ {load} found.data.end += 1e6; showRun(readRun(found), {{ follow: true }}); }}")
    assert view(page) == before
    assert page.locator("#timeline-tip").is_visible()


def find(page: Page, text: str, *keys: str) -> str:
    """Search, and return which of the calls is shown."""
    page.fill("#timeline-find input", text)
    for key in keys or ("Enter",):
        page.press("#timeline-find input", key)
    return page.locator("#timeline-find output").inner_text()


@pytest.mark.slow
def test_a_call_is_found_by_its_number(opened: Open) -> None:
    page = opened("violation")
    number = page.evaluate("shownRun.run.calls.invoked[100]")
    assert find(page, f"#{number}") == "1 of 1"
    assert f"#{number} process" in said(page)
    assert page.locator("#timeline-tip").is_visible()
    from_, until = view(page)
    assert from_ <= page.evaluate("shownRun.run.calls.start[100]") <= until
    assert find(page, "#99999999") == "no call matches"
    assert said(page) == "No call matches #99999999."


@pytest.mark.slow
def test_calls_are_found_by_client_key_and_outcome(opened: Open) -> None:
    page = opened("violation")
    calls = page.evaluate("shownRun.run.calls.start.length")
    assert find(page, "k0").endswith(f" of {calls}") or "of" in find(page, "k0")
    of_client = int(find(page, "c1").partition(" of ")[2])
    assert 0 < of_client < calls
    assert said(page).startswith("c1 at ")
    refused = find(page, "c1 acquire fail")
    assert int(refused.partition(" of ")[2]) < of_client
    assert "fail" in said(page)
    first = find(page, "c1 acquire").partition(" of ")[0]
    assert find(page, "c1 acquire", "Enter").partition(" of ")[0] != first
    assert find(page, "c1 acquire", "Shift+Enter").partition(" of ")[0] == first


@pytest.mark.slow
def test_a_slash_goes_to_the_search(opened: Open) -> None:
    page = opened("violation")
    press(page, "/")
    assert page.evaluate("document.activeElement.name") == "text"


@pytest.mark.slow
def test_clocks_are_named_in_the_picture(opened: Open) -> None:
    """The labels of clocks name the host and say ahead, behind or correct."""
    page = opened("violation")
    texts = page.evaluate(
        """() => { const texts = [], old = shownRun.context.fillText;
        shownRun.context.fillText = (text) => texts.push(text);
        setView(shownRun, 13e6, 17e6); draw(shownRun);
        shownRun.context.fillText = old; return texts; }"""
    )
    clocks = [text for text in texts if "clock is" in text]
    assert any(text.startswith("n2's clock is ") for text in clocks)
    assert all(text.endswith(("ahead", "behind", "correct")) for text in clocks)
