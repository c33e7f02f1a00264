"""The page of a run in progress in a real browser, while the run goes on."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.reports import axe
from tests.serve.asking import serve_store
from tests.serve.watching import watched
from tests.serve.writing import Recording

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path / "store")


@pytest.fixture
def base(tmp_path: Path) -> Iterator[str]:
    with serve_store(tmp_path / "store") as address:
        yield address


@pytest.fixture
def page(browser: Browser, base: str) -> Iterator[Page]:
    with watched(browser, base, 1000) as opened:
        yield opened


def number(page: Page, name: str) -> float:
    return float(page.locator(f"#live-{name}").inner_text().replace(",", "").split()[0])


def view(page: Page) -> tuple[float, float]:
    canvas = page.locator("#timeline-canvas")
    return tuple(float(canvas.get_attribute(f"data-{end}") or 0) for end in ("from", "until"))  # type: ignore[return-value]


def expect_view(page: Page, holds: Callable[[tuple[float, float]], bool]) -> None:
    """Wait until the part of the timeline that the page shows is as it should be."""
    deadline = time.monotonic() + 60
    while not holds(view(page)):
        assert time.monotonic() < deadline, view(page)
        page.wait_for_timeout(50)


def test_the_page_updates_until_the_verdict(recording: Recording, page: Page, base: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    recording.until(2.0)
    page.goto(base + recording.address)
    expect(page.locator("#live-word")).to_have_text("Running now")
    expect(page.locator("#timeline-canvas[data-until]")).to_be_visible()
    granted, elapsed, end = number(page, "granted"), number(page, "time"), view(page)[1]
    recording.until(6.0)
    expect(page.locator("#live-time")).to_contain_text("5.9 of 8 s")
    assert number(page, "granted") > granted
    assert number(page, "time") > elapsed + 1
    expect_view(page, lambda view: view[1] > end + 1e6)
    recording.end()
    expect(page.locator("#live-word")).to_have_text("Violation found")
    expect(page.locator("#live-story")).to_contain_text("held k0 at the same time")
    expect(page.locator("#live-granted")).to_have_text(str(recording.result.document["stats"]["acquires_ok"]))
    assert page.title().startswith("Violation found: redis-token")
    link = page.get_by_role("link", name="Open the run and its report")
    expect(link).to_be_visible()
    polls = len(asked)
    page.wait_for_timeout(1500)
    assert len(asked) == polls, "nobody asks about what is over"
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Violation found")


def test_the_page_of_the_run_shows_the_verdict_when_there_is_one(recording: Recording, page: Page) -> None:
    recording.until(2.0)
    page.goto(recording.address.replace("/live/", "/runs/"))
    expect(page.locator("h1")).to_have_text("Running now")
    recording.end()
    expect(page.locator("h1")).to_have_text("Violation found", timeout=60_000)
    expect(page.get_by_role("link", name="Watch it live")).to_have_count(0)


def test_active_faults_are_listed(recording: Recording, page: Page, base: str) -> None:
    recording.until(2.0)
    page.goto(base + recording.address)
    expect(page.locator("#live-faults")).to_contain_text("client-pause")


def test_the_view_stays_after_scrolling_until_the_user_resumes(
    browser: Browser, recording: Recording, base: str
) -> None:
    """Another page on the same run keeps following it."""
    pages = [browser.new_page(viewport={"width": 1000, "height": 900}) for _ in range(2)]
    recording.until(3.0)
    for page in pages:
        page.goto(base + recording.address)
        expect(page.locator("#timeline-canvas[data-until]")).to_be_visible()
    first, second = pages
    follow = first.get_by_role("button", name="Follow the last 15 s")
    expect(follow).to_have_attribute("aria-pressed", "true")
    first.locator("#timeline-canvas").focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowLeft", "ArrowLeft", "ArrowLeft"):
        first.keyboard.press(key)
    first.wait_for_timeout(200)
    looked_at, followed = view(first), view(second)
    recording.until(6.0)
    expect(second.locator("#live-time")).to_contain_text("5.9 of 8 s")
    expect(first.locator("#live-time")).to_contain_text("5.9 of 8 s")
    expect_view(second, lambda view: view[1] > followed[1] + 2e6)
    assert view(first) == looked_at
    expect(follow).to_have_attribute("aria-pressed", "false")
    follow.click()
    expect_view(first, lambda seen: seen == view(second))
    for page in pages:
        page.close()


def test_a_killed_run_and_a_stopped_server_are_reported(browser: Browser, recording: Recording, tmp_path: Path) -> None:
    page = browser.new_page()
    recording.until(3.0)
    with serve_store(tmp_path / "store") as base:
        page.goto(base + recording.address)
        expect(page.locator("#live-word")).to_have_text("Running now")
    expect(page.locator("#live-trouble")).to_contain_text("does not answer")
    recording.writer.close()
    with serve_store(tmp_path / "store") as base:
        page.goto(base + recording.address)
        expect(page.locator("#live-word")).to_have_text("Interrupted")
        expect(page.get_by_role("link", name="Open the run", exact=True)).to_be_visible()
    page.close()


def test_a_browser_that_cannot_decompress_shows_everything_but_the_timeline(
    browser: Browser, recording: Recording, base: str
) -> None:
    page = browser.new_page()
    page.add_init_script("delete globalThis.DecompressionStream")
    recording.until(2.0)
    page.goto(base + recording.address)
    expect(page.locator("#live-trouble")).to_have_text(
        "The timeline cannot be drawn: DecompressionStream is not defined"
    )
    early = page.locator("#live-granted").inner_text()
    recording.until(5.0)
    expect(page.locator("#live-granted")).not_to_have_text(early)
    page.close()


def test_two_holders_are_highlighted(recording: Recording, page: Page, base: str) -> None:
    """Only after they have held together for so long that no release can still be under way."""
    [overlap, *_] = recording.result.verdicts["mutual-exclusion"].evidence
    begin = (overlap.from_ns - recording.ops[0].time) / 1e9
    recording.until(begin)
    page.goto(base + recording.address)
    expect(page.locator("#live-keys")).to_contain_text(" and ")
    expect(page.locator("#live-keys .bad")).to_have_count(0)
    held = {hold["client"] for hold in overlap.involved}
    later = next(op for op in recording.ops if op.time > overlap.from_ns and op.f == "acquire" and op.node not in held)
    recording.writer.write(msgspec.structs.replace(later, time=overlap.from_ns + 300_000_000))
    expect(page.locator("#live-keys .bad")).to_contain_text("2 at once")


def test_the_running_verdict_is_shown(recording: Recording, page: Page, base: str) -> None:
    [overlap, *_] = recording.result.verdicts["mutual-exclusion"].evidence
    begin = (overlap.from_ns - recording.ops[0].time) / 1e9
    recording.until(begin - 0.001)
    page.goto(base + recording.address)
    so_far = page.locator("#live-so-far")
    expect(so_far).to_have_text(re.compile(r"^No violation so far, \d+ calls\.$"))
    expect(so_far).not_to_have_class("story bad")
    recording.until(begin + 0.5)
    expect(so_far).to_contain_text(f"Violation at {begin:.3f} s: ")
    expect(so_far).to_contain_text("held k0")
    expect(so_far).to_have_class("story bad")
    expect(so_far).to_have_attribute("role", "alert")
    expect(page.locator("#live-word")).to_have_text("Running now")
    recording.end()
    expect(page.locator("#live-word")).not_to_have_text("Running now")
    expect(so_far).to_be_hidden()


def test_the_live_page_is_accessible(browser: Browser, recording: Recording, base: str) -> None:
    recording.until(3.0)
    address = base + recording.address
    assert axe.in_every_look(browser, address) == []
    page = browser.new_page(viewport={"width": 400, "height": 900})
    page.goto(address)
    expect(page.locator("#timeline-canvas[data-until]")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.close()
    recording.end()
    time.sleep(0.1)
    assert axe.in_every_look(browser, address) == []
